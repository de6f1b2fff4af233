//! What can go wrong with data, said so that the reader knows where and what to do.

use std::io;
use std::path::PathBuf;

use crate::idx_fault::IdxFault;

/// A failure to read, find or fetch data. Every message names the file or the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: "open", "write", …
        action: &'static str,
        /// The file or directory it was tried on.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A file's content is not what it should be.
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
        /// The one file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// How they differ.
        what: String,
    },

    /// The directory a job names holds too little.
    #[error(
        "{} is not a {name} directory: {what}; data.path must be a directory with {}, each \
         plain or with .gz", path.display(), files.join(", ")
    )]
    Directory {
        /// What `data.path` says.
        path: PathBuf,
        /// The data set that was looked for.
        name: &'static str,
        /// What is wrong with the directory.
        what: String,
        /// What it ought to hold.
        files: Vec<&'static str>,
    },

    /// A known data set is nowhere on this machine.
    #[error("{name} is not on this machine; looked at:{}\n{advice}", indented(looked))]
    NotHere {
        /// The data set.
        name: &'static str,
        /// Each place, and what is wrong with it.
        looked: Vec<String>,
        /// What to do about it.
        advice: String,
    },

    /// A picture is damaged, or of a kind or size that is not taken.
    #[error(
        "{}: {what}; mend it or take it out, or set data.on_bad = \"skip\"", path.display()
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

    /// So many bad examples stand in a row that skipping them makes no sense.
    #[error("{count} bad examples in a row, the last of them {last}")]
    AllBad {
        /// How many were tried.
        count: usize,
        /// What is wrong with the last.
        last: Box<DataError>,
    },

    /// What `data.path` names is not a collection of pictures.
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
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },

    /// A batch does not come: the place where the examples lie does not answer.
    #[error(
        "waited {waited_s} s for the examples of step {step}, which are read in the background; \
         does the file system still answer?"
    )]
    Slow {
        /// The step whose batch was waited for.
        step: u64,
        /// How long, in seconds.
        waited_s: u64,
    },

    /// No environment variable says where downloads are kept.
    #[error(
        "nowhere to keep downloads: neither PACELINE_CACHE, XDG_CACHE_HOME nor HOME is set to an \
         absolute path; set PACELINE_CACHE to a directory"
    )]
    NoCache,

    /// A name that is not a known data set's.
    #[error("there is no data set called {name:?}; known are {}", known.join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<&'static str>,
    },

    /// Another process has been fetching for too long.
    #[error(
        "waited {waited_s} s for {holder}, which holds {}; if it hangs, end it and try again",
        lock.display()
    )]
    Busy {
        /// The lock file.
        lock: PathBuf,
        /// Who holds it, as far as known.
        holder: String,
        /// How long we waited, in seconds.
        waited_s: u64,
    },

    /// What is asked of sparse data contradicts itself or says too little.
    #[error("data.kind = \"{kind}\": {what}")]
    SparseSpec {
        /// The kind of data.
        kind: &'static str,
        /// What is wrong.
        what: String,
    },

    /// A row of sparse data cannot be read.
    #[error(
        "{}: {unit} {number}{}: {what}; mend it, or set data.on_bad = \"skip\" to leave such rows \
         out", path.display(), if *unit == "record" { " (from 0)" } else { "" }
    )]
    Row {
        /// The file.
        path: PathBuf,
        /// What the number counts: "line", from 1, or "record", from 0.
        unit: &'static str,
        /// Which one.
        number: u64,
        /// What is wrong with it.
        what: String,
    },

    /// Sparse data is broken as a whole, not in one row.
    #[error("{}: {what}", path.display())]
    Sparse {
        /// The file, directory or pattern.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },

    /// No source had the data set.
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
    /// Whether the fault lies in one example, so that another could be taken for it. A file that
    /// is not there or cannot be read is no such fault: the next one would be no better.
    pub fn is_bad_example(&self) -> bool {
        matches!(self, DataError::Picture { .. } | DataError::BadExample { .. })
    }

    /// Wraps what the system said with what was tried on which path; for `map_err`.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> DataError {
        let path = path.into();
        move |source| DataError::Io { action, path, source }
    }
}

/// Lines under a heading, each on its own and set in.
fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  - {line}")).collect()
}
