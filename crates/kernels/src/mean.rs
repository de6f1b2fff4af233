//! The weighted mean of gradients, with the same bits wherever it is computed.
//!
//! A server of `sync`, the workers of `mirrored` and a model that is given factors weigh and add in
//! the same way and order, so that their runs end with the same bits.

use crate::elementwise::each;

/// A gradient with its weight in a mean.
#[derive(Clone, Copy, Debug)]
pub struct Weighted<'a> {
    /// The gradient.
    pub values: &'a [f32],
    /// Its weight.
    pub weight: f32,
}

/// `values *= weight`
pub fn scale(values: &mut [f32], weight: f32) {
    // The mean of one gradient is that gradient.
    if weight != 1.0 {
        each(
            #[inline(always)]
            || values.iter_mut().for_each(|value| *value *= weight),
        );
    }
}

/// `sum += weight * values`
///
/// # Panics
/// If the slices differ in length.
pub fn add_scaled(sum: &mut [f32], values: &[f32], weight: f32) {
    assert_eq!(sum.len(), values.len());
    each(
        #[inline(always)]
        || sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value),
    );
}

/// `sum = first + second`, both weighted, with the bits that [`scale`] and [`add_scaled`] give.
///
/// # Panics
/// If the slices differ in length.
pub fn set_scaled_pair(sum: &mut [f32], first: Weighted<'_>, second: Weighted<'_>) {
    assert_eq!((sum.len(), sum.len()), (first.values.len(), second.values.len()));
    let (first_weight, second_weight) = (first.weight, second.weight);
    each(
        #[inline(always)]
        || {
            for ((sum, first), second) in sum.iter_mut().zip(first.values).zip(second.values) {
                *sum = first_weight * first + second_weight * second;
            }
        },
    );
}
