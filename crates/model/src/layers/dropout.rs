//! Dropout: some values are left out of a step, and the others are scaled up.
//!
//! Which values are left out is a function of the example's position in the plan (`Batch::draw`),
//! the layer and the value's index. So nothing is kept for the backward pass, the result does not
//! depend on threads, and a step that is computed again leaves out the same values.

use super::layer_op::ElementwiseLayer;
use crate::kernels::each;
use crate::seed::mixed;

/// Which values of a layer are left out.
///
/// ```
/// use paceline_model::DropoutMask;
///
/// let mask = DropoutMask::new(0, 0.5);
/// let (mut values, mut again) = ([1.0f32; 64], [1.0f32; 64]);
/// mask.leave_out(7, &mut values);
/// mask.leave_out(7, &mut again);
/// assert_eq!(values, again);
/// assert!(values.iter().all(|&value| value == 0.0 || value == 2.0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DropoutMask {
    /// The layer's index, so that no two layers leave out the same values.
    layer: u64,
    /// A value is left out if its 32-bit random number is below this.
    below: u32,
    /// The factor of the values that stay.
    scale: f32,
}

impl DropoutMask {
    /// Leaves out values of a layer with the probability `rate`.
    ///
    /// # Panics
    /// If the rate is not at least 0 and less than 1.
    pub fn new(layer: usize, rate: f32) -> Self {
        assert!((0.0..1.0).contains(&rate), "dropout of {rate}");
        let below = (f64::from(rate) * 4_294_967_296.0) as u32;
        Self { layer: layer as u64, below, scale: 1.0 / (1.0 - rate) }
    }

    /// Scales the values of an example that stay and zeroes the others; on the way back, does the
    /// same to their derivatives. `draw` is the example's position: [`Batch::draw`] plus its index.
    ///
    /// [`Batch::draw`]: crate::Batch::draw
    pub fn leave_out(&self, draw: u64, values: &mut [f32]) {
        let key = mixed(mixed(draw) ^ self.layer) as u32;
        let Self { below, scale, .. } = *self;
        each(
            #[inline(always)]
            || {
                for (place, value) in values.iter_mut().enumerate() {
                    let stays = hash32(key.wrapping_add(place as u32)) >= below;
                    *value = if stays { *value * scale } else { 0.0 };
                }
            },
        );
    }
}

impl ElementwiseLayer for DropoutMask {
    fn forward(&self, draw: Option<u64>, y: &mut [f32]) {
        let Some(draw) = draw else { return };
        self.leave_out(draw, y);
    }

    fn input_gradient(&self, draw: Option<u64>, _: &[f32], dy: &mut [f32]) {
        self.forward(draw, dy);
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
