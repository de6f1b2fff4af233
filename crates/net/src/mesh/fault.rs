//! Why a step of a mesh failed.

use std::fmt::Display;

use paceline_exchange::ReplicaError;

use crate::error::LinkError;

/// Why a step failed.
#[derive(Debug)]
pub(super) enum MeshFault {
    /// A worker is gone or violates the protocol. The run may recover from that.
    Lost { slot: usize, why: String },
    /// Anything else.
    Failed(LinkError),
}

impl MeshFault {
    pub(super) fn lost(slot: usize, why: impl Display) -> Self {
        MeshFault::Lost { slot, why: why.to_string() }
    }

    /// The fault of a replica that has received a frame from `slot`.
    pub(super) fn on_frame(slot: usize, error: ReplicaError) -> Self {
        match error {
            ReplicaError::Protocol(error) => MeshFault::lost(slot, error),
            error => error.into(),
        }
    }

    pub(super) fn into_error(self) -> LinkError {
        match self {
            MeshFault::Lost { why, .. } => LinkError::Aborted(why),
            MeshFault::Failed(error) => error,
        }
    }
}

impl From<LinkError> for MeshFault {
    fn from(error: LinkError) -> Self {
        MeshFault::Failed(error)
    }
}

impl From<ReplicaError> for MeshFault {
    fn from(error: ReplicaError) -> Self {
        MeshFault::Failed(LinkError::Aborted(error.to_string()))
    }
}
