//! What a newcomer has to know of gradients that travel as changes.
//!
//! Of each gradient, two workers know the same: the one that computes it, and the owner of the
//! shard. So a newcomer receives from every other worker what that worker, as an owner, knows of
//! the newcomer's gradient, and what the newcomer, as an owner, should know of that worker's
//! ([`FrameKind::KnownGradient`]). If two workers are lost at once, what only they knew is lost
//! too: the run cannot continue with the bits that it would have had, and ends.

use std::ops::Range;

use super::event::ReplicaError;
use super::known::KnownPart;
use super::peer::ReplicaPosition;
use super::receive::PeerTarget;
use super::send::{PeerFrame, PeerSource};
use super::state::Replica;
use crate::{FrameKind, Header, ProtocolError, WireFormat};

impl Replica {
    /// Whether gradients travel as changes.
    pub(super) fn is_rounded(&self) -> bool {
        self.config.wire == WireFormat::Bf16
    }

    /// Once all are connected, where gradients travel as changes: undoes what an abandoned step
    /// has changed, unless the others have made it, and plans what a newcomer is sent.
    pub(super) fn plan_known(&mut self, furthest: ReplicaPosition) -> Result<(), ReplicaError> {
        if !self.is_rounded() {
            return Ok(());
        }
        if furthest.step == 0 {
            // No replica that has made a step is left, so the run begins again.
            self.known.forget();
            self.mean.fill(0.0);
            return Ok(());
        }
        if self.global_step > furthest.step {
            // What this worker knows is ahead of every replica that is whole.
            return Err(self.known_lost(self.others().filter(|&slot| self.peers[slot].is_fresh)));
        }
        let newcomers: Vec<_> =
            (0..self.peers.len()).filter(|&slot| self.is_newcomer(slot, furthest)).collect();
        let own = self.config.slot;
        if newcomers.contains(&own) {
            self.known.settle();
        } else if self.global_step == furthest.step {
            self.known.undo(&self.chunks, &mut self.mean);
        } else {
            // The others have made the step, for which they needed all that this worker had to
            // send. But they may be lost before they have sent its mean.
            self.known.keep_means(&self.chunks, &self.mean);
        }
        if furthest.is_over {
            // No gradient will follow. Not all workers need to be connected.
            self.lacks_known |= newcomers.contains(&own);
            return Ok(());
        }
        match newcomers[..] {
            [] => Ok(()),
            [newcomer] if newcomer == own => {
                self.others().for_each(|peer| self.peers[peer].known_awaited = Some(0));
                Ok(())
            }
            [newcomer] => {
                self.peers[newcomer].known_to_send = Some(0);
                Ok(())
            }
            _ => Err(self.known_lost(newcomers.into_iter())),
        }
    }

    /// These workers were lost together, and with them what only they knew.
    fn known_lost(&self, slots: impl Iterator<Item = usize>) -> ReplicaError {
        let names: Vec<_> = slots.map(|slot| self.name(slot)).collect();
        ReplicaError::KnownLost { names: names.join(" and ") }
    }

    /// Whether a replica does not know what it should after the last step that was made. One that
    /// has lost its donor in the middle of a transfer does, unless its process is new.
    fn is_newcomer(&self, slot: usize, furthest: ReplicaPosition) -> bool {
        let is_own = slot == self.config.slot;
        let peer = &self.peers[slot];
        let (position, is_fresh) =
            if is_own { (self.position(), self.is_fresh) } else { (peer.position, peer.is_fresh) };
        is_fresh && position.is_none_or(|its| its.step < furthest.step)
    }

    /// The `nth` frame with what two workers know: first the owner's, of its own shard, then that
    /// of the newcomer's shard.
    fn known_frame(&self, sender: usize, newcomer: usize, nth: usize) -> Option<KnownFrame> {
        let of_sender = self.chunks[sender].len();
        let (count, owner, chunk) =
            if nth < of_sender { (0, sender, nth) } else { (1, newcomer, nth - of_sender) };
        let range = self.chunks[owner].get(chunk)?.clone();
        let own = self.config.slot;
        let part = if owner == own {
            let slot = if sender == own { newcomer } else { sender };
            KnownPart::Received { slot, chunk }
        } else {
            KnownPart::Sent { owner, chunk }
        };
        Some(KnownFrame { count, chunk, range, part })
    }

    /// The next frame for a newcomer.
    pub(super) fn next_known(&mut self, peer: usize, nth: usize) -> Option<PeerFrame> {
        let own = self.config.slot;
        let KnownFrame { count, chunk, range, part } = self.known_frame(own, peer, nth)?;
        let has_more = self.known_frame(own, peer, nth + 1).is_some();
        self.peers[peer].known_to_send = has_more.then_some(nth + 1);
        self.known.values_mut(part, range.len());
        let header = self.step_header(FrameKind::KnownGradient, chunk, range.len());
        Some(PeerFrame { header: Header { count, ..header }, source: PeerSource::Known(part) })
    }

    pub(super) fn expect_known(
        &self,
        peer: usize,
        header: &Header,
    ) -> Result<PeerTarget, ProtocolError> {
        if self.is_gathering && self.config.recovers && self.is_rounded() {
            return Ok(PeerTarget::Later);
        }
        let unexpected = ProtocolError::Unexpected(FrameKind::KnownGradient);
        let nth = self.peers[peer].known_awaited.ok_or(unexpected)?;
        let Header { chunk, len, count, .. } = *header;
        let wrong = ProtocolError::Chunk { chunk, len };
        let known = self.known_frame(peer, self.config.slot, nth).ok_or(wrong.clone())?;
        let is_next = (count, chunk as usize) == (known.count, known.chunk);
        if !is_next || len as usize != known.range.len() * 4 {
            return Err(wrong);
        }
        Ok(PeerTarget::Known { part: known.part, len: known.range.len() })
    }

    /// A frame with what a peer knows arrived.
    pub(super) fn known_arrived(&mut self, peer: usize) {
        let Some(nth) = self.peers[peer].known_awaited else { return };
        let has_more = self.known_frame(peer, self.config.slot, nth + 1).is_some();
        self.peers[peer].known_awaited = has_more.then_some(nth + 1);
        if !self.is_behind() {
            (self.is_incomplete, self.is_fresh) = (false, false);
        }
    }

    /// Whether what a newcomer has to know is still arriving.
    pub(super) fn awaits_known(&self) -> bool {
        self.peers.iter().any(|peer| peer.known_awaited.is_some())
    }

    /// Where gradients travel as changes: a gradient of this worker's shard as it is known, for a
    /// checkpoint: that of `slot`, or for this worker's own slot the mean. `out` is as long as the
    /// shard that this worker writes.
    pub fn copy_known(&self, slot: usize, out: &mut [f32]) {
        out.fill(0.0);
        let (own, start) = (self.config.slot, self.config.shard(self.total).start);
        for (chunk, range) in self.chunks[own].iter().enumerate() {
            let place = range.start.max(start) - start;
            let values = if slot == own {
                &self.mean[range.clone()]
            } else {
                self.known.values(KnownPart::Received { slot, chunk })
            };
            out[place..place + values.len()].copy_from_slice(values);
        }
    }

    /// Reads what a checkpoint holds of gradients that travel as changes: `read` returns a range
    /// of the column of a slot, as [`Self::copy_known`] has written it; `None` if there is none.
    pub fn restore_known<E>(
        &mut self,
        mut read: impl FnMut(usize, Range<usize>) -> Result<Option<Vec<f32>>, E>,
    ) -> Result<(), E> {
        let own = self.config.slot;
        for owner in 0..self.peers.len() {
            for (chunk, range) in self.chunks[owner].clone().into_iter().enumerate() {
                if let Some(mean) = read(owner, range.clone())? {
                    self.mean[range.clone()].copy_from_slice(&mean);
                }
                let slots = if owner == own { 0..self.peers.len() } else { own..own + 1 };
                for slot in slots.filter(|&slot| slot != owner) {
                    let part = if owner == own {
                        KnownPart::Received { slot, chunk }
                    } else {
                        KnownPart::Sent { owner, chunk }
                    };
                    if let Some(values) = read(slot, range.clone())? {
                        self.known.values_mut(part, range.len()).copy_from_slice(&values);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether this replica has everything that its part of a checkpoint holds. One that comes
    /// back after the last step may lack what no step needs any more.
    pub fn has_whole_state(&self) -> bool {
        !self.is_incomplete && !self.lacks_known
    }
}

/// A frame with what two workers know.
struct KnownFrame {
    count: u32,
    chunk: usize,
    range: Range<usize>,
    part: KnownPart,
}
