//! Memory of many million numbers that threads share without locks.
//!
//! A number is an atomic that is read and written with relaxed ordering: on every processor that
//! is a plain move, and a race can lose an update but never tear a number. The system provides
//! zeroed memory, which costs nothing until it is touched. Where the system has them the memory
//! lies in huge pages, because accesses are random and would miss the page tables each time.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m128;
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

/// Copies the numbers of cells that other threads may write to.
///
/// # Panics
/// If `out` has another length.
#[inline(always)]
pub(super) fn load_all(cells: &[AtomicCell], out: &mut [f32]) {
    assert_eq!(cells.len(), out.len(), "numbers of the cells");
    let (fours, rest) = out.as_chunks_mut::<4>();
    let (from, last) = cells.as_chunks::<4>();
    from.iter().zip(fours).for_each(|(from, to)| *to = load_four(from));
    rest.iter_mut().zip(last).for_each(|(to, cell)| *to = cell.get());
}

/// Sets cells that other threads may read or write.
///
/// # Panics
/// If there is not a value for each cell.
#[inline(always)]
pub(super) fn store_all(cells: &[AtomicCell], values: &[f32]) {
    assert_eq!(cells.len(), values.len(), "numbers of the cells");
    let (fours, rest) = values.as_chunks::<4>();
    let (to, last) = cells.as_chunks::<4>();
    to.iter().zip(fours).for_each(|(to, from)| store_four(to, *from));
    last.iter().zip(rest).for_each(|(cell, &value)| cell.set(value));
}

/// The numbers of four cells. Compilers never join atomic moves of single numbers, so this is one
/// instruction.
#[inline(always)]
pub(super) fn load_four(cells: &[AtomicCell; 4]) -> [f32; 4] {
    #[cfg(target_arch = "x86_64")]
    {
        let numbers: __m128;
        #[expect(unsafe_code, reason = "only an instruction moves four cells at once")]
        // SAFETY: the pointer is valid for 16 bytes, every x86-64 has the instruction, and it needs
        // no alignment. Other threads may write to the cells meanwhile: the processor moves each
        // aligned four bytes as a whole, which is four relaxed loads. Any bits are a number.
        let array = unsafe {
            std::arch::asm!(
                "movups {numbers}, [{cells}]",
                cells = in(reg) cells.as_ptr(),
                numbers = out(xmm_reg) numbers,
                options(readonly, nostack, preserves_flags),
            );
            std::mem::transmute::<__m128, [f32; 4]>(numbers)
        };
        array
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::array::from_fn(|at| cells[at].get())
}

/// As [`load_four`], the other way.
#[inline(always)]
pub(super) fn store_four(cells: &[AtomicCell; 4], numbers: [f32; 4]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[expect(unsafe_code, reason = "only an instruction moves four cells at once")]
        // SAFETY: as in `load_four`; the cells allow writes through a shared reference, and these
        // are four relaxed stores.
        unsafe {
            std::arch::asm!(
                "movups [{cells}], {numbers}",
                cells = in(reg) cells.as_ptr(),
                numbers = in(xmm_reg) std::mem::transmute::<[f32; 4], __m128>(numbers),
                options(nostack, preserves_flags),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    cells.iter().zip(numbers).for_each(|(cell, value)| cell.set(value));
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
