//! Which keys have an entry: those that enough updates have named, and some lately.
//!
//! Both rules count updates and not examples or seconds, so that the entries of a run depend on the
//! sequence of its gradients alone.

/// From this number on, the index of a table counts the updates that have named a key.
pub(super) const COUNTS: u32 = 0xffff_0000;

/// When a key gets an entry, and when it loses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPolicy {
    /// The update that creates an entry, counted from 1 among those that name its key; at most
    /// [`EntryPolicy::MAX_COUNT`]. Before, the key is counted and reads as zeros.
    pub min_count: u32,
    /// At every update whose number is a multiple of this, the entries that none of as many
    /// updates before has named are evicted. `None` if entries stay.
    pub evict_after: Option<u64>,
    /// The most entries of a table, with evicted ones whose memory is not used again yet; `None`
    /// for as many as there is memory for. Beyond it keys get no entry, and
    /// [`ParamTable::check_room`](super::ParamTable::check_room) says so.
    pub max_entries: Option<usize>,
}

impl EntryPolicy {
    /// The highest [`EntryPolicy::min_count`].
    pub const MAX_COUNT: u32 = 65_535;
}

impl Default for EntryPolicy {
    /// The first update creates an entry, which stays.
    fn default() -> Self {
        Self { min_count: 1, evict_after: None, max_entries: None }
    }
}

#[cfg(test)]
mod tests;
