//! How Paceline fails, and with which exit code.
//!
//! Two tiers: what a user can mend (a wrong job, missing data) ends with code 2 before
//! anything has started; what goes wrong while running ends with 1. Launchers such as
//! Kubeflow take codes from 1 to 127 for permanent failures and 128 to 255 for ones worth a
//! retry, so being interrupted is 128 plus the signal, as shells have it.

use std::io;
use std::path::Path;

use paceline_data::DataError;
use paceline_net::LinkError;
use paceline_record::RunFileError;

use crate::job::{Problem, Problems};

/// Another task is gone: worth a retry, and no code that a signal has.
const LOST: u8 = 200;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The job file, or what `--set` made of it, is wrong.
    #[error("{0}")]
    Job(#[from] Problems),
    /// The data cannot be had or is damaged.
    #[error("{0}")]
    Data(#[from] DataError),
    /// Something else about the command line or its files is wrong.
    #[error("{0}")]
    Usage(String),
    /// A file of the run cannot be written or read.
    #[error("{what}: {source}")]
    Files {
        /// Which file, and what was being done to it.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// Training itself went wrong.
    #[error("{0}")]
    Training(String),
    /// A task that was launched has failed, and has said why.
    #[error("the run failed: {task} ended with code {code}")]
    Task {
        /// Which one.
        task: String,
        /// Its exit code, which is passed on.
        code: u8,
    },
    /// Another task of the run is gone, or did not come.
    #[error("{0}")]
    Lost(String),
    /// A newer process does what this one was to do.
    #[error("{0}")]
    Taken(String),
    /// The run has gone back to a checkpoint: whoever trains begins again there.
    #[error("the run has gone back to a checkpoint")]
    Rewound,
    /// The user or the system asked the process to end.
    #[error("interrupted by signal {signal}; the run directory is complete up to there")]
    Interrupted {
        /// Which signal.
        signal: i32,
    },
    /// The same, before there was anything to keep.
    #[error("interrupted by signal {signal}; nothing was written")]
    Signal {
        /// Which signal.
        signal: i32,
    },
}

impl Failure {
    /// The exit code that stands for it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Job(_) | Failure::Data(_) | Failure::Usage(_) => 2,
            Failure::Files { .. } | Failure::Training(_) | Failure::Rewound => 1,
            Failure::Task { code, .. } => *code,
            Failure::Lost(_) | Failure::Taken(_) => LOST,
            Failure::Interrupted { signal } | Failure::Signal { signal } => {
                128u8.saturating_add(*signal as u8)
            }
        }
    }

    /// For `map_err`: an I/O error while doing `what` to a file.
    pub(crate) fn at(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
        let what = format!("cannot {what} {}", path.display());
        move |source| Failure::Files { what, source }
    }
}

impl Failure {
    /// For `map_err`: an error of a recorder, which names the file if it has one.
    pub(crate) fn recording(error: io::Error) -> Failure {
        match error.downcast::<RunFileError>() {
            Ok(error) => error.into(),
            Err(source) => Failure::Files { what: "cannot record".into(), source },
        }
    }
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Io(source) => Failure::Files { what: "the worker's sockets".into(), source },
            LinkError::SlotTaken(why) => Failure::Taken(why),
            error => Failure::Lost(error.to_string()),
        }
    }
}

impl From<RunFileError> for Failure {
    fn from(error: RunFileError) -> Self {
        match error {
            RunFileError::Refused(why) => Failure::Usage(why),
            RunFileError::Io { what, source } => Failure::Files { what, source },
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::Job(problem.into())
    }
}
