//! Memory for entries, which grows as they are created and never moves.
//!
//! Each slab has room for twice as many entries as the one before it, so a few of them are enough
//! and the number of an entry says where it is. The system provides the pages of a slab when they
//! are first written to: memory follows the number of entries.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::atomic_cells::{AtomicCell, AtomicCells};
use crate::kernels::OwnLines;

/// The first slab has room for two to the power of this many entries.
const FIRST: u32 = 12;
/// The most entries.
const MOST: u32 = super::entry_policy::COUNTS - (1 << FIRST);
/// Slabs for as many entries as a `u32` can number.
const SLABS: usize = (u32::BITS - FIRST) as usize;

/// Entries of equal length, by number.
pub(super) struct Slabs {
    /// Cells of an entry.
    len: usize,
    slabs: [OnceLock<AtomicCells>; SLABS],
    // These change with each new entry, and the fields above are read with every key.
    used: OwnLines<AtomicU32>,
    freed: OwnLines<Mutex<FreedEntries>>,
}

/// Entries that are not used any more.
#[derive(Default)]
struct FreedEntries {
    /// Those that new entries may take the place of.
    ready: Vec<u32>,
    /// Those that were freed last. A thread may still be about to write to one of them.
    resting: Vec<u32>,
}

impl Slabs {
    /// No entries yet; each will have `len` cells.
    pub(super) fn new(len: usize) -> Self {
        let (used, freed) = Default::default();
        Self { len, slabs: [const { OnceLock::new() }; SLABS], used, freed }
    }

    /// Cells of an entry.
    pub(super) fn entry_len(&self) -> usize {
        self.len
    }

    /// The number of a new entry of zeros.
    ///
    /// # Panics
    /// If there is no memory, or there are as many entries as numbers.
    pub(super) fn take(&self) -> u32 {
        if let Some(number) = self.freed().ready.pop() {
            self.entry(number).iter().for_each(|cell| cell.set_bits(0));
            return number;
        }
        let number = self.used.0.fetch_add(1, Ordering::Relaxed);
        assert!(number < MOST, "too many entries");
        number
    }

    /// Frees entries. They are used again when the next ones are freed.
    pub(super) fn free(&self, entries: Vec<u32>) {
        let mut freed = self.freed();
        let rested = std::mem::replace(&mut freed.resting, entries);
        freed.ready.extend(rested);
    }

    fn freed(&self) -> MutexGuard<'_, FreedEntries> {
        self.freed.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cells of an entry.
    #[inline(always)]
    pub(super) fn entry(&self, number: u32) -> &[AtomicCell] {
        let shifted = number + (1 << FIRST);
        let slab = u32::BITS - 1 - FIRST - shifted.leading_zeros();
        let at = (shifted - (1 << (FIRST + slab))) as usize;
        let len = self.len << (FIRST + slab);
        let zeros = || AtomicCells::zeros(len).unwrap_or_else(|why| panic!("{why}"));
        let cells = self.slabs[slab as usize].get_or_init(zeros);
        &cells.all()[at * self.len..][..self.len]
    }

    /// Entries that take memory, freed ones included.
    pub(super) fn held(&self) -> usize {
        self.used.0.load(Ordering::Relaxed) as usize
    }

    /// Whether another entry needs no more memory than `most` do.
    pub(super) fn has_room(&self, most: usize) -> bool {
        self.held() < most || !self.freed().ready.is_empty()
    }

    /// Entries taken and not freed.
    pub(super) fn used(&self) -> u32 {
        let freed = self.freed();
        self.used.0.load(Ordering::Relaxed) - (freed.ready.len() + freed.resting.len()) as u32
    }
}

#[cfg(test)]
mod tests;
