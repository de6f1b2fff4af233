//! What a replica is told before it begins, and which of the parameters are its business.

use std::ops::Range;

use crate::shard_ranges;

/// Everything that defines a replica but its parameters and its optimizer.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Which worker this is.
    pub slot: usize,
    /// What people call the worker in each slot; as many as there are workers.
    pub names: Vec<String>,
    /// Which process fills the slot: later ones have higher numbers.
    pub incarnation: u64,
    /// The secret of the run; empty for none.
    pub token: Vec<u8>,
    /// Identifies the job.
    pub job_digest: [u8; 32],
    /// Identifies the layout of the parameters.
    pub layout_digest: [u8; 32],
    /// After how many updates the run stops.
    pub stop_steps: Option<u64>,
    /// Steps from one comparison of all replicas to the next.
    pub check_every: u64,
    /// How many parameters travel in one part; [`crate::PART_FLOATS`] but in tests.
    pub part_floats: usize,
    /// Whether the run goes on when a worker is lost and comes back: then everybody has all of
    /// the optimizer's state, and makes the whole update.
    pub recovers: bool,
}

impl ReplicaConfig {
    /// Two workers of a small model: everybody owns everything.
    pub(super) fn is_whole(&self, total: usize) -> bool {
        self.names.len() <= 2 && total <= self.part_floats
    }

    /// Which of so many parameters this worker updates, and has the optimizer's slots of.
    pub fn updates(&self, total: usize) -> Range<usize> {
        match self.recovers || self.is_whole(total) {
            true => 0..total,
            false => self.shard(total),
        }
    }

    /// Which of so many parameters this worker writes into checkpoints.
    pub fn shard(&self, total: usize) -> Range<usize> {
        shard_ranges(total, self.names.len())[self.slot].clone()
    }
}
