//! The end of a run without servers, the good one and the others.

use super::{CHIEF, Replica, ReplicaError, ReplicaEvent, digest};
use crate::{CONTROL_BYTES, FrameKind, Header, ProtocolError};

impl Replica {
    /// After the last step: the frame with which a worker leaves, for the chief.
    ///
    /// # Panics
    /// If the last step has not been made, or the report is longer than a frame may be.
    pub fn leave(&self, report: &[u8]) -> (Header, Vec<u8>) {
        assert!(self.is_over, "a run is left after its last step");
        let header = Header::new(FrameKind::Leave, report.len());
        (Header { version: digest(&self.params), ..header }, report.to_vec())
    }

    /// The chief's answer to it.
    pub fn bye() -> Header {
        Header::new(FrameKind::Bye, 0)
    }

    /// What a worker that fails tells the others.
    pub fn abort(why: &str) -> (Header, Vec<u8>) {
        let bytes = &why.as_bytes()[..why.len().min(CONTROL_BYTES)];
        (Header::new(FrameKind::Abort, bytes.len()), bytes.to_vec())
    }

    /// Whether the chief has said goodbye to us.
    pub fn is_dismissed(&self) -> bool {
        self.peers[CHIEF].said_bye
    }

    /// Whether there is still something to hear from a peer or to tell it, so that losing it now
    /// ends the run.
    pub fn needs(&self, peer: usize) -> bool {
        if self.peers[peer].owed.is_some() {
            return true;
        }
        match (&self.turn, self.is_over) {
            // Where losses are recovered from, others may be waiting for it, and we for them.
            (Some(_), _) => self.config.recovers || self.needs_in_step(peer),
            (None, false) => peer == CHIEF || !self.knows_end(),
            (None, true) if self.config.slot == CHIEF => self.peers[peer].report.is_none(),
            (None, true) => peer == CHIEF && !self.peers[CHIEF].said_bye,
        }
    }

    /// Whether a peer whose connection has ended is lost, if what it had sent before begins with
    /// this frame, whose turn has not come.
    ///
    /// Whoever ends in good order has made the last step, which takes everybody's last share. A
    /// share out of turn was sent by somebody who had not.
    pub fn is_lost_before(&self, next: &Header) -> bool {
        // Where losses are recovered from, nobody goes before the chief has said goodbye.
        self.config.recovers || next.kind == FrameKind::GradientChunk
    }

    /// Of a worker that has made the last step: whether the chief may not have made it yet, as far
    /// as is known. Then somebody who is lost may still be waited for by others, who wait for all.
    pub fn may_be_awaited(&self) -> bool {
        let is_waiting = self.config.recovers && self.is_over && self.config.slot != CHIEF;
        is_waiting && !self.is_dismissed() && !self.knows_end()
    }

    /// Whether a peer may say `Leave` to the chief.
    pub(super) fn may_leave(&self, peer: usize) -> bool {
        self.config.recovers || self.peers[peer].report.is_none()
    }

    /// Frames that are no chunk of a step.
    pub(super) fn heard(
        &mut self,
        peer: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Result<ReplicaEvent, ReplicaError> {
        match header.kind {
            FrameKind::Abort => {
                Ok(ReplicaEvent::Abort(String::from_utf8_lossy(bytes).into_owned()))
            }
            FrameKind::Leave if header.version != digest(&self.params) => Err(self.differ(&[peer])),
            FrameKind::Leave => {
                // The first one counts: a newcomer who leaves in its place has done nothing.
                self.peers[peer].report.get_or_insert_with(|| bytes.to_vec());
                Ok(ReplicaEvent::Left)
            }
            FrameKind::Bye => {
                self.peers[peer].said_bye = true;
                (self.is_over, self.behind) = (true, None);
                Ok(ReplicaEvent::Bye)
            }
            kind => Err(ProtocolError::Unexpected(kind).into()),
        }
    }
}
