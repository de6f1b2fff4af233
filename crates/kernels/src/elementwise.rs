//! Loops over the elements of slices.

use crate::vectors::narrow;

/// Runs a loop with the processor's vectors, of at most eight numbers.
///
/// The loop is compiled once for each kind of processor. Keep it a plain pass over slices, and
/// mark the closure `#[inline(always)]`, so that the compiler can vectorise it.
///
/// ```
/// use paceline_kernels::each;
///
/// let mut values = vec![1.0f32; 1000];
/// each(
///     #[inline(always)]
///     || values.iter_mut().for_each(|value| *value *= 0.5),
/// );
/// assert_eq!(values[999], 0.5);
/// ```
#[inline]
pub fn each(work: impl FnOnce()) {
    narrow().dispatch(work);
}
