//! Gradients that travel as changes between replicas, where numbers are rounded to bf16.
//!
//! Both ends of a chunk keep it as the receiver knows it: a worker's gradient, which its owner
//! knows, and the mean, which all workers know. What travels is the rounded difference to the new
//! values, which both ends add, so what rounding dropped is part of the next difference. The known
//! mean lies in the memory of the step's output; everything else is here.
//!
//! In a run that recovers, a step may have to be made again. So what it changes is kept as it was,
//! until the step is made.

use std::ops::Range;

use paceline_model::kernels::{bf16_add, bf16_encode_change};

use super::config::ReplicaConfig;
use crate::WireFormat;

/// Something that travels as changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownPart {
    /// This worker's gradient of a chunk, as the chunk's owner knows it.
    Sent {
        /// The slot of the owner.
        owner: usize,
        /// The chunk of the owner's shard.
        chunk: usize,
    },
    /// Another worker's gradient of a chunk of this worker's shard, as this worker knows it.
    Received {
        /// The slot of the other worker.
        slot: usize,
        /// The chunk of this worker's shard.
        chunk: usize,
    },
    /// The mean of a chunk, as all workers know it.
    Mean {
        /// The slot of the owner.
        owner: usize,
        /// The chunk of the owner's shard.
        chunk: usize,
    },
}

/// What this worker and its peers know of each other's gradients.
#[derive(Debug, Default)]
pub(super) struct KnownGradients {
    /// By owner and chunk of its shard.
    sent: Vec<Vec<KnownChunk>>,
    /// By worker and chunk of this worker's shard.
    received: Vec<Vec<KnownChunk>>,
    /// By owner and chunk of its shard; the values are elsewhere.
    means: Vec<Vec<KnownChunk>>,
    /// What the current step has changed, if that may have to be undone.
    changed: Vec<KnownPart>,
    keeps_changed: bool,
}

/// One chunk. Its memory is provided when it first travels.
#[derive(Clone, Debug, Default)]
struct KnownChunk {
    values: Vec<f32>,
    /// The changes sent last.
    changes: Vec<u16>,
    /// The values before the current step, if it has changed them.
    before: Vec<f32>,
    is_changed: bool,
}

impl KnownGradients {
    /// For these chunks, by owner; nothing is known of them yet.
    pub(super) fn new(config: &ReplicaConfig, chunks: &[Vec<Range<usize>>]) -> Self {
        if config.wire == WireFormat::F32 {
            return Self::default();
        }
        let like = |chunks: &Vec<Range<usize>>| vec![KnownChunk::default(); chunks.len()];
        let by_owner: Vec<_> = chunks.iter().map(like).collect();
        Self {
            received: chunks.iter().map(|_| like(&chunks[config.slot])).collect(),
            sent: by_owner.clone(),
            means: by_owner,
            changed: Vec::new(),
            keeps_changed: config.recovers,
        }
    }

    fn chunk_mut(&mut self, part: KnownPart) -> &mut KnownChunk {
        match part {
            KnownPart::Sent { owner, chunk } => &mut self.sent[owner][chunk],
            KnownPart::Received { slot, chunk } => &mut self.received[slot][chunk],
            KnownPart::Mean { owner, chunk } => &mut self.means[owner][chunk],
        }
    }

    fn chunk(&self, part: KnownPart) -> &KnownChunk {
        match part {
            KnownPart::Sent { owner, chunk } => &self.sent[owner][chunk],
            KnownPart::Received { slot, chunk } => &self.received[slot][chunk],
            KnownPart::Mean { owner, chunk } => &self.means[owner][chunk],
        }
    }

    /// The known values of a gradient, of `len` numbers.
    pub(super) fn values_mut(&mut self, part: KnownPart, len: usize) -> &mut [f32] {
        let values = &mut self.chunk_mut(part).values;
        values.resize(len, 0.0);
        values
    }

    /// The known values of a gradient; empty before the first ones.
    pub(super) fn values(&self, part: KnownPart) -> &[f32] {
        &self.chunk(part).values
    }

    /// The bytes of the changes sent last.
    pub(super) fn changes(&self, part: KnownPart) -> &[u8] {
        bytemuck::cast_slice(&self.chunk(part).changes)
    }

    /// Makes the changes that bring the receiver of a gradient up to date.
    pub(super) fn encode(&mut self, part: KnownPart, gradient: &[f32]) {
        self.with_values(part, gradient.len(), |known, chunk| {
            bf16_encode_change(gradient, known, &mut chunk.changes);
        });
    }

    /// Adds the changes of a gradient that have arrived, and copies the result.
    pub(super) fn add(&mut self, part: KnownPart, changes: &[u16], out: &mut [f32]) {
        self.with_values(part, changes.len(), |known, _| bf16_add(changes, known, out));
    }

    /// Makes the changes that bring the others up to date with a mean; `known` becomes what all
    /// know then.
    pub(super) fn encode_mean(&mut self, part: KnownPart, mean: &[f32], known: &mut [f32]) {
        self.keep(part, known);
        let changes = &mut self.chunk_mut(part).changes;
        changes.resize(mean.len(), 0);
        bf16_encode_change(mean, known, changes);
    }

    /// Adds the changes of a mean that have arrived.
    pub(super) fn add_mean(
        &mut self,
        part: KnownPart,
        changes: &[u16],
        known: &mut [f32],
        scratch: &mut Vec<f32>,
    ) {
        self.keep(part, known);
        if scratch.len() < changes.len() {
            scratch.resize(changes.len(), 0.0);
        }
        bf16_add(changes, known, &mut scratch[..changes.len()]);
    }

    fn with_values(
        &mut self,
        part: KnownPart,
        len: usize,
        change: impl FnOnce(&mut [f32], &mut KnownChunk),
    ) {
        let mut values = std::mem::take(&mut self.chunk_mut(part).values);
        values.resize(len, 0.0);
        self.keep(part, &values);
        let chunk = self.chunk_mut(part);
        if !matches!(part, KnownPart::Received { .. }) {
            chunk.changes.resize(len, 0);
        }
        change(&mut values, chunk);
        chunk.values = values;
    }

    /// Keeps values that the current step is about to change.
    fn keep(&mut self, part: KnownPart, values: &[f32]) {
        if !self.keeps_changed || self.chunk(part).is_changed {
            return;
        }
        self.changed.push(part);
        let chunk = self.chunk_mut(part);
        chunk.is_changed = true;
        chunk.before.clear();
        chunk.before.extend_from_slice(values);
    }

    /// Keeps the whole mean, which that of another replica is about to replace.
    pub(super) fn keep_means(&mut self, chunks: &[Vec<Range<usize>>], mean: &[f32]) {
        for (owner, chunks) in chunks.iter().enumerate() {
            for (chunk, range) in chunks.iter().enumerate() {
                self.keep(KnownPart::Mean { owner, chunk }, &mean[range.clone()]);
            }
        }
    }

    /// Nothing is known any more, as before the first step.
    pub(super) fn forget(&mut self) {
        self.changed.clear();
        let all = [&mut self.sent, &mut self.received, &mut self.means];
        all.into_iter().flatten().flatten().for_each(|chunk| *chunk = KnownChunk::default());
    }

    /// The current step is made.
    pub(super) fn settle(&mut self) {
        for part in std::mem::take(&mut self.changed) {
            self.chunk_mut(part).is_changed = false;
        }
    }

    /// The current step has to be made again: everything becomes what it was before. `chunks` are
    /// those of all owners, and `mean` is the memory of the known mean.
    pub(super) fn undo(&mut self, chunks: &[Vec<Range<usize>>], mean: &mut [f32]) {
        for part in std::mem::take(&mut self.changed) {
            let known = self.chunk_mut(part);
            known.is_changed = false;
            if let KnownPart::Mean { owner, chunk } = part {
                mean[chunks[owner][chunk].clone()].copy_from_slice(&known.before);
            } else {
                std::mem::swap(&mut known.values, &mut known.before);
            }
        }
    }
}
