//! Pushes and pulls: how they begin, and the frames that they send.

use std::ops::Range;

use super::server_progress::ServerProgress;
use super::state::{Client, Operation};
use crate::{Flags, FrameKind, Header, PeerRole};

/// A frame to send to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingFrame {
    /// The frame's header.
    pub header: Header,
    /// The range of the gradient that the payload begins with; empty on a pull.
    pub gradient: Range<usize>,
    /// Where gradients travel as changes: whether the changes of this range must be made, with
    /// [`GradientChanges::update`](crate::GradientChanges::update). Otherwise the last ones are
    /// sent again.
    pub is_new: bool,
}

impl Client {
    /// Begins to push a gradient for a step of the plan; `examples` is the number of examples that
    /// it is a mean over.
    ///
    /// # Panics
    /// If the last operation is not complete, or the client is not a worker that all servers have
    /// welcomed.
    pub fn begin_push(&mut self, step: u64, examples: u32) {
        assert!(self.config.role == PeerRole::Worker, "only workers push");
        assert!(self.resume_step.is_some(), "not all servers have welcomed this client");
        self.begin(Operation::Push { step, examples });
        self.sequence += 1;
        self.dropped = false;
    }

    /// Begins to push a gradient that is not final yet; see [`Client::set_final`].
    ///
    /// # Panics
    /// As [`Client::begin_push`].
    pub fn begin_push_in_pieces(&mut self, step: u64, examples: u32) {
        self.begin_push(step, examples);
        self.set_final(self.config.total_params);
    }

    /// The gradient of the current push is final from parameter `from` on. A backward pass ends
    /// with the first layer, so the range grows towards 0.
    pub fn set_final(&mut self, from: usize) {
        self.links.iter_mut().for_each(|link| link.set_final(from));
    }

    /// Sends nothing more of the current push, if there is one. It is complete when everything that
    /// was sent has been answered, which a server does at once after [`Client::cut_short`].
    pub fn cancel_push(&mut self) {
        if !matches!(self.operation, Some(Operation::Push { .. })) {
            return;
        }
        self.dropped = true;
        self.links.iter_mut().for_each(ServerProgress::cancel);
        if self.links.iter().all(ServerProgress::is_complete) {
            self.operation = None;
        }
    }

    /// Begins to pull all parameters.
    ///
    /// A worker's first pull may wait, if another process filled its slot before and that
    /// process's last push waits.
    ///
    /// # Panics
    /// If the last operation is not complete, or some server has not welcomed the client yet.
    pub fn begin_pull(&mut self) {
        assert!(self.resume_step.is_some(), "not all servers have welcomed this client");
        // A worker that has left only reads.
        let is_first = !self.has_pulled && !self.already_left;
        let resume = self.config.role == PeerRole::Worker && is_first;
        self.has_pulled = true;
        self.begin(Operation::Pull { resume, ahead: false });
    }

    pub(super) fn begin(&mut self, operation: Operation) {
        assert!(self.is_complete(), "one operation at a time");
        self.operation = Some(operation);
        self.links.iter_mut().for_each(ServerProgress::begin);
    }

    /// The next frame for a server; `None` if there is nothing to send, or if the window of
    /// unanswered chunks is full. Behind the gradient that it names, a frame carries
    /// [`Client::keys`].
    ///
    /// Call this until it returns `None`, after every `begin_…` and every arrival.
    pub fn next_frame(&mut self, server: usize) -> Option<OutgoingFrame> {
        let operation = self.operation?;
        let sequence = self.expected_sequence();
        let link = &mut self.links[server];
        let is_push = matches!(operation, Operation::Push { .. });
        let chunk = link.next_chunk(is_push.then_some(sequence))?;
        let key_bytes = link.keys.as_ref().map_or(0, |keys| keys.encoded.len());
        let is_sparse = link.keys.is_some();
        match operation {
            Operation::Push { step, examples } => {
                let kind = if is_sparse { FrameKind::PushKeys } else { FrameKind::Push };
                let pushing = match &link.keys {
                    Some(keys) => keys.pushing.clone(),
                    None => chunk.values,
                };
                let number_bytes = self.config.wire.number_bytes();
                let mut header = Header::new(kind, pushing.range.len() * number_bytes + key_bytes);
                (header.chunk, header.count) = (chunk.index, examples);
                (header.step, header.version) = (step, pushing.version);
                header.sequence = sequence;
                Some(OutgoingFrame { header, gradient: pushing.range, is_new: chunk.is_new })
            }
            Operation::Pull { resume, ahead } => {
                let kind = if is_sparse { FrameKind::PullKeys } else { FrameKind::Pull };
                let mut header = Header::new(kind, key_bytes);
                (header.chunk, header.sequence) = (chunk.index, sequence);
                if resume {
                    header.flags = Flags::RESUME;
                    header.step = self.resume_step.unwrap_or(0);
                } else if ahead {
                    header.flags = Flags::AHEAD;
                }
                Some(OutgoingFrame { header, gradient: 0..0, is_new: false })
            }
        }
    }

    /// The encoded keys that follow the gradient in a frame to a server; empty for a dense model.
    pub fn keys(&self, server: usize) -> &[u8] {
        self.links[server].keys.as_ref().map_or(&[], |keys| &keys.encoded)
    }
}
