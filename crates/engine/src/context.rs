//! What surrounds a task: its messages, its recorders, requests to stop, and the run's results.

use paceline_model::Layout;
use paceline_observe::{Recorder, ServerRecorder, Summary};

use crate::error::TrainError;

/// How important a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteLevel {
    /// For the log.
    Info,
    /// For the log and for people.
    Warning,
}

/// What surrounds a task. All threads of the task share it.
///
/// Every method has a default that suits a task without a log, signals or a run directory.
pub trait TaskContext: Send + Sync + 'static {
    /// A message about the task.
    fn note(&self, _level: NoteLevel, _text: &str) {}

    /// The recorder for a training loop. Called for the first loop of a process, and for later
    /// ones after that loop has ended; loops beside it record nothing.
    fn recorder(&self) -> Result<Box<dyn Recorder + Send>, TrainError> {
        Ok(Box::new(()))
    }

    /// The recorder of a server.
    fn server_recorder(&self) -> Result<Box<dyn ServerRecorder>, TrainError> {
        Ok(Box::new(()))
    }

    /// The signal that asks the run to stop, if one was received.
    fn stop_signal(&self) -> Option<i32> {
        None
    }

    /// Whether this process should leave the run while the others continue.
    fn should_leave(&self) -> bool {
        false
    }

    /// Whether the run has ended without this task: its summary is written.
    fn is_run_over(&self) -> bool {
        false
    }

    /// A coordinator starts to train: a summary that an earlier one has written is void.
    fn reopen_run(&self) -> Result<(), TrainError> {
        Ok(())
    }

    /// Keeps the final parameters. Only the coordinator has them.
    fn save_model(&self, _model: FinalModel<'_>) -> Result<(), TrainError> {
        Ok(())
    }

    /// Keeps the run's summary, after everything else is kept. `has_timeline` says whether the
    /// coordinator recorded a timeline.
    fn save_summary(&self, _summary: &Summary, _has_timeline: bool) -> Result<(), TrainError> {
        Ok(())
    }
}

/// The context of a task without a log, signals or a run directory.
impl TaskContext for () {}

/// The final parameters of a run.
pub struct FinalModel<'a> {
    /// Names and shapes of the tensors.
    pub layout: &'a Layout,
    /// The global step of the parameters.
    pub step: u64,
    params: &'a mut ForEachPiece<'a>,
}

/// Receives parameters, a piece at a time.
pub type VisitPiece<'a> = dyn FnMut(&[f32]) -> Result<(), TrainError> + 'a;

/// Calls its argument with all parameters in order, a piece at a time.
pub(crate) type ForEachPiece<'a> = dyn FnMut(&mut VisitPiece<'_>) -> Result<(), TrainError> + 'a;

impl<'a> FinalModel<'a> {
    pub(crate) fn new(layout: &'a Layout, step: u64, params: &'a mut ForEachPiece<'a>) -> Self {
        Self { layout, step, params }
    }

    /// Calls `visit` with all parameters in order, a piece at a time.
    pub fn for_each_piece(self, visit: &mut VisitPiece<'_>) -> Result<(), TrainError> {
        (self.params)(visit)
    }
}
