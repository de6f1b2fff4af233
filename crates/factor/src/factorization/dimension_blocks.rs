//! Cuts the dimensions of a vector into blocks whose sums fit in registers.

/// Work on a block of dimensions, whose number the compiler knows.
pub(super) trait DimensionWork {
    /// Does the work for the dimensions `from .. from + B`, and returns what they add to a score.
    fn run<const B: usize>(&mut self, from: usize) -> f32;
}

/// Runs some work for all of `rank` dimensions, in blocks of 16, 8, 4, 2 and 1. Returns the sum of
/// what the blocks return.
#[inline(always)]
pub(super) fn for_dimensions(rank: usize, mut work: impl DimensionWork) -> f32 {
    let (mut from, mut sum) = (0, 0.0);
    while rank - from >= 16 {
        sum += work.run::<16>(from);
        from += 16;
    }
    if rank & 8 != 0 {
        sum += work.run::<8>(from);
        from += 8;
    }
    if rank & 4 != 0 {
        sum += work.run::<4>(from);
        from += 4;
    }
    if rank & 2 != 0 {
        sum += work.run::<2>(from);
        from += 2;
    }
    if rank & 1 != 0 {
        sum += work.run::<1>(from);
    }
    sum
}

/// The sum of a block's numbers: halves are added until one number is left. `B` is a power of two.
#[inline(always)]
pub(super) fn block_sum<const B: usize>(mut numbers: [f32; B]) -> f32 {
    let mut half = B / 2;
    while half > 0 {
        for at in 0..half {
            numbers[at] += numbers[at + half];
        }
        half /= 2;
    }
    numbers[0]
}
