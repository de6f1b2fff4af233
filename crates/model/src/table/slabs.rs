//! Memory for entries, which grows as they are created and never moves.
//!
//! Each slab has room for twice as many entries as the one before it, so a few of them are enough
//! and the number of an entry says where it is. The system provides the pages of a slab when they
//! are first written to: memory follows the number of entries.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::atomic_cells::{AtomicCell, AtomicCells};

/// The first slab has room for two to the power of this many entries.
const FIRST: u32 = 12;
/// Slabs for as many entries as a `u32` can number.
const SLABS: usize = (u32::BITS - FIRST) as usize;

/// Entries of equal length, by number.
pub(super) struct Slabs {
    /// Cells of an entry.
    len: usize,
    slabs: [OnceLock<AtomicCells>; SLABS],
    used: AtomicU32,
}

impl Slabs {
    /// No entries yet; each will have `len` cells.
    pub(super) fn new(len: usize) -> Self {
        Self { len, slabs: [const { OnceLock::new() }; SLABS], used: AtomicU32::new(0) }
    }

    /// The number of a new entry of zeros.
    ///
    /// # Panics
    /// If there is no memory, or there are as many entries as numbers.
    pub(super) fn take(&self) -> u32 {
        let number = self.used.fetch_add(1, Ordering::Relaxed);
        assert!(number < u32::MAX - (1 << FIRST), "too many entries");
        number
    }

    /// The cells of an entry.
    #[inline(always)]
    pub(super) fn entry(&self, number: u32) -> &[AtomicCell] {
        let shifted = number + (1 << FIRST);
        let slab = u32::BITS - 1 - FIRST - shifted.leading_zeros();
        let at = (shifted - (1 << (FIRST + slab))) as usize;
        let room = 1usize << (FIRST + slab);
        let zeros = || AtomicCells::zeros(room * self.len).unwrap_or_else(|why| panic!("{why}"));
        let cells = self.slabs[slab as usize].get_or_init(zeros);
        &cells.all()[at * self.len..][..self.len]
    }

    /// Entries taken.
    pub(super) fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_all_slabs_have_cells_of_their_own() {
        let slabs = Slabs::new(3);
        let count = 5 << FIRST;
        for number in 0..count {
            assert_eq!(slabs.take(), number);
            slabs.entry(number).iter().for_each(|cell| cell.set(number as f32));
        }
        for number in 0..count {
            assert_eq!(slabs.entry(number).len(), 3);
            assert!(slabs.entry(number).iter().all(|cell| cell.get() == number as f32));
        }
        assert_eq!(slabs.used(), count);
    }
}
