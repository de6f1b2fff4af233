//! The mean of gradients, with the same bits wherever it is computed.
//!
//! A server of `sync` and the workers of `mirrored` weigh and add in the same way and order, so
//! that their runs end with the same bits.

use paceline_model::kernels::each;

/// The weight in a mean of a gradient over `examples` examples, if all contributors together have
/// `total` examples.
pub(crate) fn weight(examples: u32, total: u64, contributors: usize) -> f32 {
    if total == 0 {
        // No contributor counted its examples: all have equal weight.
        return 1.0 / contributors as f32;
    }
    (f64::from(examples) / total as f64) as f32
}

/// A gradient with its weight in a mean.
#[derive(Clone, Copy)]
pub(crate) struct Weighted<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) weight: f32,
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

/// `sum = first + second`, both weighted, with the bits that [`scale`] and [`add_scaled`] give.
pub(crate) fn set_scaled_pair(sum: &mut [f32], first: Weighted<'_>, second: Weighted<'_>) {
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
