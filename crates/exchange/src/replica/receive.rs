//! The frames of peers: whether it is their turn, and where their payloads go.

use std::ops::Range;

use super::event::{ReplicaError, ReplicaEvent};
use super::known::KnownPart;
use super::memory::StepMemory;
use super::peer::{COORDINATOR, Contribution};
use super::state::Replica;
use crate::{CONTROL_BYTES, Flags, FrameKind, Header, ProtocolError, as_bytes_mut};
use paceline_model::kernels::{all_finite, all_finite_bf16};

/// Where the payload of a frame is read to. [`Replica::target_bytes`] gives the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerTarget {
    /// Into the buffer for the peer's gradient; this many floats.
    Gradient(usize),
    /// Into this range of the parameters.
    Params(Range<usize>),
    /// Into this range of the mean.
    Mean(Range<usize>),
    /// Into this range of one part of the optimizer's state.
    State(usize, Range<usize>),
    /// Into this range of the output of the step.
    Output(Range<usize>),
    /// Into the buffer for this many changes, of a gradient or of a mean.
    Changes(usize),
    /// Into a gradient as it is known.
    Known {
        /// The gradient.
        part: KnownPart,
        /// Its length in floats.
        len: usize,
    },
    /// Into this range of the memory for the peer's factors of a piece.
    Factors {
        /// The piece.
        piece: usize,
        /// The range of its factors.
        range: Range<usize>,
    },
    /// Into the buffer for a frame of a sparse gradient or state, of this many bytes.
    Keyed(usize),
    /// Into a buffer of the caller, of this many bytes.
    Bytes(usize),
    /// Nowhere yet: it is not the frame's turn. Ask again when another frame has arrived or the
    /// next step begins.
    Later,
}

impl Replica {
    /// Where the payload of the next frame from a peer goes, if that can be predicted.
    pub fn likely_target(&self, peer: usize) -> Option<PeerTarget> {
        let (own, theirs) = (&self.chunks[self.config.slot], &self.chunks[peer]);
        let is_short = own.len() <= 1 && theirs.len() <= 1;
        let progress = self.peers[peer].progress;
        let varies = !self.config.pieces.is_empty() || self.keyed.is_some();
        if self.step.is_none() || !is_short || varies {
            return None;
        }
        if progress.gradients_received < own.len() {
            return Some(self.gradient_target(own[0].len()));
        }
        let has_updates = !self.is_whole && self.is_certain();
        let update = theirs.get(progress.updates_received).filter(|_| has_updates);
        update.map(|range| self.output_target(range.clone()))
    }

    /// Checks a header, and returns where its payload goes.
    pub fn read_target(&self, peer: usize, header: &Header) -> Result<PeerTarget, ProtocolError> {
        let is_coordinator = self.config.slot == COORDINATOR;
        match header.kind {
            // Other workers may have begun while a peer is still missing here.
            FrameKind::GradientChunk | FrameKind::Factors | FrameKind::KeyedGradient
                if self.is_gathering || self.is_behind() =>
            {
                Ok(PeerTarget::Later)
            }
            FrameKind::GradientChunk => self.expect_gradient(peer, header),
            FrameKind::Factors => self.expect_factors(peer, header),
            FrameKind::KeyedGradient => self.expect_keyed(peer, header),
            FrameKind::Entries => self.expect_entries(peer, header),
            FrameKind::State => self.expect_state(peer, header),
            FrameKind::KnownGradient => self.expect_known(peer, header),
            FrameKind::UpdatedChunk => self.expect_update(peer, header),
            FrameKind::Abort => Ok(PeerTarget::Bytes(header.len as usize)),
            FrameKind::Stop if header.flags.contains(Flags::STOP) => Ok(PeerTarget::Bytes(0)),
            FrameKind::Leave if is_coordinator && !self.is_over => Ok(PeerTarget::Later),
            // A worker that has returned leaves once more.
            FrameKind::Leave if is_coordinator && self.may_leave(peer) => {
                Ok(PeerTarget::Bytes((header.len as usize).min(CONTROL_BYTES)))
            }
            FrameKind::Bye if peer == COORDINATOR && (self.is_over || self.knows_end()) => {
                Ok(PeerTarget::Bytes(0))
            }
            kind => Err(ProtocolError::Unexpected(kind)),
        }
    }

    /// Whether a frame of a step is early: a quick worker may be one step ahead.
    pub(super) fn is_early(&self, kind: FrameKind, header: &Header) -> Result<bool, ProtocolError> {
        match self.step {
            Some(_) if header.step == self.global_step => Ok(false),
            None if header.step == self.global_step && !self.is_over => Ok(true),
            Some(_) if header.step == self.global_step + 1 => Ok(true),
            _ => Err(ProtocolError::Unexpected(kind)),
        }
    }

    fn expect_gradient(&self, peer: usize, header: &Header) -> Result<PeerTarget, ProtocolError> {
        let step = match self.step {
            Some(step) if !self.is_early(FrameKind::GradientChunk, header)? => step,
            _ => {
                self.is_early(FrameKind::GradientChunk, header)?;
                return Ok(PeerTarget::Later);
            }
        };
        let Header { chunk, len, flags, .. } = *header;
        let received = self.peers[peer].progress.gradients_received;
        let own = self.chunks[self.config.slot].get(received);
        let range = own.filter(|_| chunk as usize == received);
        let known = self.peers[peer].contribution;
        if self.keyed.is_some() && !flags.contains(Flags::LEFT) {
            return Err(ProtocolError::Unexpected(FrameKind::GradientChunk));
        }
        let floats = match (range, flags.contains(Flags::LEFT)) {
            (Some(_), true) if known.is_none() => 0,
            (Some(range), false) => range.len(),
            _ => return Err(ProtocolError::Chunk { chunk, len }),
        };
        let decides = flags.contains(Flags::STOP) || flags.contains(Flags::CHECKPOINT);
        let fits = len as usize == self.payload_bytes(header.kind, floats);
        if !fits || (decides && peer != COORDINATOR) {
            return Err(ProtocolError::Chunk { chunk, len });
        }
        if received > step.reduced || self.peers[peer].has_gradient {
            return Ok(PeerTarget::Later);
        }
        Ok(self.gradient_target(floats))
    }

    fn gradient_target(&self, floats: usize) -> PeerTarget {
        if self.is_rounded() { PeerTarget::Changes(floats) } else { PeerTarget::Gradient(floats) }
    }

    fn output_target(&self, range: Range<usize>) -> PeerTarget {
        if self.is_rounded() { PeerTarget::Changes(range.len()) } else { PeerTarget::Output(range) }
    }

    fn expect_update(&self, peer: usize, header: &Header) -> Result<PeerTarget, ProtocolError> {
        let progress = self.peers[peer].progress;
        let received = progress.updates_received;
        let Header { chunk, len, step, .. } = *header;
        let range = self.chunks[peer].get(received).cloned().unwrap_or_default();
        let bytes = self.payload_bytes(header.kind, range.len());
        let fits = chunk as usize == received && len as usize == bytes;
        let wrong = ProtocolError::Chunk { chunk, len };
        let Some(current) = self.step.filter(|_| step == self.global_step) else {
            return Err(wrong);
        };
        if !self.owns(self.config.slot) {
            self.check_owner_word(peer, header)?;
            if header.flags.contains(Flags::LEFT) {
                let is_end = (received, chunk, len) == (0, 0, 0);
                let is_possible = current.own.has_left && !self.is_certain();
                return if is_end && is_possible { Ok(PeerTarget::Bytes(0)) } else { Err(wrong) };
            }
        }
        // No peer can have reduced a chunk whose gradient this worker has not sent.
        let is_possible = received < progress.gradients_sent && self.has_updates();
        if !fits || !is_possible {
            return Err(wrong);
        }
        Ok(if self.may_write(&range) { self.output_target(range) } else { PeerTarget::Later })
    }

    /// Checks what an owner says of a step to a worker that owns nothing: only the coordinator
    /// decides, and no owner makes a step that another does not make.
    fn check_owner_word(&self, peer: usize, header: &Header) -> Result<(), ProtocolError> {
        let Header { chunk, len, flags, .. } = *header;
        let decides = flags.contains(Flags::STOP) || flags.contains(Flags::CHECKPOINT);
        let has_left = flags.contains(Flags::LEFT);
        let differs =
            |slot: usize| self.peers[slot].contribution.is_some_and(|its| its.has_left != has_left);
        if (decides && peer != COORDINATOR) || self.others().any(differs) {
            return Err(ProtocolError::Chunk { chunk, len });
        }
        Ok(())
    }

    /// The memory of a target; empty for [`PeerTarget::Bytes`], which the caller provides.
    pub fn target_bytes<'a>(
        &'a mut self,
        peer: usize,
        target: &PeerTarget,
        memory: &'a mut dyn StepMemory,
    ) -> &'a mut [u8] {
        match target {
            PeerTarget::Gradient(floats) => {
                let gradient = &mut self.peers[peer].gradient;
                if gradient.len() < *floats {
                    gradient.resize(*floats, 0.0);
                }
                as_bytes_mut(&mut gradient[..*floats])
            }
            PeerTarget::Changes(len) => {
                let changes = &mut self.peers[peer].changes;
                if changes.len() < *len {
                    changes.resize(*len, 0);
                }
                bytemuck::cast_slice_mut(&mut changes[..*len])
            }
            PeerTarget::Known { part, len } => {
                self.is_incomplete = true;
                as_bytes_mut(self.known.values_mut(*part, *len))
            }
            PeerTarget::Params(range) => {
                self.keep_state();
                self.is_incomplete |= self.catch_up.is_some();
                as_bytes_mut(&mut self.params[range.clone()])
            }
            PeerTarget::Mean(range) => {
                self.mean_step = None;
                as_bytes_mut(&mut self.mean[range.clone()])
            }
            PeerTarget::State(index, range) => {
                self.is_incomplete = true;
                as_bytes_mut(&mut self.optimizer.state_mut(*index)[range.clone()])
            }
            PeerTarget::Output(range) => as_bytes_mut(self.output_mut(memory, range)),
            PeerTarget::Factors { piece, range } => {
                as_bytes_mut(memory.peer_factors(*piece, peer, range.clone()))
            }
            PeerTarget::Keyed(len) => {
                let frame = &mut self.peers[peer].frame;
                frame.resize(len.div_ceil(4), 0.0);
                &mut as_bytes_mut(frame)[..*len]
            }
            PeerTarget::Bytes(_) | PeerTarget::Later => &mut [],
        }
    }

    /// A range of the output of the step, which is the caller's or the replica's.
    pub(super) fn output_mut<'a>(
        &'a mut self,
        memory: &'a mut dyn StepMemory,
        range: &Range<usize>,
    ) -> &'a mut [f32] {
        match memory.output_mut(range.clone()) {
            Some(output) => output,
            None if self.config.sends_means() => {
                self.mean_step = None;
                &mut self.mean[range.clone()]
            }
            None => &mut self.params[range.clone()],
        }
    }

    /// A frame arrived whose payload is in its target; `bytes` is what was read into a buffer of
    /// the caller.
    pub fn frame_arrived(
        &mut self,
        peer: usize,
        header: &Header,
        bytes: &[u8],
        memory: &mut dyn StepMemory,
    ) -> Result<ReplicaEvent, ReplicaError> {
        match header.kind {
            FrameKind::GradientChunk => {
                self.check_finite(peer, header)?;
                self.gradient_arrived(peer, header);
                Ok(ReplicaEvent::Progress)
            }
            FrameKind::Factors => {
                self.factors_arrived(peer, header);
                Ok(ReplicaEvent::Progress)
            }
            FrameKind::KeyedGradient => {
                self.keyed_arrived(peer, header)?;
                Ok(ReplicaEvent::Progress)
            }
            FrameKind::Entries => self.entries_arrived(peer, header),
            FrameKind::UpdatedChunk => {
                self.update_arrived(peer, header, memory);
                Ok(ReplicaEvent::Progress)
            }
            FrameKind::State => self.state_arrived(header),
            FrameKind::KnownGradient => {
                self.known_arrived(peer);
                Ok(ReplicaEvent::Progress)
            }
            _ => self.control_arrived(peer, header, bytes),
        }
    }

    fn update_arrived(&mut self, peer: usize, header: &Header, memory: &mut dyn StepMemory) {
        if !self.owns(self.config.slot) {
            self.contribution_arrived(peer, header);
        }
        let progress = &mut self.peers[peer].progress;
        let received = progress.updates_received;
        if header.flags.contains(Flags::LEFT) {
            progress.updates_received = self.chunks[peer].len();
            return;
        }
        progress.updates_received += 1;
        let chunk = self.chunks[peer].get(received).cloned().unwrap_or_default();
        if self.is_rounded() {
            self.add_mean(peer, received, &chunk, memory);
        }
        self.output_written(&chunk);
    }

    /// The changes of the mean of a peer's chunk have arrived.
    fn add_mean(
        &mut self,
        peer: usize,
        chunk: usize,
        range: &Range<usize>,
        memory: &mut dyn StepMemory,
    ) {
        let mut known = std::mem::take(&mut self.known);
        let mut scratch = std::mem::take(&mut self.chunk_mean);
        let changes = std::mem::take(&mut self.peers[peer].changes);
        let part = KnownPart::Mean { owner: peer, chunk };
        let output = self.output_mut(memory, range);
        known.add_mean(part, &changes[..range.len()], output, &mut scratch);
        (self.known, self.chunk_mean) = (known, scratch);
        self.peers[peer].changes = changes;
    }

    /// Refuses a gradient that is not finite, which would spoil the parameters of all workers.
    fn check_finite(&self, peer: usize, header: &Header) -> Result<(), ProtocolError> {
        if header.flags.contains(Flags::LEFT) {
            return Ok(());
        }
        let own = &self.chunks[self.config.slot];
        let len = own.get(header.chunk as usize).map_or(0, Range::len);
        let (state, step) = (&self.peers[peer], header.step);
        let is_finite = if self.is_rounded() {
            all_finite_bf16(&state.changes[..len.min(state.changes.len())])
        } else {
            all_finite(&state.gradient[..len.min(state.gradient.len())])
        };
        if is_finite { Ok(()) } else { Err(ProtocolError::NotFinite { step }) }
    }

    fn gradient_arrived(&mut self, slot: usize, header: &Header) {
        self.contribution_arrived(slot, header);
        let (own, chunk) = (&self.chunks[self.config.slot], header.chunk as usize);
        let has_left = header.flags.contains(Flags::LEFT);
        if self.is_rounded() && !has_left {
            let peer = &mut self.peers[slot];
            let len = own.get(chunk).map_or(0, Range::len);
            peer.gradient.resize(len.max(peer.gradient.len()), 0.0);
            let part = KnownPart::Received { slot, chunk };
            self.known.add(part, &peer.changes[..len], &mut peer.gradient[..len]);
        }
        let own = own.len();
        let peer = &mut self.peers[slot];
        peer.has_gradient = !has_left;
        peer.progress.gradients_received = if has_left { own } else { header.chunk as usize + 1 };
    }

    /// A frame of the current step states what the peer contributes to it.
    pub(super) fn contribution_arrived(&mut self, peer: usize, header: &Header) {
        let has_left = header.flags.contains(Flags::LEFT);
        self.peers[peer].contribution.get_or_insert(Contribution {
            examples: header.count,
            has_left,
            stops: header.flags.contains(Flags::STOP),
            takes_checkpoint: header.flags.contains(Flags::CHECKPOINT),
            digest: header.version,
        });
    }
}
