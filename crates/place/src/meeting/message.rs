//! What processes say to each other at a meeting.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How a process introduces itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Introduction {
    pub(super) rank: usize,
    pub(super) size: usize,
    /// The process's host, for people.
    pub(super) host: String,
    /// Equal for processes on one machine, or on one of several that share it.
    pub(super) machine: String,
    pub(super) process: u32,
    /// The version of Paceline.
    pub(super) version: String,
    /// The keys of the job that all tasks must agree on, with their values.
    pub(super) job: Vec<String>,
    /// The ports of the process's listening sockets.
    pub(super) ports: Vec<u16>,
    /// The process does not join: it asks whether it may hold the meeting itself.
    #[serde(default)]
    pub(super) wants_to_hold: bool,
}

impl Introduction {
    /// The process, for people.
    pub(super) fn named(&self) -> String {
        format!("rank {} on host {} (process {})", self.rank, self.host, self.process)
    }
}

/// What the holder of a meeting says.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) enum HolderMessage {
    /// These tasks are missing.
    Waiting(Vec<String>),
    /// The process cannot take part, or the meeting has failed.
    Refused {
        why: String,
        /// Starting the process again cannot help.
        is_permanent: bool,
    },
    /// All tasks are known.
    Agreed(Agreed),
}

/// What all processes know after a meeting.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Agreed {
    pub(super) tasks: Vec<AgreedTask>,
    /// What the holder decided about the run.
    pub(super) run: Option<AgreedRun>,
}

/// The run directory, and whether the run begins or continues. Rank 0 decides for all.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct AgreedRun {
    /// The run directory, on every machine.
    pub dir: PathBuf,
    /// The step of the checkpoint from which the run continues.
    pub checkpoint: Option<u64>,
    /// The run is finished: there is nothing to train.
    pub is_finished: bool,
}

/// A task and where it is.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct AgreedTask {
    pub(super) role: String,
    pub(super) index: usize,
    pub(super) rank: usize,
    pub(super) address: String,
    /// Which of its process's listening sockets the task has.
    pub(super) socket: Option<usize>,
}
