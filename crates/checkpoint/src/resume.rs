//! The sequence by which a run resumes. The program and a session share it.
//!
//! [`ResumeRequest::resume_point`] refuses a checkpoint that the run cannot continue from, before
//! anything is changed. Then the caller opens the run, and [`CheckpointDir::set_aside_after`] moves
//! newer checkpoints out of the way.

use paceline_model::{Layout, OptimizerSpec};

use crate::dir::{Checkpoint, CheckpointDir};
use crate::error::CheckpointError;
use crate::resume_point::ResumePoint;
use crate::step_layout::StepLayout;

/// What a run resumes with, and how it continues.
pub struct ResumeRequest<'a> {
    /// The step layout of the run that continues.
    pub steps: StepLayout,
    /// When it ends.
    pub end: PlannedEnd,
    /// Examples to train on.
    pub examples: usize,
    /// What the checkpoint must fit; `None` if the caller does not know the model.
    pub model: Option<ResumedModel<'a>>,
}

/// When a run ends, as far as that is known before it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedEnd {
    /// After this many global steps.
    pub steps: Option<u64>,
    /// After this many passes over the data.
    pub epochs: Option<u64>,
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
    pub fn resume_point(&self, checkpoint: Checkpoint) -> Result<ResumePoint, CheckpointError> {
        let from = ResumePoint::new(checkpoint, self.steps);
        from.check_unfinished(self.end, self.examples)?;
        if let Some(model) = &self.model {
            from.check(model.layout, model.optimizer)?;
        }
        Ok(from)
    }
}

impl ResumePoint {
    /// Refuses to resume a run that has ended.
    pub fn check_unfinished(
        &self,
        end: PlannedEnd,
        examples: usize,
    ) -> Result<(), CheckpointError> {
        let by_steps = end.steps.is_some_and(|steps| self.step() >= steps);
        let after = |epochs: u64| epochs.saturating_mul(examples as u64);
        let by_epochs = end.epochs.is_some_and(|epochs| self.position() >= after(epochs));
        if !by_steps && !by_epochs {
            return Ok(());
        }
        let end = match (end.steps.filter(|_| by_steps), end.epochs) {
            (Some(steps), _) => format!("train.stop.steps = {steps}"),
            (None, epochs) => format!("train.stop.epochs = {}", epochs.unwrap_or_default()),
        };
        Err(CheckpointError::Refused(format!(
            "the checkpoint to resume from is of step {}, which is at or past the end ({end}): \
             there is nothing left to do; to train further, set a later end (train.stop.steps or \
             train.stop.epochs of a job, Stop of a session)",
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
    ) -> Result<Checkpoint, CheckpointError> {
        if let Some(remote) = &self.remote {
            return self.fetch(remote, step);
        }
        let Some(step) = step else { return self.newest(warn) };
        let wrong = |why| CheckpointError::Refused(format!("the checkpoint of step {step}: {why}"));
        self.verify(step).map_err(wrong)
    }
}
