//! The weight of a gradient in the mean of a step, the same wherever the mean is computed.

pub(crate) use paceline_model::kernels::{Weighted, add_scaled, scale, set_scaled_pair};

/// The weight in a mean of a gradient over `examples` examples, if all contributors together have
/// `total` examples.
pub(crate) fn weight(examples: u32, total: u64, contributors: usize) -> f32 {
    if total == 0 {
        // No contributor counted its examples: all have equal weight.
        return 1.0 / contributors as f32;
    }
    (f64::from(examples) / total as f64) as f32
}
