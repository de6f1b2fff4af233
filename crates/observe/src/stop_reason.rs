//! Why a run ended.

/// The condition that ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The passes over the data are done.
    Epochs,
    /// The global steps are done.
    Steps,
    /// The time is up.
    Seconds,
    /// The test loss is low enough.
    TestLoss,
    /// As many tests in a row as the run's patience allows were no better than the best one.
    Patience,
    /// The user or the system asked for it.
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

impl StopReason {
    /// Its name in `summary.json`: the key in the job file where there is one.
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Epochs => "epochs",
            StopReason::Steps => "steps",
            StopReason::Seconds => "seconds",
            StopReason::TestLoss => "test_loss",
            StopReason::Patience => "patience",
            StopReason::Interrupted { .. } => "interrupted",
        }
    }

    /// The signal that ended the run, if one did.
    pub fn signal(self) -> Option<i32> {
        match self {
            StopReason::Interrupted { signal } => Some(signal),
            _ => None,
        }
    }
}
