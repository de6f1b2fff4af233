//! The replica of a sparse model: a whole table, and steps that exchange the keys of their batches.
//!
//! In a step every worker sends every other its gradient, of the keys that its batch touches
//! ([`FrameKind::KeyedGradient`](crate::FrameKind::KeyedGradient)). Each takes the sum in slot
//! order, over the union of all keys, and updates its own table when the step is complete: the same
//! additions and the same update that a server of `sync` makes. So a replica is always before a
//! step or after it, in runs that recover and in others.
//!
//! A gradient takes several frames if it has many keys. Keys rise from frame to frame, so that no
//! peer can send more than the table has.

use std::ops::Range;

use paceline_model::kernels::all_finite;
use paceline_model::{Layout, OptimizerState, ParamTable};

use super::config::ReplicaConfig;
use super::digest::digest;
use super::memory::StepMemory;
use super::peer::{COORDINATOR, Contribution};
use super::pieces::Contributor;
use super::receive::PeerTarget;
use super::send::{PeerFrame, PeerSource};
use super::state::Replica;
use super::table_replica::{KeyedFrame, TableReplica};
use crate::keyed_sum::{KeyedValues, merge_scaled};
use crate::mean::scale;
use crate::{Flags, FrameKind, Header, ProtocolError};

impl Replica {
    /// Creates a replica of a sparse model after `global_step` updates, with a table of all keys.
    ///
    /// # Panics
    /// If the configuration contradicts itself.
    pub fn of_table(config: ReplicaConfig, table: ParamTable, global_step: u64) -> Self {
        let none = OptimizerState::new(table.spec().clone(), &Layout::new(), 0..0);
        let (workers, chunk_floats) = (config.names.len(), config.chunk_floats);
        assert!(config.pieces.is_empty(), "a sparse step is made at once");
        let replica = Self::resume(config, Vec::new(), none, global_step);
        Self {
            // Every worker hears from every other in every step, and updates everything.
            chunks: vec![std::iter::once(0..0).collect(); workers],
            is_whole: true,
            keyed: Some(Box::new(TableReplica::new(table, chunk_floats))),
            ..replica
        }
    }

    /// The table of a sparse model.
    pub fn table(&self) -> Option<&ParamTable> {
        self.keyed.as_ref().map(|keyed| &keyed.table)
    }

    /// Begins a step of a sparse model with a gradient of `keys`, which rise, over `examples`
    /// examples; `None` if this worker has no more examples.
    ///
    /// # Panics
    /// As [`Replica::begin_step`] does, and if the model is not sparse.
    pub fn begin_keyed_step(&mut self, examples: Option<u32>, keys: &[u32]) {
        self.begin_step(examples);
        let Some(keyed) = &mut self.keyed else { panic!("the model is not sparse") };
        let base = keyed.table.keys().start as u32;
        keyed.own.set(base, keys, keyed.frame_keys);
        keyed.key_bytes += keyed.own.encoded.len() as u64;
    }

    /// Bytes of the keys of all steps of this worker so far, as each peer gets them.
    pub fn key_bytes(&self) -> u64 {
        self.keyed.as_ref().map_or(0, |keyed| keyed.key_bytes)
    }

    /// The digest by which the replicas are compared before the current step.
    pub(super) fn compared_digest(&self) -> u64 {
        let nth = self.global_step / self.config.check_every;
        self.keyed.as_ref().map_or_else(|| digest(&self.params), |its| its.compared_digest(nth))
    }

    /// The digest of everything, by which the replicas are compared at the end.
    pub(super) fn whole_digest(&self) -> u64 {
        let Some(keyed) = &self.keyed else { return digest(&self.params) };
        match keyed.whole_digest.get() {
            Some((step, known)) if step == self.global_step => known,
            _ => {
                let whole = keyed.digest(keyed.table.keys());
                keyed.whole_digest.set(Some((self.global_step, whole)));
                whole
            }
        }
    }

    /// The next frame of this worker's gradient for a peer.
    pub(super) fn next_keyed(&mut self, peer: usize, own: Contribution) -> Option<PeerFrame> {
        let keyed = self.keyed.as_ref()?;
        let progress = &mut self.peers[peer].progress;
        let nth = progress.frames_sent;
        let keys = keyed.own.range(nth, keyed.frame_keys);
        let bytes = keys.len() * keyed.table.width() * 4 + keyed.own.bytes(nth).len();
        progress.frames_sent += 1;
        let is_last = progress.frames_sent == keyed.own.ends.len();
        progress.gradients_sent = usize::from(is_last);
        let more = if is_last { Flags::NONE } else { Flags::MORE };
        let header = Header {
            flags: own.flags() | more,
            chunk: nth as u32,
            count: own.examples,
            version: own.digest,
            sequence: keys.len() as u64,
            step: self.global_step,
            ..Header::new(FrameKind::KeyedGradient, bytes)
        };
        Some(PeerFrame { header, source: PeerSource::Keyed { nth } })
    }

    /// The numbers of a frame of this worker's gradient.
    pub(super) fn keyed_values<'a>(&self, nth: usize, memory: &'a dyn StepMemory) -> &'a [f32] {
        let Some(keyed) = &self.keyed else { return &[] };
        let Range { start, end } = keyed.own.range(nth, keyed.frame_keys);
        let width = keyed.table.width();
        memory.gradient(start * width..end * width)
    }

    /// The encoded keys of a frame of this worker's gradient.
    pub(super) fn keyed_tail(&self, nth: usize) -> &[u8] {
        self.keyed.as_ref().map_or(&[], |keyed| keyed.own.bytes(nth))
    }

    /// Checks the header of a frame of a peer's gradient.
    pub(super) fn expect_keyed(
        &self,
        peer: usize,
        header: &Header,
    ) -> Result<PeerTarget, ProtocolError> {
        let unexpected = ProtocolError::Unexpected(FrameKind::KeyedGradient);
        let keyed = self.keyed.as_ref().ok_or(unexpected)?;
        if self.is_early(FrameKind::KeyedGradient, header)? {
            return Ok(PeerTarget::Later);
        }
        let Header { chunk, len, flags, count, sequence, .. } = *header;
        let its = &self.peers[peer];
        let fits_known = its.contribution.is_none_or(|known| known.examples == count);
        let decides = flags.contains(Flags::STOP) || flags.contains(Flags::CHECKPOINT);
        let is_next =
            its.progress.gradients_received == 0 && chunk as usize == its.progress.frames_received;
        let fits = keyed.fits(sequence, keyed.table.width(), len);
        if !fits_known || !is_next || !fits || (decides && peer != COORDINATOR) {
            return Err(ProtocolError::Chunk { chunk, len });
        }
        Ok(PeerTarget::Keyed(len as usize))
    }

    /// A frame of a peer's gradient arrived.
    pub(super) fn keyed_arrived(
        &mut self,
        peer: usize,
        header: &Header,
    ) -> Result<(), ProtocolError> {
        let Some(keyed) = &self.keyed else { return Ok(()) };
        let its = &mut self.peers[peer];
        let last = its.keyed.keys.last().copied();
        let (count, width) = (header.sequence as usize, keyed.table.width());
        let KeyedFrame { numbers, keys } = keyed.decode(header, &its.frame, count * width, last)?;
        if !all_finite(numbers) {
            return Err(ProtocolError::NotFinite { step: header.step });
        }
        its.keyed.values.extend_from_slice(numbers);
        its.keyed.keys.extend(keys);
        its.progress.frames_received += 1;
        its.has_gradient = !header.flags.contains(Flags::MORE);
        its.progress.gradients_received = usize::from(its.has_gradient);
        self.contribution_arrived(peer, header);
        Ok(())
    }

    /// Takes the mean of all gradients, in slot order, once all have arrived.
    pub(super) fn reduce_keyed(&mut self, memory: &dyn StepMemory) {
        let contributors: Vec<Contributor> = self.contributors().collect();
        let Some(mut keyed) = self.keyed.take() else { return };
        self.mean_step = None;
        let TableReplica { table, own, mean, spare, .. } = &mut *keyed;
        let width = table.width();
        for (nth, its) in contributors.into_iter().enumerate() {
            let gradient = if its.slot == self.config.slot {
                let values = memory.gradient(0..own.keys.len() * width);
                KeyedValues { keys: &own.keys, values }
            } else {
                self.peers[its.slot].keyed.as_ref()
            };
            if nth == 0 {
                mean.clear();
                mean.keys.extend_from_slice(gradient.keys);
                mean.values.extend_from_slice(gradient.values);
                scale(&mut mean.values, its.weight);
            } else {
                merge_scaled(width, mean.as_ref(), gradient, its.weight, spare);
                std::mem::swap(mean, spare);
            }
        }
        self.keyed = Some(keyed);
    }
}
