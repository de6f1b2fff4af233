//! Memory of many million numbers that threads share without locks.
//!
//! A number is an atomic that is read and written with relaxed ordering: on every processor that
//! is a plain move, and a race can lose an update but never tear a number. The system provides
//! zeroed memory, which costs nothing until it is touched. Where the system has them the memory
//! lies in huge pages, because accesses are random and would miss the page tables each time.

use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapMut, MmapRaw};

use crate::memory_text;

/// A number that threads share.
#[repr(transparent)]
pub(super) struct AtomicCell(AtomicU32);

impl AtomicCell {
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

    /// The number that a thread has [published](Self::publish) here; 0 if none has. What that
    /// thread wrote before is visible.
    #[inline(always)]
    pub(super) fn published(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Publishes a number in place of another, unless another thread was faster: then the error is
    /// the number that it has published.
    pub(super) fn publish(&self, before: u32, number: u32) -> Result<(), u32> {
        self.0.compare_exchange(before, number, Ordering::Release, Ordering::Acquire).map(drop)
    }

    /// Sets a number that is not a float.
    pub(super) fn set_bits(&self, bits: u32) {
        self.0.store(bits, Ordering::Relaxed);
    }

    /// A number that is not a float.
    pub(super) fn bits(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A fixed number of cells.
pub(super) struct AtomicCells {
    map: MmapRaw,
    len: usize,
}

impl AtomicCells {
    /// `len` zeros, or why there is no memory for them.
    pub(super) fn zeros(len: usize) -> Result<Self, String> {
        let bytes = (len * size_of::<AtomicCell>()).max(1);
        let map = MmapMut::map_anon(bytes).map_err(|error| {
            format!(
                "{} for {len} numbers of a sparse model cannot be set aside: {error}; use fewer \
                 features, or more servers",
                memory_text(bytes as u128)
            )
        })?;
        #[cfg(target_os = "linux")]
        {
            // Without huge pages access is slower, and correct.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Self { map: MmapRaw::from(map), len })
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "a memory map is bytes; these are numbers")]
    pub(super) fn all(&self) -> &[AtomicCell] {
        // SAFETY: the map is at least `len` cells long, begins at a page and lives as long as
        // `self`; every bit pattern is a valid cell; and this is the only place that takes a
        // reference to the memory, through which atomics alone write to it.
        unsafe { slice::from_raw_parts(self.map.as_mut_ptr().cast::<AtomicCell>(), self.len) }
    }
}

#[cfg(test)]
mod tests;
