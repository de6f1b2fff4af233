//! Why a file of a run cannot be written or read.

use std::io;
use std::path::Path;

/// Why a file of a run cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// The request cannot be met, and the caller can change it: a directory that is already in
    /// use, a model file of another model.
    #[error("{0}")]
    Refused(String),
    /// The system failed.
    #[error("{what}: {source}")]
    Io {
        /// What failed and on which path, such as `cannot write runs/a/summary.json`.
        what: String,
        /// The system's own error.
        source: io::Error,
    },
}

impl RunFileError {
    /// Whether a disk, a quota or a limit is exhausted.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let Self::Io { source, .. } = self else { return false };
        matches!(source.kind(), FileTooLarge | QuotaExceeded | StorageFull)
    }

    /// Returns a function for `map_err` that says that the program cannot `action` this path.
    pub fn at(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("cannot {action} {}", path.display());
        move |source| Self::Io { what, source }
    }
}

impl From<RunFileError> for io::Error {
    fn from(error: RunFileError) -> Self {
        let kind = match &error {
            RunFileError::Refused(_) => io::ErrorKind::InvalidInput,
            RunFileError::Io { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}
