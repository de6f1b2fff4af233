//! Errors about data. Every message says where the fault is and what to do about it.

use std::io;
use std::path::PathBuf;

use crate::file_kind::FileKind;
use crate::idx_fault::IdxFault;

/// A failure to read, find or fetch data. The message names the file or the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system reported an error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action that failed, as a verb: "open", "write", …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The content of an IDX file is wrong.
    #[error("{}: {fault}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: IdxFault,
    },

    /// Pixels and labels that do not make up images.
    #[error("these are not labelled images: {what}")]
    Images {
        /// What does not fit.
        what: String,
    },

    /// More test examples than there are examples, or as many.
    #[error(
        "{wanted} of {all} rows cannot be held out to test on: none would be left to train on; set \
         data.test to a smaller share"
    )]
    HoldOut {
        /// The test rows that are wanted.
        wanted: usize,
        /// All rows.
        all: usize,
    },

    /// Values and labels in memory that do not make up examples.
    #[error("these are not labelled examples: {what}")]
    Examples {
        /// What does not fit.
        what: String,
    },

    /// A row in memory that cannot be used.
    #[error("row {row} (from 0): {what}")]
    MemoryRow {
        /// The row, counted from 0.
        row: usize,
        /// What is wrong with it.
        what: String,
    },

    /// Two files that belong together contradict each other.
    #[error(
        "{} and {} do not belong together: {what}; take both from the same data set",
        first.display(), second.display()
    )]
    Mismatch {
        /// One file.
        first: PathBuf,
        /// The other file.
        second: PathBuf,
        /// How they differ.
        what: String,
    },

    /// The directory that a job names does not have the files of a data set.
    #[error(
        "{} is not a {name} directory: {what}; data.path must be a directory with {}, each \
         plain or with .gz", path.display(), files.join(", ")
    )]
    Directory {
        /// The value of `data.path`.
        path: PathBuf,
        /// The data set.
        name: &'static str,
        /// What is wrong with the directory.
        what: String,
        /// The files it should have.
        files: Vec<&'static str>,
    },

    /// A known data set is nowhere on this machine.
    #[error("{name} is not on this machine; looked in:{}\n{advice}", indented(looked))]
    NotHere {
        /// The data set.
        name: &'static str,
        /// Each directory that was searched, and what is wrong with it.
        looked: Vec<String>,
        /// What to do about it.
        advice: String,
    },

    /// A picture is damaged, or has an unsupported format or size.
    #[error(
        "{}: {what}; repair or remove it, or set data.on_bad = \"skip\"", path.display()
    )]
    Picture {
        /// The picture's file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },

    /// An example of a source that this crate does not know cannot be read. For implementations of
    /// [`Examples`](crate::Examples) outside this crate.
    #[error("bad example: {what}")]
    BadExample {
        /// Which example, and what is wrong with it.
        what: String,
    },

    /// Too many consecutive examples are bad for all of them to be skipped.
    #[error("{count} bad examples in a row; the last one is {last}")]
    AllBad {
        /// The number of consecutive bad examples.
        count: usize,
        /// What is wrong with the last one.
        last: Box<DataError>,
    },

    /// The path is not a collection of pictures.
    #[error(
        "{}: {what}; data.path must be a directory with a folder of .jpg or .png pictures for \
         each class (or train/ and val/ with such folders), or a list file with a picture and \
         its class on each line", path.display()
    )]
    Pictures {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },

    /// A line of a list file cannot be used.
    #[error("{}, line {line}: {what}", path.display())]
    ListLine {
        /// The list file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },

    /// A batch does not arrive within the timeout.
    #[error(
        "waited {waited_s} s for the examples of step {step}, which are read in the background; \
         does the file system still respond?"
    )]
    Slow {
        /// The step.
        step: u64,
        /// How long the worker waited, in seconds.
        waited_s: u64,
    },

    /// The observer of an operation asked to stop it.
    #[error("interrupted while data was read")]
    Interrupted,

    /// No environment variable names a directory for caches.
    #[error(
        "there is no cache directory: neither PACELINE_CACHE, XDG_CACHE_HOME nor HOME is set to an \
         absolute path; set PACELINE_CACHE to a directory"
    )]
    NoCache,

    /// There is no directory for cached rows, or it cannot be used.
    #[error(
        "rows are read into a cache, but {what}; set data.cache (or the environment variable \
         PACELINE_CACHE) to a directory that can be written and has space"
    )]
    RowCache {
        /// What is wrong.
        what: String,
    },

    /// Another process holds a lock for too long.
    #[error(
        "waited {waited_s} s for {holder}, which holds {}; if it hangs, kill it and try again",
        lock.display()
    )]
    Busy {
        /// The lock file.
        lock: PathBuf,
        /// The process that holds it, as far as it is known.
        holder: String,
        /// How long this process waited, in seconds.
        waited_s: u64,
    },

    /// A file is not of the kind that the job says.
    #[error(
        "{}: data.kind is {kind:?}, but {}", path.display(),
        found.advice().unwrap_or_else(|| format!("this is {}", found.describe()))
    )]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// The value of `data.kind`.
        kind: &'static str,
        /// What the file is.
        found: FileKind,
    },

    /// The specification of sparse data contradicts itself or is incomplete.
    #[error("data.kind = \"{kind}\": {what}")]
    SparseSpec {
        /// The kind of data.
        kind: &'static str,
        /// What is wrong.
        what: String,
    },

    /// A row of sparse data cannot be read.
    #[error(
        "{}: {unit} {number}{}: {what}; repair it, or set data.on_bad = \"skip\" to leave such \
         rows out", path.display(), if *unit == "record" { " (from 0)" } else { "" }
    )]
    Row {
        /// The file.
        path: PathBuf,
        /// What the number counts: "line", from 1, or "record", from 0.
        unit: &'static str,
        /// The line or record.
        number: u64,
        /// What is wrong with it.
        what: String,
    },

    /// Sparse data cannot be used as a whole; the fault is not in a single row.
    #[error("{}: {what}", path.display())]
    Sparse {
        /// The file, directory or pattern.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },

    /// No source has the data set.
    #[error("could not fetch {name}; every source failed:{}\n{advice}", indented(failures))]
    Fetch {
        /// The data set.
        name: &'static str,
        /// Each source, and why it failed.
        failures: Vec<String>,
        /// What to do about it.
        advice: String,
    },
}

impl DataError {
    /// Whether the fault lies in a single example, so that another can be used in its place. A file
    /// that is missing or unreadable does not count: the next one would fail too.
    pub fn is_bad_example(&self) -> bool {
        matches!(self, DataError::Picture { .. } | DataError::BadExample { .. })
    }

    /// Adds the action (as a verb) and the path to a system error; for `map_err`.
    pub fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> DataError {
        let path = path.into();
        move |source| DataError::Io { action, path, source }
    }
}

/// Lines as an indented list.
fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  - {line}")).collect()
}
