//! Why a worker's connections fail.

use std::io;

/// An error that ends a worker's connections: no further call on them succeeds.
///
/// That a run goes back to a checkpoint is not an error but a value, see
/// [`LinkOutcome`](crate::LinkOutcome).
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The run did not start within the limit.
    #[error("the run did not start within {seconds} s: {missing}")]
    NotStarted {
        /// The limit.
        seconds: u64,
        /// The missing servers or workers, and the state of each.
        missing: String,
    },
    /// A server or another worker is gone.
    #[error("lost {task} ({address}): {why}")]
    Lost {
        /// The name of the lost task, such as `ps:0` or `worker:1`.
        task: String,
        /// Its address, `host:port`.
        address: String,
        /// What the connection reported.
        why: String,
    },
    /// A server belongs to another job, model or version, or has another token.
    #[error("this task does not belong to the run of {0}; give all tasks the same job and token")]
    Denied(String),
    /// A newer process fills the slot.
    #[error("{0}")]
    SlotTaken(String),
    /// A server or another worker aborted the run.
    #[error("{0}")]
    Aborted(String),
    /// The run was ended in the middle of a step. The worker can only leave.
    #[error("the run was cut short")]
    CutShort,
    /// No progress within the limit.
    #[error("waited {seconds} s for {awaited}")]
    Stalled {
        /// The time waited.
        seconds: u64,
        /// The tasks that did not answer.
        awaited: String,
    },
    /// A batch touches more keys of one server than a frame holds.
    #[error(
        "a batch touches more than {most} features of one server; make train.batch smaller, or use \
         more servers"
    )]
    TooManyKeys {
        /// The most keys that a frame holds.
        most: usize,
    },
    /// The observer asked to give up waiting.
    #[error("interrupted while waiting for {awaited}")]
    Interrupted {
        /// The tasks that it waited for.
        awaited: String,
    },
    /// The operating system refuses a socket or a poll.
    #[error("the worker's sockets: {0}")]
    Io(#[from] io::Error),
}
