//! What comes from peers: whether its turn has come, and where it goes.

use std::ops::Range;

use super::{CHIEF, Replica, ReplicaError, ReplicaEvent, Said, Turn};
use crate::{CONTROL_BYTES, Flags, FrameKind, Header, ProtocolError, as_bytes_mut};

/// Where the payload of a frame is to be read to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerTarget {
    /// Into the peer's held chunk, so many floats of it; see [`Replica::place`].
    Held(usize),
    /// Into this range of the parameters; see [`Replica::place`].
    Params(Range<usize>),
    /// Into this range of the mean; see [`Replica::place`].
    Mean(Range<usize>),
    /// Into this range of a slot of the optimizer; see [`Replica::place`].
    Slot(usize, Range<usize>),
    /// Into a buffer of this many bytes.
    Bytes(usize),
    /// Nowhere yet: its turn has not come. It is to be asked about again when something else
    /// has arrived or the next step begins.
    Later,
}

impl Replica {
    /// Where the payload of the next frame from a peer is likely to go, if that can be foretold.
    pub fn likely_target(&self, peer: usize) -> Option<PeerTarget> {
        let (own, theirs) = (&self.chunks[self.config.slot], &self.chunks[peer]);
        let is_short = own.len() == 1 && theirs.len() == 1;
        let progress = self.peers[peer].progress;
        if self.turn.is_none() || !is_short {
            None
        } else if progress.shares_got == 0 {
            Some(PeerTarget::Held(own[0].len()))
        } else if progress.fresh_got == 0 && !self.is_whole && self.is_certain() {
            Some(self.fresh_place(theirs[0].clone()))
        } else {
            None
        }
    }

    /// Where the payload of a `UpdatedChunk` goes.
    fn fresh_place(&self, range: Range<usize>) -> PeerTarget {
        match self.config.recovers {
            true => PeerTarget::Mean(range),
            false => PeerTarget::Params(range),
        }
    }

    /// Looks at a header: whether it may come now, and where its payload goes.
    pub fn read_target(&self, peer: usize, header: &Header) -> Result<PeerTarget, ProtocolError> {
        match header.kind {
            // Others may have begun while somebody is still missing here.
            FrameKind::GradientChunk if self.is_gathering || self.behind.is_some() => {
                Ok(PeerTarget::Later)
            }
            FrameKind::GradientChunk => self.expect_share(peer, header),
            FrameKind::State => self.expect_state(peer, header),
            FrameKind::UpdatedChunk => self.expect_fresh(peer, header),
            FrameKind::Abort => Ok(PeerTarget::Bytes(header.len as usize)),
            FrameKind::Leave if self.config.slot == CHIEF && !self.is_over => Ok(PeerTarget::Later),
            // Whoever has come back leaves once more.
            FrameKind::Leave if self.config.slot == CHIEF && self.may_leave(peer) => {
                Ok(PeerTarget::Bytes((header.len as usize).min(CONTROL_BYTES)))
            }
            FrameKind::Bye if peer == CHIEF && (self.is_over || self.knows_end()) => {
                Ok(PeerTarget::Bytes(0))
            }
            kind => Err(ProtocolError::Unexpected(kind)),
        }
    }

    fn expect_share(&self, peer: usize, header: &Header) -> Result<PeerTarget, ProtocolError> {
        let Turn { made, .. } = match self.turn {
            Some(turn) if header.step == self.global_step => turn,
            // Whoever is quick may be one step ahead.
            None if header.step == self.global_step && !self.is_over => {
                return Ok(PeerTarget::Later);
            }
            Some(_) if header.step == self.global_step + 1 => return Ok(PeerTarget::Later),
            _ => return Err(ProtocolError::Unexpected(FrameKind::GradientChunk)),
        };
        let Header { chunk, len, .. } = *header;
        let got = self.peers[peer].progress.shares_got;
        let range = self.chunks[self.config.slot].get(got).filter(|_| chunk as usize == got);
        let has_left = header.flags.contains(Flags::LEFT);
        let stops = header.flags.contains(Flags::STOP);
        let floats = match (range, has_left) {
            (Some(_), true) if got == 0 => 0,
            (Some(range), false) => range.len(),
            _ => return Err(ProtocolError::Chunk { chunk, len }),
        };
        let keeps = header.flags.contains(Flags::CHECKPOINT);
        if len as usize != floats * 4 || ((stops || keeps) && peer != CHIEF) {
            return Err(ProtocolError::Chunk { chunk, len });
        }
        if got > made || self.peers[peer].is_held {
            return Ok(PeerTarget::Later);
        }
        Ok(PeerTarget::Held(floats))
    }

    fn expect_fresh(&self, peer: usize, header: &Header) -> Result<PeerTarget, ProtocolError> {
        let progress = self.peers[peer].progress;
        let Header { chunk, len, step, .. } = *header;
        let range = self.chunks[peer].get(progress.fresh_got).cloned().unwrap_or_default();
        let fits = chunk as usize == progress.fresh_got && len as usize == range.len() * 4;
        // Nobody can have made a chunk that we have not sent our share of.
        let is_possible = progress.fresh_got < progress.shares_sent && self.has_fresh();
        match self.turn {
            Some(_) if step == self.global_step && fits && is_possible => {
                Ok(self.fresh_place(range))
            }
            _ => Err(ProtocolError::Chunk { chunk, len }),
        }
    }

    /// The memory behind a place; empty for bytes, which are the caller's.
    pub fn target_bytes(&mut self, peer: usize, place: &PeerTarget) -> &mut [u8] {
        match place {
            PeerTarget::Held(floats) => {
                let held = &mut self.peers[peer].held;
                if held.len() < *floats {
                    held.resize(*floats, 0.0);
                }
                as_bytes_mut(&mut held[..*floats])
            }
            PeerTarget::Params(range) => {
                self.is_torn |= self.behind.is_some();
                as_bytes_mut(&mut self.params[range.clone()])
            }
            PeerTarget::Mean(range) => {
                self.mean_of = None;
                as_bytes_mut(&mut self.mean[range.clone()])
            }
            PeerTarget::Slot(slot, range) => {
                self.is_torn = true;
                as_bytes_mut(&mut self.optimizer.state_mut(*slot)[range.clone()])
            }
            PeerTarget::Bytes(_) | PeerTarget::Later => &mut [],
        }
    }

    /// A frame that was expected is here, with its payload in its place; `bytes` are those that
    /// were read into a buffer.
    pub fn frame_arrived(
        &mut self,
        peer: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Result<ReplicaEvent, ReplicaError> {
        match header.kind {
            FrameKind::GradientChunk => {
                let own = self.chunks[self.config.slot].len();
                let peer = &mut self.peers[peer];
                let has_left = header.flags.contains(Flags::LEFT);
                peer.is_held = !has_left;
                peer.progress.shares_got = if has_left { own } else { header.chunk as usize + 1 };
                peer.said.get_or_insert(Said {
                    examples: header.count,
                    has_left,
                    stops: header.flags.contains(Flags::STOP),
                    keeps: header.flags.contains(Flags::CHECKPOINT),
                    digest: header.version,
                });
                Ok(ReplicaEvent::Progress)
            }
            FrameKind::UpdatedChunk => {
                self.peers[peer].progress.fresh_got += 1;
                Ok(ReplicaEvent::Progress)
            }
            FrameKind::State => self.state_arrived(header),
            _ => self.heard(peer, header, bytes),
        }
    }
}
