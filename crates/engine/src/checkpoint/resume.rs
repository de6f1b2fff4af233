//! The sequence by which a run resumes. The program and a session share it.
//!
//! [`ResumeRequest::resume_point`] refuses a checkpoint that the run cannot continue from, before
//! anything is changed. Then the caller opens the run, and [`CheckpointDir::set_aside_after`] moves
//! newer checkpoints out of the way.

use paceline_model::{Layout, OptimizerSpec};

use super::dir::{Checkpoint, CheckpointDir};
use super::resume_point::ResumePoint;
use crate::error::TrainError;
use crate::settings::{StepLayout, Stop};

/// What is to be resumed, and how it continues.
pub struct ResumeRequest<'a> {
    /// The step layout of the run that continues.
    pub steps: StepLayout,
    /// When it ends.
    pub stop: Stop,
    /// Examples to train on.
    pub examples: usize,
    /// What the checkpoint must fit; `None` if the caller does not know the model.
    pub model: Option<ResumedModel<'a>>,
}

/// A model and its optimizer, which a checkpoint must fit.
pub struct ResumedModel<'a> {
    /// Names and shapes of the parameters.
    pub layout: &'a Layout,
    /// The optimizer, whose state the checkpoint must have.
    pub optimizer: &'a OptimizerSpec,
}

impl ResumeRequest<'_> {
    /// The start of the run that continues from `checkpoint`.
    ///
    /// # Errors
    /// If the run has ended, or the checkpoint is of another model or optimizer.
    pub fn resume_point(&self, checkpoint: Checkpoint) -> Result<ResumePoint, TrainError> {
        let from = ResumePoint::new(checkpoint, self.steps);
        from.check_unfinished(&self.stop, self.examples)?;
        if let Some(model) = &self.model {
            from.check(model.layout, model.optimizer)?;
        }
        Ok(from)
    }
}

impl ResumePoint {
    /// Refuses to resume a run that has ended.
    pub fn check_unfinished(&self, stop: &Stop, examples: usize) -> Result<(), TrainError> {
        let by_steps = stop.steps.is_some_and(|steps| self.step() >= steps);
        let end = |epochs: u64| epochs.saturating_mul(examples as u64);
        let by_epochs = stop.epochs.is_some_and(|epochs| self.position() >= end(epochs));
        if !by_steps && !by_epochs {
            return Ok(());
        }
        Err(TrainError::Settings(format!(
            "the run ended at step {}, and there is nothing left to do; to train further, set a \
             later end (train.stop.steps or train.stop.epochs of a job, Stop of a session)",
            self.step()
        )))
    }
}

impl CheckpointDir {
    /// The checkpoint of `step`, or else the newest sound one. `warn` receives why newer ones are
    /// skipped.
    ///
    /// # Errors
    /// If the checkpoint of `step` is unsound, or there is no sound one.
    pub fn choose(
        &self,
        step: Option<u64>,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Checkpoint, TrainError> {
        let Some(step) = step else { return self.newest(warn) };
        let wrong = |why| TrainError::Settings(format!("the checkpoint of step {step}: {why}"));
        self.verify(step).map_err(wrong)
    }
}
