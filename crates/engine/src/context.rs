//! What surrounds a task: its messages, its recorders, requests to stop, and the run's results.

use std::fmt;

use paceline_model::Layout;
use paceline_observe::{BestTest, Recorder, ServerRecorder, Summary};

use crate::error::TrainError;

/// How important a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteLevel {
    /// For the log.
    Info,
    /// For the log and for people.
    Warning,
}

/// Work between the steps that may take long, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongWork {
    /// Tests the parameters.
    Test {
        /// Examples tested.
        done: u64,
        /// Examples to test.
        total: u64,
    },
    /// Writes the model.
    SaveModel {
        /// Bytes written.
        done: u64,
        /// Bytes to write.
        total: u64,
    },
    /// Waits until the last checkpoint is written.
    SaveCheckpoint {
        /// 1 once it is written.
        done: u64,
        /// 1.
        total: u64,
    },
}

impl LongWork {
    /// Whether the work is done.
    pub fn is_done(self) -> bool {
        let (Self::Test { done, total }
        | Self::SaveModel { done, total }
        | Self::SaveCheckpoint { done, total }) = self;
        done >= total
    }
}

/// The work in words, such as `testing 3200/10000`.
impl fmt::Display for LongWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes / 1_000_000;
        match *self {
            Self::Test { done, total } => write!(f, "testing {done}/{total}"),
            Self::SaveModel { done, total } => {
                write!(f, "writing the model, {}/{} MB", megabytes(done), megabytes(total))
            }
            Self::SaveCheckpoint { .. } => f.write_str("writing the last checkpoint"),
        }
    }
}

/// What surrounds a task. All threads of the task share it.
///
/// Every method has a default that suits a task without a log, signals or a run directory.
pub trait TaskContext: Send + Sync + 'static {
    /// A message about the task.
    fn note(&self, _level: NoteLevel, _text: &str) {}

    /// What the task waits for, about once a second, from a second after the wait began. A later
    /// text replaces an earlier one; `None` says that the wait is over.
    fn waiting(&self, _text: Option<&str>) {}

    /// How far some work between the steps has come; called many times. At its end, `done` is
    /// `total`.
    fn working(&self, _work: LongWork) {}

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

    /// Whether the run is about to end because of a signal, as far as this task knows: the
    /// coordinator decides.
    fn is_run_ending(&self) -> bool {
        self.stop_signal().is_some()
    }

    /// Whether this process should leave the run while the others continue.
    fn should_leave(&self) -> bool {
        false
    }

    /// Whether the run has ended without this task: its summary is written.
    fn is_run_over(&self) -> bool {
        false
    }

    /// If checkpoints need a common directory and this task does not share the coordinator's: what
    /// is wrong. Called once the coordinator has connected.
    fn separate_run(&self) -> Option<String> {
        None
    }

    /// A coordinator starts to train: a summary that an earlier one has written is void.
    fn reopen_run(&self) -> Result<(), TrainError> {
        Ok(())
    }

    /// Keeps the final parameters. Only the coordinator has them.
    fn save_model(&self, _model: FinalModel<'_>) -> Result<(), TrainError> {
        Ok(())
    }

    /// Keeps the parameters of the best test so far, in place of those kept before. Only the
    /// coordinator has them.
    fn save_best(&self, _model: FinalModel<'_>, _best: &BestTest) -> Result<(), TrainError> {
        Ok(())
    }

    /// The test of the best parameters that are kept, if an earlier process of the run has kept
    /// any.
    fn kept_best(&self) -> Result<Option<BestTest>, TrainError> {
        Ok(None)
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
