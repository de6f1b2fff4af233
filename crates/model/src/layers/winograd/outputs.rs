//! Sums of products into images and weights.

use pulp::{Simd, WithSimd};

use super::grid::TileGrid;
use super::values::{load, store};
use crate::kernels::OutputMode;
use crate::kernels::winograd::{TILE, column, transform_sums};
use crate::layers::PaddedShape;

/// Turns the sums of an image's tiles into its pixels, with a bias for each channel.
pub(super) struct TransformTiles<'a, const STEP: usize> {
    pub(super) grid: TileGrid,
    pub(super) shape: PaddedShape,
    /// From the image's first tile on: a row of all channels for each tile.
    pub(super) sums: &'a [f32],
    /// The length of a row, and the distance from one of the 36 values to the next.
    pub(super) row: usize,
    pub(super) plane: usize,
    /// Zeros if empty.
    pub(super) bias: &'a [f32],
    pub(super) image: &'a mut [f32],
}

impl<const STEP: usize> WithSimd for TransformTiles<'_, STEP> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let shape = self.shape.shape;
        for (tile, place) in self.grid.places().enumerate() {
            let rows = STEP.min(shape.height - place.y);
            let columns = STEP.min(shape.width - place.x);
            for first in (0..shape.channels).step_by(S::F32_LANES) {
                let lanes = S::F32_LANES.min(shape.channels - first);
                let bias = match self.bias.get(first..first + lanes) {
                    Some(bias) => load(simd, bias),
                    None => simd.splat_f32s(0.0),
                };
                let sums = &self.sums[tile * self.row + first..];
                let pixels = tile_of_sums::<S, STEP>(simd, sums, self.plane);
                for (y, pixels) in pixels.iter().enumerate().take(rows) {
                    for (x, pixel) in pixels.iter().enumerate().take(columns) {
                        let at = self.shape.at(place.y + y, place.x + x) + first;
                        let pixel = simd.add_f32s(*pixel, bias);
                        store(simd, pixel, &mut self.image[at..][..lanes]);
                    }
                }
            }
        }
    }
}

/// The last transform of one tile in both directions. `sums` has full vectors.
#[inline(always)]
fn tile_of_sums<S: Simd, const N: usize>(simd: S, sums: &[f32], plane: usize) -> [[S::f32s; N]; N] {
    let mut half = [[simd.splat_f32s(0.0); N]; TILE];
    for x in 0..TILE {
        let mut values = [simd.splat_f32s(0.0); TILE];
        for (y, value) in values.iter_mut().enumerate() {
            *value = S::as_simd_f32s(&sums[(y * TILE + x) * plane..][..S::F32_LANES]).0[0];
        }
        half[x] = transform_sums::<S, N>(simd, values);
    }
    let mut pixels = [[simd.splat_f32s(0.0); N]; N];
    for (y, pixels) in pixels.iter_mut().enumerate() {
        *pixels = transform_sums::<S, N>(simd, column(&half, y));
    }
    pixels
}

/// Turns sums over tiles into the gradient of some outputs' weights.
pub(super) struct TransformWeights<'a, const TAPS: usize> {
    /// A matrix of inputs by stored outputs for each of the 36 values.
    pub(super) sums: &'a [f32],
    pub(super) inputs: usize,
    /// The length of a row of the sums.
    pub(super) stored: usize,
    /// The first output whose weights are written.
    pub(super) first: usize,
    pub(super) mode: OutputMode,
    /// The weights of some outputs as `[outputs, inputs, TAPS, TAPS]`.
    pub(super) weights: &'a mut [f32],
}

impl<const TAPS: usize> WithSimd for TransformWeights<'_, TAPS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let kernel = TAPS * TAPS;
        let outputs = self.weights.len() / (self.inputs * kernel);
        let mut lanes = [[0.0; 16]; 25];
        for input in 0..self.inputs {
            for first in (0..outputs).step_by(S::F32_LANES) {
                let sums = &self.sums[input * self.stored + self.first + first..];
                let taps = tile_of_sums::<S, TAPS>(simd, sums, self.inputs * self.stored);
                for (lanes, tap) in lanes.iter_mut().zip(taps.as_flattened()) {
                    store(simd, *tap, &mut lanes[..S::F32_LANES]);
                }
                for lane in 0..S::F32_LANES.min(outputs - first) {
                    let at = ((first + lane) * self.inputs + input) * kernel;
                    let weights = &mut self.weights[at..][..kernel];
                    for (weight, tap) in weights.iter_mut().zip(&lanes) {
                        let sum = tap[lane];
                        *weight =
                            if self.mode == OutputMode::Overwrite { sum } else { *weight + sum };
                    }
                }
            }
        }
    }
}
