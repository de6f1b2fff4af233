//! The frames of a client that are neither pushes nor pulls.
//!
//! Each is sent once, and again after a lost connection; the caller knows whether that is needed.
//! All except `Hello` may only be sent to a server that has welcomed the client
//! ([`Client::is_welcome_at`]). A coordinator that loses its connection to server 0 must repeat
//! `Stop` before the next push.

use super::state::Client;
use crate::{CONTROL_BYTES, ControlFrame, Flags, FrameKind, Header, Hello};

impl Client {
    /// The first frame of a connection to a server.
    pub fn hello(&self, server: usize) -> ControlFrame {
        let config = &self.config;
        let hello = Hello {
            wire: config.wire,
            slot: config.slot,
            incarnation: config.incarnation,
            job: config.job.clone(),
            layout_digest: config.layout_digest,
            server: server as u32,
            servers: config.servers as u32,
            generation: self.generation,
            process: config.process.clone(),
            ..Hello::new(config.role)
        };
        ControlFrame::new(FrameKind::Hello, hello.encode())
    }

    /// Leaves the run, because this worker has no more to push. Send it to every server, and again
    /// after a lost connection, until [`ClientEvent::Bye`](crate::ClientEvent::Bye).
    ///
    /// # Panics
    /// If the report is longer than [`CONTROL_BYTES`].
    pub fn leave(report: Vec<u8>) -> ControlFrame {
        ControlFrame::new(FrameKind::Leave, report)
    }

    /// Gives back the slot, for another process to fill. Send it when the last push has been
    /// answered, to every server, and again after a lost connection, until
    /// [`ClientEvent::Bye`](crate::ClientEvent::Bye) or a refusal because another process has the
    /// slot.
    ///
    /// # Panics
    /// If the report is longer than [`CONTROL_BYTES`].
    pub fn release(report: Vec<u8>) -> ControlFrame {
        ControlFrame::new(FrameKind::Release, report)
    }

    /// Passes on why a server has failed the run, to the other servers. Without it they would take
    /// this worker, which ends, for the cause.
    pub fn pass_on_abort(why: &str) -> ControlFrame {
        let bytes = &why.as_bytes()[..why.len().min(CONTROL_BYTES)];
        ControlFrame::new(FrameKind::Abort, bytes.to_vec())
    }

    /// The coordinator's request to stop. Only server 0 acts on it. In `sync`, send it before the
    /// next push.
    pub fn stop(reason: &str) -> ControlFrame {
        let bytes = &reason.as_bytes()[..reason.len().min(CONTROL_BYTES)];
        ControlFrame::new(FrameKind::Stop, bytes.to_vec())
    }

    /// Ends the run in the middle of a step, for all servers: they apply no gradient any more and
    /// answer those that wait. See also [`Client::cancel_push`].
    pub fn cut_short() -> Header {
        Header { flags: Flags::STOP, ..Header::new(FrameKind::Stop, 0) }
    }

    /// The coordinator's request for all reports of a server.
    pub fn collect() -> Header {
        Header::new(FrameKind::Collect, 0)
    }

    /// Ends the run. Only the coordinator sends it, and the server answers with
    /// [`ClientEvent::RunOver`](crate::ClientEvent::RunOver).
    pub fn finish() -> Header {
        Header::new(FrameKind::Finish, 0)
    }

    /// The coordinator's request for a checkpoint. In `sync` it names a step that is not complete
    /// yet and is sent before the push that completes it, so that all servers take it at exactly
    /// that step.
    pub fn checkpoint(step: u64) -> Header {
        Header { step, ..Header::new(FrameKind::Checkpoint, 0) }
    }

    /// Shows that the client is alive.
    pub fn heartbeat() -> Header {
        Header::new(FrameKind::Heartbeat, 0)
    }
}
