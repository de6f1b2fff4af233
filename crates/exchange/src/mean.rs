//! The mean of gradients, which comes out with the same bits wherever it is taken.
//!
//! A server of `sync` and the workers of `mirrored` weigh and add in the same way and order, so
//! that a run of one ends with the bits of a run of the other.

use paceline_model::kernels::each;

/// What share of a mean a gradient over so many examples has, if all contributors together have
/// `total` examples.
pub(crate) fn weight(examples: u32, total: u64, contributors: usize) -> f32 {
    match total {
        // Nobody counted: all count alike.
        0 => 1.0 / contributors as f32,
        _ => (f64::from(examples) / total as f64) as f32,
    }
}

/// `values *= weight`
pub(crate) fn scale(values: &mut [f32], weight: f32) {
    // The mean of one gradient is that gradient.
    if weight != 1.0 {
        each(
            #[inline(always)]
            || values.iter_mut().for_each(|value| *value *= weight),
        );
    }
}

/// `sum += weight * values`
pub(crate) fn add_scaled(sum: &mut [f32], values: &[f32], weight: f32) {
    assert_eq!(sum.len(), values.len());
    each(
        #[inline(always)]
        || sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value),
    );
}

/// `sum = first_weight * first + second_weight * second`, with the bits that [`scale`] and
/// [`add_scaled`] give.
pub(crate) fn set_scaled_pair(
    sum: &mut [f32],
    (first, first_weight): (&[f32], f32),
    (second, second_weight): (&[f32], f32),
) {
    assert_eq!((sum.len(), sum.len()), (first.len(), second.len()));
    each(
        #[inline(always)]
        || {
            for ((sum, first), second) in sum.iter_mut().zip(first).zip(second) {
                *sum = first_weight * first + second_weight * second;
            }
        },
    );
}
