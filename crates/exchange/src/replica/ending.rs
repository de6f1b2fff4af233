//! The end of a run without servers, cleanly or by a failure.

use std::ops::Range;

use super::event::{ReplicaError, ReplicaEvent};
use super::peer::COORDINATOR;
use super::state::Replica;
use crate::{CONTROL_BYTES, ControlFrame, Flags, FrameKind, Header, ProtocolError};

impl Replica {
    /// The frame with which a worker leaves after the last step, for the coordinator.
    ///
    /// # Panics
    /// If the last step has not been made, or the report is longer than [`CONTROL_BYTES`].
    pub fn leave(&self, report: &[u8]) -> ControlFrame {
        assert!(self.is_over, "a worker leaves after the last step");
        let mut frame = ControlFrame::new(FrameKind::Leave, report.to_vec());
        frame.header.version = self.whole_digest();
        frame
    }

    /// The coordinator's answer to a leave.
    pub fn bye() -> Header {
        Header::new(FrameKind::Bye, 0)
    }

    /// The frame with which a worker that fails tells the others why.
    pub fn abort(why: &str) -> ControlFrame {
        let bytes = &why.as_bytes()[..why.len().min(CONTROL_BYTES)];
        ControlFrame::new(FrameKind::Abort, bytes.to_vec())
    }

    /// The frame with which the coordinator cuts the run short, in the middle of a step.
    pub fn cut_short_frame() -> Header {
        Header { flags: Flags::STOP, ..Header::new(FrameKind::Stop, 0) }
    }

    /// The run is cut short: gives up the step in progress. The worker can only leave.
    pub fn cut_short(&mut self) {
        // A mean is applied only when the whole step is complete.
        let keeps_params = self.keyed.is_some() || self.config.sends_means() && !self.is_rounded();
        self.is_mixed |= self.step.is_some() && !self.is_untouched() && !keeps_params;
        (self.step, self.is_over, self.is_cut_short) = (None, true, true);
        self.pieces.clear();
    }

    /// Whether the run was cut short.
    pub fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Whether some parameters, or some of the state that a checkpoint holds, are of the step that
    /// was given up when the run was cut short.
    pub fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Whether nothing of the current step has been reduced or received: it can be given up without
    /// a trace.
    pub fn is_untouched(&self) -> bool {
        let is_idle = |peer: usize| {
            let progress = self.peers[peer].progress;
            progress.updates_received == 0
                && !(self.is_rounded() && progress.gradients_sent + progress.gradients_received > 0)
        };
        self.step.is_none_or(|step| step.reduced == 0) && self.others().all(is_idle)
    }

    /// The range of the parameters that this worker itself updates during a step in pieces, as far
    /// as its caller does not.
    pub fn updates_in_step(&self) -> Range<usize> {
        if self.config.sends_means() { 0..0 } else { self.config.updates(self.total) }
    }

    /// Coordinator only, in a run that was cut short: takes the report of a peer.
    pub fn report_arrived(&mut self, peer: usize, report: &[u8]) {
        self.peers[peer].report = Some(report.to_vec());
    }

    /// Whether the coordinator has said goodbye to this worker.
    pub fn is_dismissed(&self) -> bool {
        self.peers[COORDINATOR].said_bye
    }

    /// Whether frames to or from a peer are still missing, so that losing it now ends the run.
    pub fn needs(&self, peer: usize) -> bool {
        let its = &self.peers[peer];
        if its.transfer.is_some() || its.known_to_send.is_some() || its.known_awaited.is_some() {
            return true;
        }
        if self.step.is_some() {
            // In a run that recovers, other workers may wait for the peer, and this one for them.
            return self.config.recovers || self.needs_in_step(peer);
        }
        if !self.is_over {
            return peer == COORDINATOR || !self.knows_end();
        }
        if self.config.slot == COORDINATOR {
            return self.peers[peer].report.is_none();
        }
        peer == COORDINATOR && !self.is_dismissed()
    }

    /// Whether a peer whose connection has ended is lost, given that the first of its unread
    /// frames is `next` and cannot be read yet.
    ///
    /// A worker that ends cleanly has made the last step, which takes every worker's last
    /// gradient. So an early gradient comes from a worker that had not made it.
    pub fn is_lost_before(&self, next: &Header) -> bool {
        // In a run that recovers, no worker ends before the coordinator has said goodbye.
        self.config.recovers || is_gradient(next.kind)
    }

    /// Whether the coordinator, as far as this worker knows, may not have made the last step,
    /// although this worker has. Then other workers may still wait for a peer that is lost.
    pub fn may_be_awaited(&self) -> bool {
        let is_waiting = self.config.recovers && self.is_over && self.config.slot != COORDINATOR;
        is_waiting && !self.is_dismissed() && !self.knows_end()
    }

    /// Whether a peer may send `Leave` to the coordinator.
    pub(super) fn may_leave(&self, peer: usize) -> bool {
        self.config.recovers || self.peers[peer].report.is_none()
    }

    /// Handles the frames that do not belong to a step.
    pub(super) fn control_arrived(
        &mut self,
        peer: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Result<ReplicaEvent, ReplicaError> {
        match header.kind {
            FrameKind::Abort => {
                Ok(ReplicaEvent::Abort(String::from_utf8_lossy(bytes).into_owned()))
            }
            FrameKind::Stop => Ok(ReplicaEvent::CutShort),
            FrameKind::Leave if header.version != self.whole_digest() => Err(self.differ(&[peer])),
            FrameKind::Leave => {
                // The first report counts: a newcomer that leaves in its place has done nothing.
                self.peers[peer].report.get_or_insert_with(|| bytes.to_vec());
                Ok(ReplicaEvent::Left)
            }
            FrameKind::Bye => {
                self.peers[peer].said_bye = true;
                (self.is_over, self.catch_up) = (true, None);
                Ok(ReplicaEvent::Bye)
            }
            kind => Err(ProtocolError::Unexpected(kind).into()),
        }
    }
}

/// Whether a frame of this kind carries a worker's gradient, or a part of it.
fn is_gradient(kind: FrameKind) -> bool {
    matches!(kind, FrameKind::GradientChunk | FrameKind::Factors | FrameKind::KeyedGradient)
}
