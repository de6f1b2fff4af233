//! The failures of the program, and their exit codes.
//!
//! A mistake that the user can correct (a wrong job, missing data) ends the program with code 2
//! before training starts; a failure while it runs, with code 1. Launchers such as Kubeflow take
//! codes from 1 to 127 for permanent failures and 128 to 255 for failures worth a retry, so an
//! interrupted run ends with 128 plus the signal, as in shells.

use std::io;
use std::path::Path;

use paceline_data::DataError;
use paceline_engine::checkpoint::CheckpointError;
use paceline_engine::{Divergence, TrainError};
use paceline_net::LinkError;
use paceline_place::{LauncherChannel, PlaceError};
use paceline_record::{RunFileError, flush_lines};

use signal_hook::consts::SIGTERM;

use crate::progress::write_line;
use paceline_job::{Problem, Problems};

/// The exit code when another task is gone: worth a retry, and not the code of a signal.
const LOST: u8 = 200;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The job file or a `--set` is wrong.
    #[error("{0}")]
    Job(#[from] Problems),
    /// The data is missing or damaged.
    #[error("{0}")]
    Data(#[from] DataError),
    /// The command line, or a file it names, is wrong.
    #[error("{0}")]
    Usage(String),
    /// A file of the run cannot be written or read.
    #[error("{what}: {source}")]
    Files {
        /// What the program was doing, with the path.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// Training itself failed.
    #[error("{0}")]
    Training(String),
    /// A launched task failed.
    #[error("{text}")]
    Task {
        /// Why, and which tasks failed with it.
        text: String,
        /// The task's exit code, which becomes this program's.
        code: u8,
    },
    /// Another task of the run is gone, or never connected.
    #[error("{0}")]
    Lost(String),
    /// The user or the system asked the process to end.
    #[error("interrupted by signal {signal}; the run directory is complete up to that point")]
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
    /// The same, but the run or the task has not ended cleanly.
    #[error("interrupted by signal {signal}{why}")]
    Unfinished {
        /// The signal's number.
        signal: i32,
        /// What the task did then, as the rest of the sentence.
        why: String,
    },
    /// The same, before anything was written.
    #[error("interrupted by signal {signal}; nothing was completed")]
    Signal {
        /// The signal's number.
        signal: i32,
    },
}

impl Failure {
    /// The exit code for this failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Job(_) | Failure::Data(_) | Failure::Usage(_) => 2,
            Failure::Files { .. } | Failure::Training(_) => 1,
            Failure::Task { code, .. } => *code,
            Failure::Lost(_) => LOST,
            Failure::Interrupted { signal }
            | Failure::Unfinished { signal, .. }
            | Failure::Signal { signal } => 128u8.saturating_add(*signal as u8),
        }
    }

    /// The same failure; if the task was interrupted, by this signal.
    #[must_use]
    pub(crate) fn with_signal(self, received: Option<i32>) -> Failure {
        match self {
            Failure::Unfinished { signal, why } => {
                Failure::Unfinished { signal: received.unwrap_or(signal), why }
            }
            failure => failure,
        }
    }

    /// Writes the failure to standard error; that of a launched task goes to its launcher, which
    /// shows the cause of several failures first.
    pub fn report(&self) {
        let text = self.to_string();
        if LauncherChannel::send_failure(&text) {
            return;
        }
        let errors = match self {
            Failure::Job(Problems(problems)) => {
                problems.iter().map(|problem| error_text(&problem.to_string())).collect()
            }
            _ => vec![error_text(&text)],
        };
        // If they cannot be written, only the exit code is left.
        write_line(&errors.join("\n"));
        flush_lines();
    }

    /// For `map_err`: signals cannot be received.
    pub(crate) fn signals(error: io::Error) -> Failure {
        Failure::Training(format!("cannot listen for signals: {error}"))
    }

    /// For `map_err`: an I/O error while the program did `what` to a file.
    pub(crate) fn at(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
        let what = format!("cannot {what} {}", path.display());
        move |source| Failure::Files { what, source }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Data(error) => Failure::Data(error),
            TrainError::Settings(text) => Failure::Usage(text),
            TrainError::Io { what, source } => Failure::Files { what, source },
            TrainError::Diverged(divergence) => Failure::Training(diverged(&divergence)),
            TrainError::Training(text) => Failure::Training(text),
            TrainError::Lost(text) | TrainError::Replaced(text) => Failure::Lost(text),
            TrainError::Interrupted(text) => {
                let why = text.strip_prefix("interrupted").map_or(format!(": {text}"), Into::into);
                Failure::Unfinished { signal: SIGTERM, why }
            }
        }
    }
}

/// Why training is taken for diverged, with the keys that change it.
fn diverged(divergence: &Divergence) -> String {
    let continues = match divergence.start {
        Some(_) => "; train.on_divergence = \"continue\" lets it continue",
        None => "",
    };
    format!("{divergence}, train.optimizer.rate{continues}")
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Usage(text) => Failure::Usage(text),
            PlaceError::Io { what, source } => Failure::Files { what, source },
            PlaceError::TaskFailed { text, code } => Failure::Task { text, code },
            PlaceError::Lost(text) => Failure::Lost(text),
            PlaceError::Interrupted { signal, text } => {
                let text = text.unwrap_or_else(|| "the run did not end cleanly".into());
                let known = format!("interrupted by signal {signal}");
                let why = text.strip_prefix(&known).map_or(format!("; {text}"), Into::into);
                Failure::Unfinished { signal, why }
            }
        }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        TrainError::from(error).into()
    }
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        TrainError::from(error).into()
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

/// An error as people see it: its first line says that it is one, and the others are indented.
fn error_text(text: &str) -> String {
    labelled("error", &without_numbers(text))
}

/// A message with its kind or its source in front. Later lines are indented, so that none looks
/// like a message of its own: names of files and classes may have line breaks.
pub(crate) fn labelled(label: &str, text: &str) -> String {
    let lines = text.lines().enumerate().map(|(number, line)| match number {
        0 => format!("{label}: {line}"),
        _ if line.is_empty() || line.starts_with(' ') => line.to_owned(),
        _ => format!("  {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What the system's errors end with.
const ERROR_NUMBER: &str = " (os error ";

/// A text without the numbers of the system's errors, which their words stand for.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(ERROR_NUMBER);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once(')') {
        Some((number, rest)) if number.parse::<i32>().is_ok() => text + rest,
        _ => text + ERROR_NUMBER + part,
    })
}

/// Converts a failure of the program for the engine.
pub(crate) fn train_error(failure: Failure) -> TrainError {
    match failure {
        Failure::Data(error) => TrainError::Data(error),
        Failure::Files { what, source } => TrainError::Io { what, source },
        Failure::Usage(text) => TrainError::Settings(text),
        Failure::Lost(text) => TrainError::Lost(text),
        failure => TrainError::Training(failure.to_string()),
    }
}

#[cfg(test)]
mod tests;
