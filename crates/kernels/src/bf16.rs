//! Numbers of 16 bits, for gradients and parameters that travel.
//!
//! A bf16 number is the upper half of an `f32`: the same range, and 8 bits of precision instead of
//! 24. Values are rounded to the nearest bf16 number, and to the even one of two that are equally
//! near. A NaN stays a NaN. The kernels are element-wise and give equal bits on all processors.

use crate::elementwise::each;

/// The bits of the nearest bf16 number.
#[inline(always)]
fn round(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    // Rounding could turn a NaN into an infinity; a set upper bit of the fraction keeps it a NaN.
    if value.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded }
}

#[inline(always)]
fn widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds every value to bf16.
///
/// ```
/// use paceline_kernels::{bf16_decode, bf16_encode};
///
/// let mut bits = [0; 3];
/// bf16_encode(&[1.0, -2.5, 3.14159], &mut bits);
/// let mut values = [0.0; 3];
/// bf16_decode(&bits, &mut values);
/// assert_eq!(values, [1.0, -2.5, 3.140625]);
/// ```
///
/// # Panics
/// If the slices differ in length.
pub fn bf16_encode(values: &[f32], bits: &mut [u16]) {
    assert_eq!(values.len(), bits.len());
    each(
        #[inline(always)]
        || bits.iter_mut().zip(values).for_each(|(bits, value)| *bits = round(*value)),
    );
}

/// Widens every bf16 number to `f32`, which is exact.
///
/// # Panics
/// If the slices differ in length.
pub fn bf16_decode(bits: &[u16], values: &mut [f32]) {
    assert_eq!(values.len(), bits.len());
    each(
        #[inline(always)]
        || values.iter_mut().zip(bits).for_each(|(value, bits)| *value = widen(*bits)),
    );
}

/// Rounds the differences between the values and what the receiver knows of them, and brings the
/// latter up to date: afterwards `known` has the bits that [`bf16_add`] gives the receiver.
///
/// # Panics
/// If the slices differ in length.
pub fn bf16_encode_change(values: &[f32], known: &mut [f32], bits: &mut [u16]) {
    assert_eq!((values.len(), values.len()), (known.len(), bits.len()));
    each(
        #[inline(always)]
        || {
            for ((value, known), bits) in values.iter().zip(known).zip(bits) {
                *bits = round(*value - *known);
                *known += widen(*bits);
            }
        },
    );
}

/// Adds changes to what is known of some values, and copies the result to `values`.
///
/// # Panics
/// If the slices differ in length.
pub fn bf16_add(bits: &[u16], known: &mut [f32], values: &mut [f32]) {
    assert_eq!((bits.len(), bits.len()), (known.len(), values.len()));
    each(
        #[inline(always)]
        || {
            for ((bits, known), value) in bits.iter().zip(known).zip(values) {
                *known += widen(*bits);
                *value = *known;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The nearest bf16 number, found among the two neighbours by distance.
    fn nearest(value: f32) -> f32 {
        let below = f32::from_bits(value.to_bits() & 0xffff_0000);
        let above = f32::from_bits((value.to_bits() & 0xffff_0000).wrapping_add(0x1_0000));
        let distance = |other: f32| (f64::from(value) - f64::from(other)).abs();
        let is_even = below.to_bits() >> 16 & 1 == 0;
        match distance(below).total_cmp(&distance(above)) {
            std::cmp::Ordering::Less => below,
            std::cmp::Ordering::Greater => above,
            std::cmp::Ordering::Equal => {
                if is_even {
                    below
                } else {
                    above
                }
            }
        }
    }

    proptest! {
        #[test]
        fn values_round_to_the_nearest_at_every_length(
            values in prop::collection::vec(-1e30f32..1e30, 0..200),
            scale in -40i32..40,
        ) {
            let values: Vec<f32> = values.iter().map(|v| v * 2f32.powi(scale)).collect();
            let values: Vec<f32> = values.into_iter().filter(|v| v.abs() < 1e38).collect();
            let (mut bits, mut back) = (vec![0; values.len()], vec![0.0; values.len()]);
            bf16_encode(&values, &mut bits);
            bf16_decode(&bits, &mut back);
            let expected: Vec<f32> = values.iter().map(|value| nearest(*value)).collect();
            prop_assert_eq!(back, expected);
        }

        #[test]
        fn both_ends_know_the_same_and_what_is_dropped_follows(
            steps in prop::collection::vec(prop::collection::vec(-2f32..2.0, 37), 1..6),
        ) {
            let (mut sender, mut receiver) = (vec![0.0f32; 37], vec![0.0f32; 37]);
            let (mut bits, mut values) = (vec![0; 37], vec![0.0; 37]);
            for gradient in &steps {
                bf16_encode_change(gradient, &mut sender, &mut bits);
                bf16_add(&bits, &mut receiver, &mut values);
                prop_assert_eq!(&sender, &receiver);
                prop_assert_eq!(&sender, &values);
            }
            // What rounding dropped is part of the next change: repeated, it vanishes.
            let last = &steps[steps.len() - 1];
            for _ in 0..4 {
                bf16_encode_change(last, &mut sender, &mut bits);
            }
            for (known, value) in sender.iter().zip(last) {
                prop_assert!((known - value).abs() <= value.abs() * f32::EPSILON);
            }
        }
    }

    #[test]
    fn infinities_stay_and_a_nan_never_becomes_a_number() {
        let nans = [0x7f80_0001, 0x7fff_ffff, 0xff80_0001, 0xffff_ffff].map(f32::from_bits);
        let values = [f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
        let (mut bits, mut back) = ([0; 4], [1.0; 4]);
        bf16_encode(&values, &mut bits);
        bf16_decode(&bits, &mut back);
        assert_eq!(back.map(f32::to_bits), values.map(f32::to_bits));
        bf16_encode(&nans, &mut bits);
        bf16_decode(&bits, &mut back);
        assert!(back.iter().all(|value| value.is_nan()), "{back:?}");
    }
}
