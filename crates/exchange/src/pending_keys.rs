//! The keys that a slot of a sparse model has requested and owes a gradient for.
//!
//! A worker names its keys once, when it requests their values; their gradient then comes without
//! keys, in the same order. The worker may request one batch ahead of the gradient that it
//! computes, so up to two lists wait here.
//!
//! Every request may arrive again after a lost connection, and must then change nothing. A push is
//! recognised by its sequence. A pull that restarts simply restarts again. A pull ahead carries
//! the sequence of the next push and replaces an earlier one with the same sequence.

use std::collections::VecDeque;

/// Lists of keys that may wait for their gradient.
const MAX_LISTS: usize = 2;

/// The lists of keys that one slot has requested.
#[derive(Debug, Default)]
pub(crate) struct PendingKeys {
    lists: VecDeque<Vec<u32>>,
    /// The sequence of the last push. The next push brings the gradient of the oldest list.
    last_push: u64,
    /// Whether a pull ahead requested the newest list, and no push has arrived since.
    is_ahead: bool,
}

impl PendingKeys {
    /// Forgets everything and begins with this list, before the push `next_push`.
    pub(crate) fn restart(&mut self, keys: Vec<u32>, next_push: u64) {
        self.clear();
        self.lists.push_back(keys);
        self.last_push = next_push.saturating_sub(1);
    }

    /// Adds a list behind the first one, before the push `next_push`, or replaces the one that the
    /// same pull added before. Returns whether there is room.
    #[must_use]
    pub(crate) fn request_ahead(&mut self, keys: Vec<u32>, next_push: u64) -> bool {
        if self.is_ahead {
            self.lists.pop_back();
        }
        let has_room = (1..MAX_LISTS).contains(&self.lists.len());
        let fits = has_room && next_push.checked_sub(1) == Some(self.last_push);
        self.is_ahead = fits;
        if fits {
            self.lists.push_back(keys);
        }
        fits
    }

    /// Forgets all lists: no gradient of them will come.
    pub(crate) fn clear(&mut self) {
        self.lists.clear();
        self.is_ahead = false;
    }

    /// Whether this push has arrived before, so that it is a duplicate.
    pub(crate) fn has_push(&self, push: u64) -> bool {
        push <= self.last_push
    }

    /// The keys of the next gradient.
    pub(crate) fn oldest(&self) -> Option<&[u32]> {
        self.lists.front().map(Vec::as_slice)
    }

    /// The keys whose values the slot waits for.
    pub(crate) fn newest(&self) -> &[u32] {
        self.lists.back().map_or(&[], Vec::as_slice)
    }

    /// Records a push that brings the gradient of the oldest list, which is returned, and requests
    /// the list `next`.
    pub(crate) fn exchange(&mut self, push: u64, next: Vec<u32>) -> Vec<u32> {
        self.last_push = push;
        self.is_ahead = false;
        self.lists.push_back(next);
        self.lists.pop_front().unwrap_or_default()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }
}
