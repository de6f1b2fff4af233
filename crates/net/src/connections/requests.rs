//! Requests that stay valid until they are answered: after a reconnect they are sent again.

use paceline_exchange::{ControlFrame, FrameKind};

/// What this process has requested of servers that may not have heard it yet.
#[derive(Default)]
pub(super) struct StandingRequests {
    /// The reason of a requested stop.
    pub(super) stop: Option<String>,
    /// Cuts the run short.
    pub(super) cuts_short: bool,
    pub(super) checkpoint: Option<CheckpointRequest>,
    /// The frame with which this process leaves or ends the run, until each server has answered it.
    pub(super) goodbye: Option<ControlFrame>,
    /// Server 0 gets the goodbye last, when all others have answered it.
    pub(super) is_server_0_last: bool,
}

impl StandingRequests {
    /// An operation has been answered. Servers have heard of a checkpoint that was requested
    /// before the operation began; to request it again would request another one.
    pub(super) fn operation_answered(&mut self) {
        let request = self.checkpoint.take().filter(|request| request.is_during_operation);
        self.checkpoint =
            request.map(|request| CheckpointRequest { is_during_operation: false, ..request });
    }

    /// Whether the current goodbye is of this kind.
    pub(super) fn is_saying(&self, kind: FrameKind) -> bool {
        self.goodbye.as_ref().is_some_and(|goodbye| goodbye.header.kind == kind)
    }
}

/// A requested checkpoint.
#[derive(Clone, Copy)]
pub(super) struct CheckpointRequest {
    pub(super) step: u64,
    /// An operation was under way when the checkpoint was requested.
    pub(super) is_during_operation: bool,
}
