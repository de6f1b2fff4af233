//! Why tasks cannot be placed or launched, or why a launched run failed.

use std::io;

/// A failure to place or launch tasks, or the failure of a launched task.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A setting or the environment cannot be used. The message names it and the remedy.
    #[error("{0}")]
    Usage(String),
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What the launcher was doing.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// A launched task failed.
    #[error("{text}")]
    TaskFailed {
        /// Why, and which tasks failed with it.
        text: String,
        /// The task's exit code.
        code: u8,
    },
    /// A launched task was killed, or lost the others. Worth a retry.
    #[error("{0}")]
    Lost(String),
    /// The user or the system asked the launcher to end.
    #[error("interrupted by signal {signal}")]
    Interrupted {
        /// The signal's number.
        signal: i32,
        /// The error of the task that could not end cleanly.
        text: Option<String>,
    },
}

impl PlaceError {
    /// For `map_err`: an I/O error while the launcher did `what`.
    pub(crate) fn while_doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> PlaceError {
        let what = what.into();
        move |source| PlaceError::Io { what, source }
    }
}
