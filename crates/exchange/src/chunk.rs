//! One chunk of a shard: a tiny server of its own.
//!
//! A chunk has its own version, and for every slot it records how far that slot's pushes have
//! come here. So a gradient of many chunks is applied piece by piece while the rest is still on
//! its way. The gates take care of what must hold across chunks.

use std::ops::Range;

use crate::Flags;
use crate::pending_keys::PendingKeys;

/// One chunk of a shard.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The range of the shard's parameters.
    pub(crate) range: Range<usize>,
    /// Updates applied.
    pub(crate) version: u64,
    pub(crate) slots: Vec<SlotState>,
}

/// What one slot has done on one chunk.
#[derive(Debug, Default)]
pub(crate) struct SlotState {
    /// The sequence of the last push that was accepted (applied, pending or dropped); 0 for none.
    ///
    /// It continues across incarnations, and is also the slot's clock in `bounded`.
    pub(crate) last_sequence: u64,
    /// The step of that push.
    pub(crate) step: u64,
    /// The `last_sequence` in the checkpoint that the server resumed from; 0 without one. The
    /// servers' copies may be some pushes apart; then those that are ahead see some pushes again.
    pub(crate) restored_sequence: u64,
    /// Whether the last push was dropped.
    pub(crate) dropped: bool,
    /// The version that the chunk must have before the last push is answered.
    pub(crate) wanted_version: u64,
    /// Where gradients travel as changes: the slot's gradient as the server knows it, of all
    /// pushes up to the last one except one that waits. Empty before the first.
    pub(crate) known: Vec<f32>,
    /// The last push, if it waits to be applied.
    pub(crate) pending: Option<PendingGradient>,
    /// The reply that the slot waits for on its current connection.
    pub(crate) awaiting_reply: Option<DueReply>,
    /// For a sparse model: the keys that it has requested.
    pub(crate) pending_keys: PendingKeys,
}

/// A gradient that waits to be applied.
#[derive(Debug)]
pub(crate) struct PendingGradient {
    /// For a sparse model: the keys of the gradient.
    pub(crate) keys: Vec<u32>,
    /// The gradient; where gradients travel as changes, those, two to a float.
    pub(crate) gradient: Vec<f32>,
    /// Examples that it is a mean over.
    pub(crate) examples: u32,
    /// The version that it was computed from.
    pub(crate) version: u64,
}

/// A reply that a slot waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueReply {
    /// The sequence that the reply repeats.
    pub(crate) sequence: u64,
    /// The version that the chunk must have first.
    pub(crate) wanted_version: u64,
    /// Whether it answers the slot's last push, so that the gate decides when it is sent.
    pub(crate) gated: bool,
    /// `DROPPED` or nothing.
    pub(crate) flags: Flags,
    /// When the wait began.
    pub(crate) since_ms: u64,
}

impl SlotState {
    /// The smallest sequence with which a process that takes over the slot may continue: that of
    /// the last push, which other chunks may lack; after a checkpoint, any.
    pub(crate) fn least_next_sequence(&self) -> u64 {
        if self.last_sequence == self.restored_sequence { 0 } else { self.last_sequence }
    }
}

impl Chunk {
    pub(crate) fn new(range: Range<usize>, workers: usize) -> Self {
        Self { range, version: 0, slots: (0..workers).map(|_| SlotState::default()).collect() }
    }
}

/// Spare vectors.
///
/// A pending gradient takes the vector it arrived in and leaves one of these, so that a run
/// allocates only during its first steps.
#[derive(Debug)]
pub(crate) struct VecPool<T>(Vec<Vec<T>>);

impl<T> Default for VecPool<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> VecPool<T> {
    pub(crate) fn take(&mut self) -> Vec<T> {
        self.0.pop().unwrap_or_default()
    }

    pub(crate) fn swap(&mut self, full: &mut Vec<T>) -> Vec<T> {
        std::mem::replace(full, self.take())
    }

    pub(crate) fn put_back(&mut self, used: Vec<T>) {
        if used.capacity() > 0 {
            self.0.push(used);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
