//! Whether numbers are finite: one pass at the speed of memory, for data from elsewhere.

use crate::elementwise::each;

/// The exponent of an `f32` that is infinite or not a number.
const EXPONENT: u32 = 0x7f80_0000;

/// The same for a bf16 number.
const EXPONENT_BF16: u16 = 0x7f80;

/// Whether all values are finite.
///
/// ```
/// assert!(paceline_kernels::all_finite(&[0.0, -1e38]));
/// assert!(!paceline_kernels::all_finite(&[0.0, f32::NAN]));
/// ```
pub fn all_finite(values: &[f32]) -> bool {
    let mut found = 0;
    each(
        #[inline(always)]
        || {
            for value in values {
                found |= u32::from(value.to_bits() & EXPONENT == EXPONENT);
            }
        },
    );
    found == 0
}

/// Whether all bf16 numbers are finite.
pub fn all_finite_bf16(values: &[u16]) -> bool {
    let mut found = 0;
    each(
        #[inline(always)]
        || {
            for value in values {
                found |= u16::from(value & EXPONENT_BF16 == EXPONENT_BF16);
            }
        },
    );
    found == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_that_is_not_finite_is_found_at_any_place() {
        for len in [1, 7, 64, 1_003] {
            let finite = vec![f32::MAX; len];
            assert!(all_finite(&finite) && all_finite_bf16(&vec![0xff7f; len]));
            for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for at in [0, len / 2, len - 1] {
                    let mut values = finite.clone();
                    values[at] = bad;
                    assert!(!all_finite(&values), "{bad} at {at} of {len}");
                    let mut rounded = vec![0x8000; len];
                    rounded[at] = (bad.to_bits() >> 16) as u16;
                    assert!(!all_finite_bf16(&rounded), "{bad} at {at} of {len}");
                }
            }
        }
        assert!(all_finite(&[]) && all_finite_bf16(&[]));
    }
}
