//! Which keys a slot of a sparse model has asked for, and owes a gradient of.
//!
//! A worker names its keys once, when it asks for their values; the gradient of them then comes
//! without keys, in the same order. It may ask one batch ahead of the gradient that it computes,
//! so up to two lists wait here.
//!
//! Every request may come again after a lost connection, and must then change nothing. A push is
//! known by its number. A pull that begins anew begins anew once more. A pull ahead carries the
//! number of the push to come, and takes the place of the one that carried the same.

use std::collections::VecDeque;

/// How many lists of keys may wait for their gradient.
const MOST: usize = 2;

/// The lists of keys that one slot has asked for.
#[derive(Debug, Default)]
pub(crate) struct PendingKeys {
    lists: VecDeque<Vec<u32>>,
    /// The number of the last push that asked; the oldest list is that of the next one's gradient.
    by: u64,
    /// Whether the newest list was asked for by a pull ahead, and no push has come since.
    is_ahead: bool,
}

impl PendingKeys {
    /// Forgets everything and begins with this list, before the push of this number.
    pub(crate) fn restart(&mut self, keys: Vec<u32>, next_push: u64) {
        self.forget();
        self.lists.push_back(keys);
        self.by = next_push.saturating_sub(1);
    }

    /// Adds a list behind the first one, before the push of this number, or replaces the one
    /// that the same pull has added before; false if it has no place.
    #[must_use]
    pub(crate) fn ahead(&mut self, keys: Vec<u32>, next_push: u64) -> bool {
        if self.is_ahead {
            self.lists.pop_back();
        }
        let fits =
            (1..MOST).contains(&self.lists.len()) && next_push.checked_sub(1) == Some(self.by);
        self.is_ahead = fits;
        if fits {
            self.lists.push_back(keys);
        }
        fits
    }

    /// No gradient of anything that was asked for will come.
    pub(crate) fn forget(&mut self) {
        self.lists.clear();
        self.is_ahead = false;
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
        self.is_ahead = false;
        self.lists.push_back(next);
        self.lists.pop_front().unwrap_or_default()
    }

    /// How many lists wait for their gradient.
    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }
}
