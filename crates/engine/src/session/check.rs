//! Which settings of a session can be used.

use paceline_exchange::{FactorChoice, WireFormat};
use paceline_model::ParamTable;

use super::Session;
use crate::error::TrainError;
use crate::settings::{Mode, Stop};

impl Session {
    /// Refuses settings that cannot be used, before anything is started or written.
    pub(super) fn check(&self) -> Result<(), TrainError> {
        let wrong = |text: String| Err(TrainError::Settings(text));
        let (batch, examples) = (self.settings.batch, self.workload.data.train_len());
        if let Some(problem) = self.sharing.problem() {
            return wrong(format!("{}: {problem}", self.sharing));
        }
        if batch == 0 {
            return wrong("batch is 0, but must be at least 1".into());
        }
        if batch > examples {
            return wrong(format!("batch is {batch}, but there are {examples} training examples"));
        }
        if self.settings.stop == Stop::default() {
            return wrong(
                "the run never stops: set Stop::epochs, steps, seconds, test_loss or patience"
                    .into(),
            );
        }
        if self.settings.stop.patience == Some(0) {
            return wrong("patience is 0, but must be at least 1".into());
        }
        if self.workload.is_sparse() && self.sharing.wire == WireFormat::Bf16 {
            return wrong("bf16 is for dense models; leave Sharing::wire out".into());
        }
        if self.sharing.mode != Mode::Mirrored && self.settings.factors != FactorChoice::Auto {
            return wrong("factors are for Sharing::mesh; leave Session::factors out".into());
        }
        if self.contexts.len() > 1 {
            return wrong("call record or contexts only once".into());
        }
        self.settings.optimizer.check().map_err(TrainError::Settings)?;
        if self.workload.is_sparse() {
            let width = self.workload.layout()?.width();
            ParamTable::supports(&self.settings.optimizer, width).map_err(TrainError::Settings)?;
        }
        self.workload.check_inputs()?;
        self.workload.check_labels()?;
        self.check_threads()?;
        self.check_checkpoints()
    }

    fn check_threads(&self) -> Result<(), TrainError> {
        let remedy = match self.threads {
            0 => "a worker needs at least one",
            1 => return Ok(()),
            _ if self.is_built_with_threads || self.trains_table() => return Ok(()),
            _ if self.workload.is_sparse() => {
                "a worker of a shared sparse model has one; set more workers"
            }
            _ => "this model is cloned and takes none; use Session::with_builder, or more workers",
        };
        Err(TrainError::Settings(format!("threads is {}: {remedy}", self.threads)))
    }

    fn check_checkpoints(&self) -> Result<(), TrainError> {
        let wrong = |text: String| Err(TrainError::Settings(text));
        let Some(dir) = &self.checkpoints else {
            if self.resumes {
                return wrong(
                    "resume needs checkpoints; name their directory with Session::checkpoints"
                        .into(),
                );
            }
            return Ok(());
        };
        if let Some(problem) = self.settings.checkpoint.and_then(|settings| settings.problem()) {
            return wrong(format!("checkpoints: {problem}"));
        }
        if let Some(&step) = dir.steps().first().filter(|_| !self.resumes) {
            let place = dir.place(step);
            return wrong(format!(
                "{}: an earlier run has left this checkpoint; call resume, or name a new directory",
                place.display()
            ));
        }
        Ok(())
    }
}
