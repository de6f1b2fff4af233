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

use std::cell::Cell;
use std::ops::Range;

use paceline_model::kernels::all_finite;
use paceline_model::{Layout, OptimizerState, ParamTable, StoredEntries};

use super::config::ReplicaConfig;
use super::digest::{digest, digest_of};
use super::entries::IncomingState;
use super::memory::StepMemory;
use super::peer::{COORDINATOR, Contribution};
use super::pieces::Contributor;
use super::receive::PeerTarget;
use super::send::{PeerFrame, PeerSource};
use super::state::Replica;
use crate::keyed_sum::{KeyedBuffer, KeyedValues, merge_scaled};
use crate::mean::scale;
use crate::{Flags, FrameKind, Header, ProtocolError, decode_keys, encode_keys, max_keys_bytes};

/// Keys of which one comparison of the replicas takes a digest. The next one continues behind them.
const COMPARED_KEYS: usize = 1 << 16;
/// Entries of which a digest is taken at a time.
const DIGEST_ENTRIES: usize = 1 << 12;

/// A sparse model's part of a replica.
pub(super) struct TableReplica {
    pub(super) table: ParamTable,
    /// The most keys in a frame.
    pub(super) frame_keys: usize,
    /// The keys of this worker's gradient, and how they travel.
    own: OwnKeys,
    /// The mean of all gradients of the present step once it is reduced, or of the last one.
    pub(super) mean: KeyedBuffer,
    /// For the next sum.
    spare: KeyedBuffer,
    /// The state that a peer is sending.
    pub(super) incoming: Option<IncomingState>,
    /// The digest of the whole table after a step.
    whole_digest: Cell<Option<(u64, u64)>>,
}

/// The keys of a gradient, encoded frame by frame.
#[derive(Default)]
struct OwnKeys {
    keys: Vec<u32>,
    encoded: Vec<u8>,
    /// Where the encoded keys of each frame end.
    ends: Vec<usize>,
}

impl OwnKeys {
    fn set(&mut self, base: u32, keys: &[u32], frame_keys: usize) {
        self.keys.clear();
        self.keys.extend_from_slice(keys);
        self.encoded.clear();
        self.ends.clear();
        // A gradient has at least one frame.
        let frames = keys.len().div_ceil(frame_keys).max(1);
        for nth in 0..frames {
            let from = (nth * frame_keys).min(keys.len());
            let to = (from + frame_keys).min(keys.len());
            encode_keys(base, &keys[from..to], &mut self.encoded);
            self.ends.push(self.encoded.len());
        }
    }

    /// The encoded keys of a frame.
    fn bytes(&self, nth: usize) -> &[u8] {
        let start = if nth == 0 { 0 } else { self.ends[nth - 1] };
        &self.encoded[start..self.ends[nth]]
    }

    /// The keys of a frame, by their place in the gradient.
    fn range(&self, nth: usize, frame_keys: usize) -> Range<usize> {
        (nth * frame_keys).min(self.keys.len())..((nth + 1) * frame_keys).min(self.keys.len())
    }
}

impl TableReplica {
    fn new(table: ParamTable, chunk_floats: usize) -> Self {
        Self {
            frame_keys: (chunk_floats / table.width()).max(1),
            table,
            own: OwnKeys::default(),
            mean: KeyedBuffer::default(),
            spare: KeyedBuffer::default(),
            incoming: None,
            whole_digest: Cell::new(None),
        }
    }

    /// Makes the update of a step with its mean.
    pub(super) fn apply_mean(&self, step: u64) {
        self.table.update(step, &self.mean.keys, &self.mean.values);
    }

    /// The digest of the entries of some keys.
    fn digest(&self, keys: Range<usize>) -> u64 {
        let (mut from, mut entries) = (keys.start, StoredEntries::default());
        let mut all = digest(&[]);
        loop {
            let next = self.table.copy_stored(from, DIGEST_ENTRIES, &mut entries);
            let within = entries.keys.partition_point(|&key| (key as usize) < keys.end);
            let cells = &entries.cells[..within * self.table.stored_width()];
            let keys_seen = bytemuck::cast_slice(&entries.keys[..within]);
            all = digest_of([all, digest(cells), digest(keys_seen)]);
            match next.filter(|&next| next < keys.end && within == entries.keys.len()) {
                Some(next) => from = next,
                None => return all,
            }
        }
    }

    /// The digest by which replicas are compared after `step`, comparison number `nth`.
    fn compared_digest(&self, nth: u64) -> u64 {
        let keys = self.table.keys();
        let windows = keys.len().div_ceil(COMPARED_KEYS).max(1);
        let from = keys.start + (nth % windows as u64) as usize * COMPARED_KEYS;
        self.digest(from..(from + COMPARED_KEYS).min(keys.end))
    }
}

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
    }

    /// The digest by which the replicas are compared before the present step.
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

/// What a frame with keys holds.
pub(super) struct KeyedFrame<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) keys: Vec<u32>,
}

impl TableReplica {
    /// Whether a frame of `len` bytes can hold this many keys with `width` numbers each.
    pub(super) fn fits(&self, keys: u64, width: usize, len: u32) -> bool {
        if keys > self.frame_keys as u64 {
            return false;
        }
        let (keys, len) = (keys as usize, len as usize);
        let numbers = keys * width * 4;
        numbers + 4 <= len && len <= numbers + max_keys_bytes(keys)
    }

    /// Reads a frame that lies in memory: numbers, then keys above `last`.
    pub(super) fn decode<'a>(
        &self,
        header: &Header,
        frame: &'a [f32],
        numbers: usize,
        last: Option<u32>,
    ) -> Result<KeyedFrame<'a>, ProtocolError> {
        let wrong = |why: &str| ProtocolError::Keys { chunk: header.chunk, why: why.into() };
        let bytes: &[u8] = bytemuck::cast_slice(frame);
        let tail = bytes.get(numbers * 4..header.len as usize);
        let Range { start, end } = self.table.keys();
        let mut keys = Vec::new();
        decode_keys(start as u64..end as u64, tail.unwrap_or_default(), &mut keys)
            .map_err(|error| wrong(&error.to_string()))?;
        if keys.len() as u64 != header.sequence {
            return Err(wrong("not as many keys as it says"));
        }
        if keys.first().zip(last).is_some_and(|(&first, last)| first <= last) {
            return Err(wrong("its keys do not follow those before"));
        }
        Ok(KeyedFrame { numbers: &frame[..numbers], keys })
    }
}
