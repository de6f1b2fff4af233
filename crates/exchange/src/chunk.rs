//! One chunk of a shard: a tiny server of its own.
//!
//! A chunk has its own version, and for every slot it remembers how far that slot's pushes have
//! come here. A gradient of many chunks is therefore applied piece by piece while the rest is
//! still on its way. What must hold across chunks, the gates see to.

use std::ops::Range;

use crate::Flags;
use crate::pending_keys::PendingKeys;

/// One chunk of a shard.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Which parameters of the shard.
    pub(crate) range: Range<usize>,
    /// How many updates have been applied.
    pub(crate) version: u64,
    /// What each slot has done here, by slot.
    pub(crate) slots: Vec<SlotState>,
}

/// What one slot has done on one chunk.
#[derive(Debug, Default)]
pub(crate) struct SlotState {
    /// The sequence of the last push that was accepted (applied, held or dropped); 0 for none.
    ///
    /// It goes on over incarnations, and it is also the slot's clock in `bounded`.
    pub(crate) last_sequence: u64,
    /// The step of that push.
    pub(crate) step: u64,
    /// The sequence that a checkpoint told; 0 without one. Servers may have been copied some
    /// pushes apart, and then those ahead see some pushes again that they have already.
    pub(crate) restored: u64,
    /// Whether that push was dropped.
    pub(crate) dropped: bool,
    /// The version that the chunk must have before that push is answered.
    pub(crate) wanted_version: u64,
    /// That push, if it waits to be applied.
    pub(crate) pending: Option<PendingGradient>,
    /// The answer that the slot waits for on its present connection.
    pub(crate) awaiting_reply: Option<AwaitedReply>,
    /// Of a sparse model: the keys that it has asked for.
    pub(crate) pending_keys: PendingKeys,
}

/// A gradient that waits to be applied.
#[derive(Debug)]
pub(crate) struct PendingGradient {
    /// Of a sparse model: which parameters it is of.
    pub(crate) keys: Vec<u32>,
    pub(crate) gradient: Vec<f32>,
    /// How many examples it is a mean over.
    pub(crate) examples: u32,
    /// The version it was computed from.
    pub(crate) version: u64,
}

/// An answer that a slot waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AwaitedReply {
    /// What the answer repeats.
    pub(crate) sequence: u64,
    /// The version that the chunk must have first.
    pub(crate) wanted_version: u64,
    /// Whether it answers the slot's last push, so that the gate has a say.
    pub(crate) gated: bool,
    /// `DROPPED` or nothing.
    pub(crate) flags: Flags,
    /// Since when the slot waits.
    pub(crate) since_ms: u64,
}

impl SlotState {
    /// The first push that a process may go on with which takes the slot over: the last one, which
    /// other chunks may not have, or after a checkpoint any before it.
    pub(crate) fn least_next(&self) -> u64 {
        if self.last_sequence == self.restored { 0 } else { self.last_sequence }
    }
}

impl Chunk {
    pub(crate) fn new(range: Range<usize>, workers: usize) -> Self {
        Self { range, version: 0, slots: (0..workers).map(|_| SlotState::default()).collect() }
    }
}

/// Vectors that have been used and wait to be used again.
///
/// A held gradient takes the vector it arrived in and leaves one of these, so that a run
/// allocates during its first steps only.
#[derive(Debug)]
pub(crate) struct Pool<T>(Vec<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Pool<T> {
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

    /// How many vectors lie here unused.
    pub(crate) fn spare(&self) -> usize {
        self.0.len()
    }
}
