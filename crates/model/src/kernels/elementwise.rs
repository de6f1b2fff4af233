//! Loops that treat each element alone.

use pulp::Arch;

/// Runs a loop with the widest vectors that the processor has.
///
/// The loop is compiled once for each kind of processor; keep it a plain pass over slices, so
/// that the compiler can vectorise it.
#[inline]
pub fn each(work: impl FnOnce()) {
    Arch::new().dispatch(work);
}
