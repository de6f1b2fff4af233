//! Memory of many million numbers that threads share without locks.
//!
//! A number is an atomic that is read and written without any order: on every processor that
//! is a plain move, and a race can lose an update but never tear a number. The memory comes
//! zeroed from the system and costs nothing until it is touched. Where the system has them it
//! lies in huge pages, because access is at random and would miss the page tables each time.

use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapMut, MmapRaw};

/// A shared number.
#[repr(transparent)]
pub(super) struct Cell(AtomicU32);

impl Cell {
    pub(super) fn new(value: f32) -> Self {
        Self(AtomicU32::new(value.to_bits()))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn set(&self, value: f32) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// Zeroed cells.
pub(super) struct Cells {
    map: MmapRaw,
    len: usize,
}

impl Cells {
    /// So many zeros.
    ///
    /// # Panics
    /// If there is no memory left, as every allocation.
    pub(super) fn zeros(len: usize) -> Self {
        let bytes = (len * size_of::<Cell>()).max(1);
        let map = MmapMut::map_anon(bytes)
            .unwrap_or_else(|error| panic!("no memory for {len} parameters: {error}"));
        #[cfg(target_os = "linux")]
        {
            // Advice that is not taken costs speed and nothing else.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Self { map: MmapRaw::from(map), len }
    }

    /// All of them.
    #[inline(always)]
    #[expect(unsafe_code, reason = "a memory map is bytes; these are numbers")]
    pub(super) fn all(&self) -> &[Cell] {
        // SAFETY: the map is at least `len` cells long, begins at a page and is ours alone for as
        // long as `self` lives; every pattern of bits is a cell; and nobody takes a reference to
        // it but this one, through which it is written to by atomics only.
        unsafe { slice::from_raw_parts(self.map.as_mut_ptr().cast::<Cell>(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_zero_and_keep_what_is_set_at_odd_sizes() {
        for len in [0, 1, 3, 1_023, 1_025, 600_001] {
            let cells = Cells::zeros(len);
            assert_eq!(cells.all().len(), len);
            assert!(cells.all().iter().all(|cell| cell.get().to_bits() == 0));
            cells.all().iter().enumerate().for_each(|(i, cell)| cell.set(i as f32));
            assert!(cells.all().iter().enumerate().all(|(i, cell)| cell.get() == i as f32));
        }
    }
}
