//! Dropout: some values are left out of a step, and the others are scaled up.
//!
//! Which values are left out is a function of the example's position in the plan (`Batch::draw`),
//! the layer and the value's index. So nothing is kept for the backward pass, the result does not
//! depend on threads, and a step that is computed again leaves out the same values.

use super::layer_op::ElementwiseLayer;
use crate::kernels::each;
use crate::seed::mixed;

/// Leaves out each value with some probability.
pub(crate) struct Dropout {
    /// The layer's index, so that no two layers leave out the same values.
    layer: u64,
    /// A value is left out if its 32-bit random number is below this.
    below: u32,
    /// The factor of the values that stay.
    scale: f32,
}

impl Dropout {
    /// Leaves out values with the probability `rate`, at least 0 and less than 1.
    pub(crate) fn new(layer: usize, rate: f32) -> Self {
        let below = (f64::from(rate) * 4_294_967_296.0) as u32;
        Self { layer: layer as u64, below, scale: 1.0 / (1.0 - rate) }
    }

    /// Scales the values that stay and zeroes the others.
    fn leave_out(&self, draw: Option<u64>, values: &mut [f32]) {
        let Some(draw) = draw else { return };
        let key = mixed(mixed(draw) ^ self.layer) as u32;
        each(
            #[inline(always)]
            || {
                for (place, value) in values.iter_mut().enumerate() {
                    let stays = hash32(key.wrapping_add(place as u32)) >= self.below;
                    *value = if stays { *value * self.scale } else { 0.0 };
                }
            },
        );
    }
}

impl ElementwiseLayer for Dropout {
    fn forward(&self, draw: Option<u64>, y: &mut [f32]) {
        self.leave_out(draw, y);
    }

    fn input_gradient(&self, draw: Option<u64>, _: &[f32], dy: &mut [f32]) {
        self.leave_out(draw, dy);
    }
}

/// A hash of 32 bits, which vector instructions can compute.
#[inline(always)]
fn hash32(number: u32) -> u32 {
    let mut x = number.wrapping_mul(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}
