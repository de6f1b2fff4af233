//! Prefetching memory before it is needed.

/// Asks the processor to bring an element of a slice into the cache, if the index is in bounds.
///
/// It is a hint, which has no effect on processors other than x86-64.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = slice.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "the instruction takes a raw pointer")]
        // SAFETY: every x86-64 has the instruction, and it reads and writes nothing.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
