//! Why predictions are not made.

use std::io;
use std::path::Path;

use paceline_data::DataError;
use paceline_record::RunFileError;

/// Why predictions are not made. Messages name the file and, where there is one, the line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// The model file cannot be used.
    #[error(transparent)]
    Model(#[from] RunFileError),
    /// The input cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The input does not fit the model, or a row is bad.
    #[error("{0}")]
    Refused(String),
    /// A file cannot be read or written.
    #[error("{what}: {source}")]
    Io {
        /// What the program was doing, with the path.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The reader of the output has closed it.
    #[error("the reader of the output has closed it")]
    Closed,
    /// The caller asked to stop.
    #[error("interrupted while rows were scored")]
    Interrupted,
}

/// What failed if the output cannot be written.
const OUTPUT: &str = "cannot write the predictions";

impl ScoreError {
    /// For `map_err`: an I/O error while doing `what` to a file.
    pub fn at(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("cannot {what} {}", path.display());
        move |source| Self::Io { what, source }
    }

    /// A failure to write the output.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Io { what: OUTPUT.into(), source: error },
        }
    }

    /// The same error; a failure to write the output names this file.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Io { what, source } if what == OUTPUT => Self::at("write", path)(source),
            other => other,
        }
    }
}
