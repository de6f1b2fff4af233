//! How keys get entries, and lose them, by the policy of a table.

use std::sync::atomic::Ordering;

use super::atomic_cells::AtomicCell;
use super::entry_policy::{COUNTS, EntryPolicy};
use super::entry_table::{EntryTable, has_entry};

impl EntryTable {
    /// Whether the next update that names a key creates its entry.
    #[inline]
    pub(super) fn is_due(&self, key: u32) -> bool {
        self.policy.min_count <= 1 || self.count(key) + 1 >= self.policy.min_count
    }

    /// How many updates have named a key without an entry.
    fn count(&self, key: u32) -> u32 {
        self.place(key).published().saturating_sub(COUNTS)
    }

    /// The entry of a feature that update number `step` names: a sink while the key is counted.
    #[inline(always)]
    pub(super) fn admit(&self, step: u64, key: u32) -> &[AtomicCell] {
        let entry = match self.find(key) {
            Some(entry) => entry,
            None if self.is_due(key) && self.has_room() => self.born(key),
            None => {
                self.count_up(key);
                self.sink.all()
            }
        };
        self.mark(step, entry);
        entry
    }

    /// Whether another entry may be created.
    #[cold]
    fn has_room(&self) -> bool {
        let has_room = self.policy.max_entries.is_none_or(|most| self.slabs.has_room(most));
        if !has_room {
            self.is_full.store(true, Ordering::Relaxed);
        }
        has_room
    }

    /// Whether a key has found no room.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    #[cold]
    fn count_up(&self, key: u32) {
        if self.policy.min_count <= 1 {
            return;
        }
        let place = self.place(key);
        let before = place.published();
        if !has_entry(before) {
            // Of two threads that count at the same moment one may be lost.
            let next = before.max(COUNTS).saturating_add(1);
            let _ = place.publish(before, next);
        }
    }

    /// Notes that an update names an entry.
    #[inline(always)]
    fn mark(&self, step: u64, entry: &[AtomicCell]) {
        if let Some(after) = self.policy.evict_after
            && let Some(mark) = entry.last()
        {
            mark.set_bits((step / after) as u32);
        }
    }

    /// After update number `step`: evicts the entries that no update has named for long, if that is
    /// due.
    #[inline]
    pub(super) fn evict_if_due(&self, step: u64) {
        if let Some(after) = self.policy.evict_after
            && (step + 1).is_multiple_of(after)
        {
            self.evict((step / after) as u32);
        }
    }

    /// Evicts the features that no update of this period has named.
    #[cold]
    fn evict(&self, period: u32) {
        let features = self.features.saturating_sub(self.keys().start).min(self.keys().len());
        let mut freed = Vec::new();
        for place in &self.index.all()[..features] {
            let number = place.published();
            if !has_entry(number) {
                continue;
            }
            let mark = self.slabs.entry(number - 1).last().map_or(0, AtomicCell::bits);
            if mark < period && place.publish(number, 0).is_ok() {
                freed.push(number - 1);
            }
        }
        self.slabs.free(freed);
    }

    /// How many updates have named a key, unless it has an entry or none has.
    pub(super) fn counted(&self, key: u32) -> Option<u32> {
        Some(self.count(key)).filter(|count| *count > 0)
    }

    /// Sets how many updates have named keys without an entry.
    pub(super) fn set_counts(&self, keys: &[u32], counts: &[u32]) {
        for (&key, &count) in keys.iter().zip(counts) {
            let place = self.place(key);
            if !has_entry(place.published()) {
                place.set_bits(COUNTS + count.min(EntryPolicy::MAX_COUNT));
            }
        }
    }

    /// The marks of the entries of some keys; none if entries are not evicted.
    pub(super) fn marks(&self, keys: &[u32]) -> Vec<u32> {
        if self.policy.evict_after.is_none() {
            return Vec::new();
        }
        let mark = |key: &u32| self.find(*key)?.last().map(AtomicCell::bits);
        keys.iter().map(|key| mark(key).unwrap_or(0)).collect()
    }

    /// Sets the marks of the entries of some keys, if entries are evicted.
    pub(super) fn set_marks(&self, keys: &[u32], marks: &[u32]) {
        if self.policy.evict_after.is_none() {
            return;
        }
        for (&key, &mark) in keys.iter().zip(marks) {
            if let Some(cell) = self.find(key).and_then(<[_]>::last) {
                cell.set_bits(mark);
            }
        }
    }
}
