//! Which keys a slot of a sparse model has asked for, and owes a gradient of.
//!
//! A worker names its keys once, when it asks for their values; the gradient of them then comes
//! without keys, in the same order. It may ask one batch ahead of the gradient that it computes,
//! so up to two lists wait here.

use std::collections::VecDeque;

/// How many lists of keys may wait for their gradient.
pub(crate) const MOST: usize = 2;

/// The lists of keys that one slot has asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    lists: VecDeque<Vec<u32>>,
    /// The number of the push that asked for the newest list.
    by: u64,
}

impl Asked {
    /// Forgets everything and begins with this list, before the push of this number.
    pub(crate) fn restart(&mut self, keys: Vec<u32>, next_push: u64) {
        self.lists.clear();
        self.lists.push_back(keys);
        self.by = next_push.saturating_sub(1);
    }

    /// Adds a list behind the others; false if there are too many.
    #[must_use]
    pub(crate) fn ahead(&mut self, keys: Vec<u32>) -> bool {
        let fits = self.lists.len() < MOST;
        if fits {
            self.lists.push_back(keys);
        }
        fits
    }

    /// Whether a push of this number has asked already: it is here again after a lost connection.
    pub(crate) fn knows(&self, push: u64) -> bool {
        push <= self.by
    }

    /// The keys that the next gradient is of.
    pub(crate) fn oldest(&self) -> Option<&[u32]> {
        self.lists.front().map(Vec::as_slice)
    }

    /// The keys whose values the slot waits for.
    pub(crate) fn newest(&self) -> &[u32] {
        self.lists.back().map_or(&[], Vec::as_slice)
    }

    /// The push of this number brings the gradient of the oldest list and asks for another.
    pub(crate) fn exchange(&mut self, push: u64, next: Vec<u32>) -> Vec<u32> {
        self.by = push;
        self.lists.push_back(next);
        self.lists.pop_front().unwrap_or_default()
    }
}
