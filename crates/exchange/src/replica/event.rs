//! What a replica reports to its caller.

use thiserror::Error;

use crate::ProtocolError;

/// What a frame from a peer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// A piece of the current step, or of a state that is being received.
    Progress,
    /// The run has failed at the peer, and why.
    Abort(String),
    /// The peer has cut the run short: the current step is not made.
    CutShort,
    /// To the coordinator: the peer has left and waits for [`Replica::bye`](super::Replica::bye).
    Left,
    /// The coordinator has acknowledged this worker's leave.
    Bye,
}

/// Why a run without servers cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplicaError {
    /// A peer broke the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// Replicas that should be equal are not.
    #[error("after step {step} the parameters of {left} and {right} differ")]
    Differ {
        /// Updates made.
        step: u64,
        /// The name of this worker.
        left: String,
        /// The names of the workers whose parameters differ.
        right: String,
    },
    /// Two workers were lost at once, and with them what only they knew.
    #[error(
        "{names} were lost at the same time, and with them what rounding has dropped from their \
         gradients; resume the run from its last checkpoint (--resume)"
    )]
    KnownLost {
        /// The names of the workers.
        names: String,
    },
    /// There is no memory for the table that another worker sends.
    #[error("no memory for the table of another worker: {0}")]
    Memory(String),
    /// Every worker has lost the one that was sending it the parameters.
    #[error("no worker has the parameters any more")]
    NoReplicaLeft,
}
