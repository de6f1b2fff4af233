//! Why training fails.

use std::io;

use paceline_checkpoint::CheckpointError;
use paceline_data::DataError;
use paceline_net::LinkError;
use paceline_observe::Divergence;

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

impl From<Divergence> for TrainError {
    fn from(divergence: Divergence) -> Self {
        TrainError::Diverged(divergence)
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
