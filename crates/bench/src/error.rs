//! Why a benchmark failed.

use std::io;

use paceline_data::DataError;

/// Why a benchmark failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Its data cannot be made or read.
    #[error("{0}")]
    Data(#[from] DataError),
    /// Its network cannot be built.
    #[error("{0}")]
    Network(String),
    /// A process or a connection failed.
    #[error("{what}: {source}")]
    Io {
        /// The benchmark or the process.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}
