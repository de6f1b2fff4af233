//! The settings of a replica.

use std::ops::Range;

use super::step_piece::StepPiece;
use crate::{CHUNK_FLOATS, JobIdentity, WireFormat, shard_ranges, worker_names};

/// A worker owns a shard only if those of the workers before it would otherwise have more
/// parameters than this: 16,384, or 64 KiB. A frame of that size costs little more than an empty
/// one, so that more owners would only mean more frames.
const OWNER_FLOATS: usize = CHUNK_FLOATS / 4;

/// The settings of a replica: everything except its parameters and its optimizer.
///
/// Start from [`ReplicaConfig::new`] and override the fields that differ.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// The slot of this worker.
    pub slot: usize,
    /// The display name of the worker in each slot; its length is the number of workers.
    pub names: Vec<String>,
    /// Numbers the processes that fill the slot one after the other; a later one has a higher
    /// number.
    pub incarnation: u64,
    /// Identifies the job: equal on all tasks of a run.
    pub job: JobIdentity,
    /// Identifies the layout of the parameters.
    pub layout_digest: [u8; 32],
    /// The number of updates after which the run stops.
    pub stop_steps: Option<u64>,
    /// Steps from one comparison of all replicas to the next; at least 1.
    pub check_every: u64,
    /// Parameters per chunk, 1 to [`CHUNK_FLOATS`]; only tests use fewer.
    pub chunk_floats: usize,
    /// The most parameters of a shard while some workers own none; at least 1.
    pub owner_floats: usize,
    /// How gradients travel.
    pub wire: WireFormat,
    /// Whether the run survives the loss of a worker that returns. Then every worker holds all of
    /// the optimizer's state and makes the whole update.
    pub recovers: bool,
    /// The pieces in which a step is handed in; empty if steps are always made at once.
    pub pieces: Vec<StepPiece>,
    /// The most examples of a worker in a step, if factors travel.
    pub batch: usize,
}

impl ReplicaConfig {
    /// A worker of a run without a step limit, which compares its replicas every 100
    /// steps and does not recover from losses.
    pub fn new(slot: usize, workers: usize) -> Self {
        Self {
            slot,
            names: worker_names(workers),
            incarnation: 1,
            job: JobIdentity::default(),
            layout_digest: [0; 32],
            stop_steps: None,
            check_every: 100,
            chunk_floats: CHUNK_FLOATS,
            owner_floats: OWNER_FLOATS,
            wire: WireFormat::F32,
            recovers: false,
            pieces: Vec::new(),
            batch: 0,
        }
    }

    /// Whether every worker owns the whole model: two workers and a small model.
    pub(super) fn is_whole(&self, total: usize) -> bool {
        let is_small = total <= self.chunk_floats && self.pieces.is_empty();
        self.names.len() <= 2 && is_small && self.wire == WireFormat::F32
    }

    /// How many workers own a shard: those of the first slots, including the coordinator. All do
    /// where every worker needs a frame from every other anyway, which are runs with factors, and
    /// where only owners know gradients, which are those whose gradients travel as changes.
    pub fn owners(&self, total: usize) -> usize {
        let workers = self.names.len();
        if self.is_whole(total) || self.has_factors() || self.wire == WireFormat::Bf16 {
            return workers;
        }
        total.div_ceil(self.owner_floats).clamp(1, workers)
    }

    /// Whether updated chunks carry the mean gradient, and every worker makes the whole update: in
    /// runs that recover; in those where some factors travel, since every worker then makes the
    /// update of those pieces anyway; and in those where gradients travel as changes.
    pub fn sends_means(&self) -> bool {
        self.recovers || self.has_factors() || self.wire == WireFormat::Bf16
    }

    /// Whether the factors of some pieces travel.
    pub fn has_factors(&self) -> bool {
        self.pieces.iter().any(|piece| piece.factors.is_some())
    }

    /// The range of `total` parameters that this worker updates and has the optimizer's state of.
    pub fn updates(&self, total: usize) -> Range<usize> {
        if self.sends_means() || self.is_whole(total) { 0..total } else { self.shard(total) }
    }

    /// The range of `total` parameters that this worker writes into checkpoints. Where gradients
    /// travel as changes it contains the worker's chunks, since only their owner knows of them.
    pub fn shard(&self, total: usize) -> Range<usize> {
        let workers = self.names.len();
        let sent: usize = self.sent_pieces().map(|piece| piece.range.len()).sum();
        if self.wire == WireFormat::F32 || !self.has_factors() || sent == 0 {
            // Workers that hold everything share the work of writing it.
            let holds_all = self.sends_means() || self.is_whole(total);
            let shards = if holds_all { workers } else { self.owners(total) };
            let shards = shard_ranges(total, shards);
            return shards.get(self.slot).map_or(total..total, Range::clone);
        }
        let shards = shard_ranges(sent, workers);
        let start = |slot: usize| match slot {
            0 => 0,
            slot => shards.get(slot).map_or(total, |shard| self.place_of(shard.start, total)),
        };
        start(self.slot)..start(self.slot + 1)
    }

    /// The pieces whose gradient travels as it is.
    pub(super) fn sent_pieces(&self) -> impl Iterator<Item = &StepPiece> {
        self.pieces.iter().filter(|piece| piece.factors.is_none())
    }

    /// The parameter before which there are `nth` whose gradient travels as it is.
    fn place_of(&self, nth: usize, total: usize) -> usize {
        let mut before = 0;
        for StepPiece { range, .. } in self.sent_pieces() {
            if nth < before + range.len() {
                return range.start + nth - before;
            }
            before += range.len();
        }
        total
    }
}
