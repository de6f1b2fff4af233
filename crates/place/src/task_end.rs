//! What the end of a launched task means for its run.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::cluster::{Role, Task};
use crate::error::PlaceError;

/// The end of a launched task.
pub(crate) struct TaskEnd {
    pub(crate) task: Task,
    pub(crate) status: ExitStatus,
}

impl TaskEnd {
    /// Whether a new process can take the task's place: a worker that was killed or has lost the
    /// others, or a server that was killed. A task that failed by itself would fail again.
    pub(crate) fn is_replaceable(&self, restarts: RestartPolicy) -> bool {
        match self.task.role {
            Role::Ps => restarts.servers && self.status.code().is_none(),
            _ => restarts.workers && self.is_lost_worker(),
        }
    }

    /// Whether a worker was killed, or has lost the others.
    pub(crate) fn is_lost_worker(&self) -> bool {
        self.task.role != Role::Ps && matches!(self.status.code(), None | Some(128..))
    }

    /// How much this end is to blame for the run's: a task that was killed or failed by itself more
    /// than those that merely lost it, whichever the launcher sees first. Of those, a worker knows
    /// more than a server: what its step waited for.
    pub(crate) fn blame(&self) -> u8 {
        match self.status.code() {
            None => 3,
            Some(1..128) => 2,
            Some(_) if self.task.role != Role::Ps => 1,
            Some(_) => 0,
        }
    }

    /// The launcher's error for this end. `why` is the task's own error, and `others` those of
    /// other tasks, which follow from it.
    pub(crate) fn error(
        &self,
        stop_signal: Option<i32>,
        why: Option<String>,
        others: &[String],
    ) -> PlaceError {
        if let Some(signal) = stop_signal {
            return PlaceError::Interrupted { signal, text: why };
        }
        let task = self.task;
        // What follows from an error that names the cause says nothing more.
        let is_cause = why.is_some() && matches!(self.status.code(), Some(1..128));
        let mut text = match why {
            Some(why) => format!("{why} ({task})"),
            None => format!("the run failed: {task} {}", describe_end(self.status)),
        };
        let others = if is_cause { &[] } else { others };
        others.iter().for_each(|other| text.push_str(&format!("\n  then {other}")));
        match self.status.code() {
            Some(code @ 1..128) => PlaceError::TaskFailed { text, code: code as u8 },
            _ => PlaceError::Lost(text),
        }
    }
}

/// Which lost tasks are started again.
#[derive(Clone, Copy)]
pub(crate) struct RestartPolicy {
    pub(crate) workers: bool,
    pub(crate) servers: bool,
}

/// How a task ended, in words.
pub(crate) fn describe_end(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with code {code}"),
        None => format!("was killed by signal {}", status.signal().unwrap_or_default()),
    }
}
