//! Why training fails.

use std::{fmt, io};

use paceline_checkpoint::CheckpointError;
use paceline_data::DataError;
use paceline_net::LinkError;

/// Why a task of a run ended without doing what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The data is missing or damaged.
    #[error("{0}")]
    Data(#[from] DataError),
    /// A setting cannot be used. The message names the setting and the remedy.
    #[error("{0}")]
    Settings(String),
    /// A file or socket failed.
    #[error("{what}: {source}")]
    Io {
        /// What the task was doing, with the path or address.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The loss is not a number, or far above where it started.
    #[error("{0}")]
    Diverged(Divergence),
    /// Training produced something that cannot be used.
    #[error("{0}")]
    Training(String),
    /// Another task of the run is gone, or never came. Worth a retry.
    #[error("{0}")]
    Lost(String),
    /// The user or the system asked the task to end while it could not do so cleanly.
    #[error("{0}")]
    Interrupted(String),
    /// A newer process has taken over this one's place. Worth a retry.
    #[error("{0}")]
    Replaced(String),
}

impl TrainError {
    /// For `map_err`: an I/O error while the task did `what`.
    pub(crate) fn while_doing(what: &str) -> impl FnOnce(io::Error) -> TrainError {
        let what = what.to_owned();
        move |source| TrainError::Io { what, source }
    }
}

impl From<CheckpointError> for TrainError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Refused(why) => TrainError::Settings(why),
            CheckpointError::Io { what, source } => TrainError::Io { what, source },
        }
    }
}

impl From<LinkError> for TrainError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Io(source) => TrainError::Io { what: "the worker's sockets".into(), source },
            LinkError::SlotTaken(why) => TrainError::Replaced(why),
            error @ LinkError::Denied(_) => TrainError::Settings(error.to_string()),
            error @ LinkError::Interrupted { .. } => TrainError::Interrupted(error.to_string()),
            error => TrainError::Lost(error.to_string()),
        }
    }
}

/// The failure of a recorder, whose error names the file.
pub(crate) fn record_failure(error: io::Error) -> TrainError {
    TrainError::Training(error.to_string())
}

/// Why training is taken for diverged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// The loss: of a batch, the mean of the last batches, or of the final test.
    pub loss: f64,
    /// The global step.
    pub step: u64,
    /// The loss at the start, if it matters: no start makes a loss right that is not a number.
    pub start: Option<f64>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { loss, step, start } = *self;
        match start {
            Some(start) => {
                let (start, loss) = (Loss(start), Loss(loss));
                write!(f, "the loss rose from {start} to {loss} at step {step}")?;
            }
            None => write!(f, "the loss became {loss} at step {step}")?,
        }
        f.write_str(": training diverged; try a smaller learning rate")
    }
}

/// Writes a loss with as many digits as a person reads.
struct Loss(f64);

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1e5 { write!(f, "{:.1e}", self.0) } else { write!(f, "{:.3}", self.0) }
    }
}
