//! Dropout: some values are left out of a step, the rest count for more.
//!
//! Which values is a function of the step's and slot's number (`Batch::draw`), the layer, the
//! example and the value's place. So nothing has to be kept for the way back, it does not matter
//! which thread asks, and a step that is computed again leaves out the same values.

use super::stage::{Map, Pass};
use crate::kernels::each;
use crate::seed::mixed;

/// Leaves out each value with some probability.
pub(crate) struct Dropout {
    /// The layer's number, so that no two leave out alike.
    layer: u64,
    /// Values of an example.
    len: usize,
    /// Of the numbers of 32 bits, those below this one leave a value out.
    below: u32,
    /// What the rest is multiplied by.
    scale: f32,
}

impl Dropout {
    /// Leaves out with the probability `rate`, which is at least 0 and less than 1.
    pub(crate) fn new(layer: usize, len: usize, rate: f32) -> Self {
        let below = (f64::from(rate) * 4_294_967_296.0) as u32;
        Self { layer: layer as u64, len, below, scale: 1.0 / (1.0 - rate) }
    }

    /// Multiplies what stays and clears what does not.
    fn leave_out(&self, pass: &Pass<'_>, values: &mut [f32]) {
        let Some(draw) = pass.draw else { return };
        pass.crew.each(values, self.len, |example, values| {
            let key = mixed(mixed(draw.wrapping_add(example as u64)) ^ self.layer) as u32;
            each(
                #[inline(always)]
                || {
                    for (place, value) in values.iter_mut().enumerate() {
                        let stays = scattered(key.wrapping_add(place as u32)) >= self.below;
                        *value = if stays { *value * self.scale } else { 0.0 };
                    }
                },
            );
        });
    }
}

impl Map for Dropout {
    fn forward(&self, pass: &mut Pass<'_>, y: &mut [f32]) {
        self.leave_out(pass, y);
    }

    fn back(&self, pass: &mut Pass<'_>, _: &[f32], dy: &mut [f32]) {
        self.leave_out(pass, dy);
    }
}

/// A number that looks nothing like the one it is made of; 32 bits, so that vectors can do it.
#[inline(always)]
fn scattered(number: u32) -> u32 {
    let mut x = number.wrapping_mul(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}
