//! What comes from peers: whether its turn has come, and where it goes.

use std::ops::Range;

use super::{CHIEF, Replica, ReplicaError, ReplicaEvent, Said, Turn};
use crate::{CONTROL_BYTES, Flags, Header, Kind, ProtocolError, as_bytes_mut};

/// Where the payload of a frame is to be read to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Into the peer's held part, so many floats of it; see [`Replica::place`].
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
    pub fn likely(&self, peer: usize) -> Option<Place> {
        let (own, theirs) = (&self.parts[self.config.slot], &self.parts[peer]);
        let is_short = own.len() == 1 && theirs.len() == 1;
        let progress = self.peers[peer].progress;
        if self.turn.is_none() || !is_short {
            None
        } else if progress.shares_got == 0 {
            Some(Place::Held(own[0].len()))
        } else if progress.fresh_got == 0 && !self.is_whole && self.is_certain() {
            Some(self.fresh_place(theirs[0].clone()))
        } else {
            None
        }
    }

    /// Where the payload of a `Fresh` goes.
    fn fresh_place(&self, range: Range<usize>) -> Place {
        match self.config.recovers {
            true => Place::Mean(range),
            false => Place::Params(range),
        }
    }

    /// Looks at a header: whether it may come now, and where its payload goes.
    pub fn expect(&self, peer: usize, header: &Header) -> Result<Place, ProtocolError> {
        match header.kind {
            // Others may have begun while somebody is still missing here.
            Kind::Share if self.is_gathering || self.behind.is_some() => Ok(Place::Later),
            Kind::Share => self.expect_share(peer, header),
            Kind::State => self.expect_state(peer, header),
            Kind::Fresh => self.expect_fresh(peer, header),
            Kind::Abort => Ok(Place::Bytes(header.len as usize)),
            Kind::Leave if self.config.slot == CHIEF && !self.is_over => Ok(Place::Later),
            // Whoever has come back leaves once more.
            Kind::Leave if self.config.slot == CHIEF && self.may_leave(peer) => {
                Ok(Place::Bytes((header.len as usize).min(CONTROL_BYTES)))
            }
            Kind::Bye if peer == CHIEF && (self.is_over || self.knows_end()) => Ok(Place::Bytes(0)),
            kind => Err(ProtocolError::Unexpected(kind)),
        }
    }

    fn expect_share(&self, peer: usize, header: &Header) -> Result<Place, ProtocolError> {
        let Turn { made, .. } = match self.turn {
            Some(turn) if header.step == self.global_step => turn,
            // Whoever is quick may be one step ahead.
            None if header.step == self.global_step && !self.is_over => return Ok(Place::Later),
            Some(_) if header.step == self.global_step + 1 => return Ok(Place::Later),
            _ => return Err(ProtocolError::Unexpected(Kind::Share)),
        };
        let Header { part, len, .. } = *header;
        let got = self.peers[peer].progress.shares_got;
        let range = self.parts[self.config.slot].get(got).filter(|_| part as usize == got);
        let has_left = header.flags.contains(Flags::LEFT);
        let stops = header.flags.contains(Flags::STOP);
        let floats = match (range, has_left) {
            (Some(_), true) if got == 0 => 0,
            (Some(range), false) => range.len(),
            _ => return Err(ProtocolError::Part { part, len }),
        };
        let keeps = header.flags.contains(Flags::KEEP);
        if len as usize != floats * 4 || ((stops || keeps) && peer != CHIEF) {
            return Err(ProtocolError::Part { part, len });
        }
        if got > made || self.peers[peer].is_held {
            return Ok(Place::Later);
        }
        Ok(Place::Held(floats))
    }

    fn expect_fresh(&self, peer: usize, header: &Header) -> Result<Place, ProtocolError> {
        let progress = self.peers[peer].progress;
        let Header { part, len, step, .. } = *header;
        let range = self.parts[peer].get(progress.fresh_got).cloned().unwrap_or_default();
        let fits = part as usize == progress.fresh_got && len as usize == range.len() * 4;
        // Nobody can have made a part that we have not sent our share of.
        let is_possible = progress.fresh_got < progress.shares_sent && self.has_fresh();
        match self.turn {
            Some(_) if step == self.global_step && fits && is_possible => {
                Ok(self.fresh_place(range))
            }
            _ => Err(ProtocolError::Part { part, len }),
        }
    }

    /// The memory behind a place; empty for bytes, which are the caller's.
    pub fn place(&mut self, peer: usize, place: &Place) -> &mut [u8] {
        match place {
            Place::Held(floats) => {
                let held = &mut self.peers[peer].held;
                if held.len() < *floats {
                    held.resize(*floats, 0.0);
                }
                as_bytes_mut(&mut held[..*floats])
            }
            Place::Params(range) => {
                self.is_torn |= self.behind.is_some();
                as_bytes_mut(&mut self.params[range.clone()])
            }
            Place::Mean(range) => {
                self.mean_of = None;
                as_bytes_mut(&mut self.mean[range.clone()])
            }
            Place::Slot(slot, range) => {
                self.is_torn = true;
                as_bytes_mut(&mut self.optimizer.state_mut(*slot)[range.clone()])
            }
            Place::Bytes(_) | Place::Later => &mut [],
        }
    }

    /// A frame that was expected is here, with its payload in its place; `bytes` are those that
    /// were read into a buffer.
    pub fn arrived(
        &mut self,
        peer: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Result<ReplicaEvent, ReplicaError> {
        match header.kind {
            Kind::Share => {
                let own = self.parts[self.config.slot].len();
                let peer = &mut self.peers[peer];
                let has_left = header.flags.contains(Flags::LEFT);
                peer.is_held = !has_left;
                peer.progress.shares_got = if has_left { own } else { header.part as usize + 1 };
                peer.said.get_or_insert(Said {
                    examples: header.count,
                    has_left,
                    stops: header.flags.contains(Flags::STOP),
                    keeps: header.flags.contains(Flags::KEEP),
                    digest: header.version,
                });
                Ok(ReplicaEvent::Part)
            }
            Kind::Fresh => {
                self.peers[peer].progress.fresh_got += 1;
                Ok(ReplicaEvent::Part)
            }
            Kind::State => self.state_arrived(header),
            _ => self.heard(peer, header, bytes),
        }
    }
}
