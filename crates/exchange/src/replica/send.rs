//! The frames of a step that go to peers.

use std::ops::Range;

use super::known::KnownPart;
use super::memory::StepMemory;
use super::peer::CurrentStep;
use super::state::Replica;
use crate::{Flags, FrameKind, Header, as_bytes};

/// A frame to send to a peer.
#[derive(Clone, Debug)]
pub struct PeerFrame {
    /// Its header.
    pub header: Header,
    /// Where its payload is.
    pub source: PeerSource,
}

/// Where the payload of a frame to send is. [`Replica::payload`] gives the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerSource {
    /// This range of the gradient.
    Gradient(Range<usize>),
    /// This range of the parameters.
    Params(Range<usize>),
    /// This range of the mean gradient.
    Mean(Range<usize>),
    /// This range of one part of the optimizer's state.
    State(usize, Range<usize>),
    /// This range of the output of the step.
    Output(Range<usize>),
    /// The changes that were made last.
    Changes(KnownPart),
    /// A gradient as it is known.
    Known(KnownPart),
    /// A frame of this worker's gradient of a sparse model.
    Keyed {
        /// The frame's place in the gradient.
        nth: usize,
    },
    /// The frame of a sparse model's state that a peer is being sent.
    Entries {
        /// The slot of the peer.
        peer: usize,
    },
    /// This range of this worker's factors of a piece.
    Factors {
        /// The piece.
        piece: usize,
        /// The range of its factors.
        range: Range<usize>,
    },
}

impl Replica {
    /// The next frame for a peer; `None` if there is none now.
    pub fn next_frame(&mut self, peer: usize, memory: &dyn StepMemory) -> Option<PeerFrame> {
        if let Some(transfer) = self.peers[peer].transfer {
            return Some(if self.keyed.is_some() {
                self.next_entries(peer, transfer)
            } else {
                self.next_state_frame(peer, transfer)
            });
        }
        if let Some(nth) = self.peers[peer].known_to_send {
            return self.next_known(peer, nth);
        }
        let step = self.step?;
        let has_updates = self.has_updates();
        let progress = &self.peers[peer].progress;
        // Updated chunks go first: they are in the cache, and the peer waits for them. But chunk n
        // never goes before gradient n, so that the peer of a small model can predict the order.
        let owes_gradient = progress.gradients_sent < self.chunks[peer].len();
        let may_update = progress.gradients_sent > progress.updates_sent || !owes_gradient;
        let hears_end = !self.owns(peer);
        if (has_updates || hears_end) && progress.updates_sent < step.reduced && may_update {
            return Some(self.next_update(peer, step));
        }
        // Factors are handed in before most gradients, and are few.
        let factors = self.next_factors(peer, step.own);
        factors.or_else(|| self.next_gradient(peer, step, memory))
    }

    fn next_update(&mut self, peer: usize, step: CurrentStep) -> PeerFrame {
        let all_left = self.has_all_left();
        let own = &self.chunks[self.config.slot];
        let progress = &mut self.peers[peer].progress;
        let chunk = progress.updates_sent;
        // One empty frame says that the step is not made.
        progress.updates_sent = if all_left { own.len() } else { chunk + 1 };
        let range = if all_left { 0..0 } else { own[chunk].clone() };
        let mut header = self.step_header(FrameKind::UpdatedChunk, chunk, range.len());
        if !self.owns(peer) {
            // The peer hears of the step from owners alone.
            header.flags = step.own.flags() | if all_left { Flags::LEFT } else { Flags::NONE };
            header.version = step.own.digest;
        }
        let source = if self.is_rounded() {
            PeerSource::Changes(KnownPart::Mean { owner: self.config.slot, chunk })
        } else {
            PeerSource::Output(range)
        };
        PeerFrame { header, source }
    }

    fn next_gradient(
        &mut self,
        peer: usize,
        step: CurrentStep,
        memory: &dyn StepMemory,
    ) -> Option<PeerFrame> {
        let own = step.own;
        let chunks = &self.chunks[peer];
        let chunk = self.peers[peer].progress.gradients_sent;
        let mut range = chunks.get(chunk)?.clone();
        if self.keyed.is_some() && !own.has_left {
            return self.next_keyed(peer, own);
        }
        if !own.has_left && !self.has_own_gradient(&range) {
            return None;
        }
        let progress = &mut self.peers[peer].progress;
        progress.gradients_sent += 1;
        let mut flags = own.flags();
        if own.has_left {
            // One empty frame stands for all chunks and factors.
            progress.gradients_sent = chunks.len();
            flags = flags | Flags::LEFT;
            range = 0..0;
        }
        let header = self.step_header(FrameKind::GradientChunk, chunk, range.len());
        let header = Header { flags, count: own.examples, version: own.digest, ..header };
        let mut source = PeerSource::Gradient(range.clone());
        if self.is_rounded() && !own.has_left {
            let part = KnownPart::Sent { owner: peer, chunk };
            self.known.encode(part, memory.gradient(range));
            source = PeerSource::Changes(part);
        }
        Some(PeerFrame { header, source })
    }

    /// The payload of a frame to send.
    pub fn payload<'a>(&'a self, source: &PeerSource, memory: &'a dyn StepMemory) -> &'a [u8] {
        as_bytes(match source {
            PeerSource::Changes(part) => return self.known.changes(*part),
            PeerSource::Entries { peer } => return &self.peers[*peer].out,
            PeerSource::Keyed { nth } => self.keyed_values(*nth, memory),
            PeerSource::Known(part) => self.known.values(*part),
            PeerSource::Gradient(range) => memory.gradient(range.clone()),
            PeerSource::Output(range) => memory.output(range.clone()).unwrap_or_else(|| {
                let own = if self.config.sends_means() { &self.mean[..] } else { &self.params[..] };
                &own[range.clone()]
            }),
            PeerSource::Factors { piece, range } => memory.own_factors(*piece, range.clone()),
            PeerSource::Params(range) => &self.params[range.clone()],
            PeerSource::Mean(range) => &self.mean[range.clone()],
            PeerSource::State(index, range) => {
                let mut states = self.optimizer.states();
                states.nth(*index).map_or(&[], |(_, values)| &values[range.clone()])
            }
        })
    }

    /// What follows the payload in the same frame: the keys of a sparse gradient.
    pub fn payload_tail(&self, source: &PeerSource) -> &[u8] {
        match source {
            PeerSource::Keyed { nth } => self.keyed_tail(*nth),
            _ => &[],
        }
    }

    pub(super) fn step_header(&self, kind: FrameKind, chunk: usize, numbers: usize) -> Header {
        let len = self.payload_bytes(kind, numbers);
        Header { chunk: chunk as u32, step: self.global_step, ..Header::new(kind, len) }
    }

    /// The length of a payload of this many numbers.
    pub(super) fn payload_bytes(&self, kind: FrameKind, numbers: usize) -> usize {
        let may_be_rounded = matches!(kind, FrameKind::GradientChunk | FrameKind::UpdatedChunk);
        numbers * if may_be_rounded { self.config.wire.number_bytes() } else { 4 }
    }
}
