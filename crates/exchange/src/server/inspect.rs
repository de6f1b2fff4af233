//! What only tests ask of a server.

use super::state::Server;

/// Vectors that a server keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptVectors {
    pub(crate) in_use: usize,
    pub(crate) spare: usize,
}

impl Server {
    /// The sequence of the last push of a slot that a chunk has accepted; 0 for none.
    pub(crate) fn accepted(&self, chunk: usize, slot: usize) -> u64 {
        self.chunks[chunk].slots[slot].last_sequence
    }

    /// Pending gradients, and spare vectors for more.
    pub(crate) fn buffers(&self) -> KeptVectors {
        let in_use = (0..self.members.len()).map(|slot| self.members[slot].pending).sum();
        KeptVectors { in_use, spare: self.pool.len() }
    }

    /// Spare vectors for lists of keys.
    pub(crate) fn spare_key_lists(&self) -> usize {
        self.key_pool.len()
    }

    /// For a sparse model: lists of keys whose gradient is pending or expected, and spare vectors
    /// for more.
    pub(crate) fn key_lists(&self) -> KeptVectors {
        let slots = self.chunks.iter().flat_map(|chunk| &chunk.slots);
        let kept = slots.map(|s| s.pending_keys.len() + usize::from(s.pending.is_some()));
        KeptVectors { in_use: kept.sum(), spare: self.spare_key_lists() }
    }
}
