//! Why a checkpoint cannot be used.

use std::io;
use std::path::Path;

/// Why a checkpoint cannot be written, read or resumed from.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// There is no checkpoint that fits the run. The message names it and the remedy.
    #[error("{0}")]
    Refused(String),
    /// A file failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the path.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl CheckpointError {
    /// For `map_err`: an I/O error while `what` was done to the file at `path`.
    pub(crate) fn at(what: &str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
        let what = format!("cannot {what} {}", path.display());
        move |source| CheckpointError::Io { what, source }
    }
}
