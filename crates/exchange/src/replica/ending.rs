//! The end of a run without servers, the good one and the others.

use super::{CHIEF, Replica, ReplicaError, ReplicaEvent, digest};
use crate::{CONTROL_BYTES, Header, Kind, ProtocolError};

impl Replica {
    /// After the last step: the frame with which a worker leaves, for the chief.
    ///
    /// # Panics
    /// If the last step has not been made, or the report is longer than a frame may be.
    pub fn leave(&self, report: &[u8]) -> (Header, Vec<u8>) {
        assert!(self.is_over, "a run is left after its last step");
        let header = Header::new(Kind::Leave, report.len());
        (Header { version: digest(&self.params), ..header }, report.to_vec())
    }

    /// The chief's answer to it.
    pub fn bye() -> Header {
        Header::new(Kind::Bye, 0)
    }

    /// What a worker that fails tells the others.
    pub fn abort(why: &str) -> (Header, Vec<u8>) {
        let bytes = &why.as_bytes()[..why.len().min(CONTROL_BYTES)];
        (Header::new(Kind::Abort, bytes.len()), bytes.to_vec())
    }

    /// Whether the chief has said goodbye to us.
    pub fn is_let_go(&self) -> bool {
        self.peers[CHIEF].said_bye
    }

    /// Whether there is still something to hear from a peer or to tell it, so that losing it now
    /// ends the run.
    pub fn needs(&self, peer: usize) -> bool {
        match (&self.turn, self.is_over) {
            (Some(_), _) => self.needs_in_step(peer),
            (None, false) => true,
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
        next.kind == Kind::Share
    }

    /// Frames that are no part of a step.
    pub(super) fn heard(
        &mut self,
        peer: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Result<ReplicaEvent, ReplicaError> {
        match header.kind {
            Kind::Abort => Ok(ReplicaEvent::Abort(String::from_utf8_lossy(bytes).into_owned())),
            Kind::Leave if header.version != digest(&self.params) => Err(self.differ(&[peer])),
            Kind::Leave => {
                self.peers[peer].report = Some(bytes.to_vec());
                Ok(ReplicaEvent::Left)
            }
            Kind::Bye => {
                self.peers[peer].said_bye = true;
                Ok(ReplicaEvent::Bye)
            }
            kind => Err(ProtocolError::Unexpected(kind).into()),
        }
    }
}
