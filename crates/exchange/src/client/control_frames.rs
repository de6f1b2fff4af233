//! The frames of a client that are neither pushes nor pulls.
//!
//! They are said once, or again after a lost connection; it is the caller who knows whether. All
//! but `Hello` are for a server at which the client is welcome
//! ([`Client::is_welcome_at`](super::Client::is_welcome_at)).
//! `Stop` too must be said again if the connection to server 0 is lost, before pushes go on.

use super::Client;
use crate::{CONTROL_BYTES, FrameKind, Header, Hello, PROTOCOL_VERSION};

impl Client {
    /// The first frame of a connection to a server.
    pub fn hello(&self, server: usize) -> (Header, Vec<u8>) {
        let config = &self.config;
        let hello = Hello {
            version: PROTOCOL_VERSION,
            role: config.role,
            slot: config.slot,
            incarnation: config.incarnation,
            job_digest: config.job_digest,
            layout_digest: config.layout_digest,
            server: server as u32,
            servers: config.servers as u32,
            generation: self.generation,
            token: config.token.clone(),
            process: config.process.clone(),
        };
        control(FrameKind::Hello, hello.encode())
    }

    /// Says that this worker has no more to push. To be sent to every server, again after a
    /// lost connection, until the server says [`ClientEvent::Bye`](crate::ClientEvent::Bye).
    ///
    /// # Panics
    /// If the report is longer than [`CONTROL_BYTES`].
    pub fn leave(report: Vec<u8>) -> (Header, Vec<u8>) {
        control(FrameKind::Leave, report)
    }

    /// Gives the slot back, for another process to fill it from here on. To be said when the last
    /// push has been answered, to every server, again after a lost connection, until the server says
    /// [`ClientEvent::Bye`](crate::ClientEvent::Bye) or that another has the slot.
    ///
    /// # Panics
    /// If the report is longer than [`CONTROL_BYTES`].
    pub fn release(report: Vec<u8>) -> (Header, Vec<u8>) {
        control(FrameKind::Release, report)
    }

    /// The chief asks to stop. Only server 0 listens. In `sync`, say it before the next push.
    pub fn stop(reason: &str) -> (Header, Vec<u8>) {
        control(FrameKind::Stop, reason.as_bytes()[..reason.len().min(CONTROL_BYTES)].to_vec())
    }

    /// The chief asks a server for all reports.
    pub fn collect() -> Header {
        Header::new(FrameKind::Collect, 0)
    }

    /// The chief says that the run is over; the server answers
    /// [`ClientEvent::Bye`](crate::ClientEvent::Bye).
    pub fn finish() -> Header {
        Header::new(FrameKind::Finish, 0)
    }

    /// The chief asks a server for a checkpoint. In `sync` it names a step that has not been made
    /// yet, and says it before the push that makes it: so all servers take it at that very step.
    pub fn checkpoint(step: u64) -> Header {
        let mut header = Header::new(FrameKind::Checkpoint, 0);
        header.step = step;
        header
    }

    /// Says nothing but that the client is alive.
    pub fn heartbeat() -> Header {
        Header::new(FrameKind::Heartbeat, 0)
    }
}

pub(super) fn control(kind: FrameKind, bytes: Vec<u8>) -> (Header, Vec<u8>) {
    (Header::new(kind, bytes.len()), bytes)
}
