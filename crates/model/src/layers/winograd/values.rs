//! Images into transformed tiles.

use pulp::{Simd, WithSimd};

use super::grid::{TileGrid, TileWindow};
use crate::kernels::panels::Panels;
use crate::kernels::winograd::{TILE, TILE_VALUES, column, transform_taps, transform_values};
use crate::layers::PaddedShape;

/// Transforms all tiles of an image: a row of all channels for each tile, for each of the 36
/// values.
pub(super) struct TransformImage<'a> {
    pub(super) grid: TileGrid,
    pub(super) shape: PaddedShape,
    /// How far tiles begin before their place.
    pub(super) before: [isize; 2],
    pub(super) image: &'a [f32],
    pub(super) tiles: &'a mut [f32],
}

impl WithSimd for TransformImage<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let channels = self.shape.shape.channels;
        let plane = self.grid.count() * channels;
        for (tile, place) in self.grid.places().enumerate() {
            let window = TileWindow::new(self.shape, place, self.before);
            for first in (0..channels).step_by(S::F32_LANES) {
                let lanes = S::F32_LANES.min(channels - first);
                let values = read::<S, TILE>(simd, self.image, &window, first, lanes);
                let mut half = [[simd.splat_f32s(0.0); TILE]; TILE];
                for (x, half) in half.iter_mut().enumerate() {
                    *half = transform_values(simd, column(&values, x));
                }
                for y in 0..TILE {
                    let row = transform_values(simd, column(&half, y));
                    for (x, value) in row.into_iter().enumerate() {
                        let at = (y * TILE + x) * plane + tile * channels + first;
                        store(simd, value, &mut self.tiles[at..][..lanes]);
                    }
                }
            }
        }
    }
}

/// Transforms the gradient by an image's outputs as if `STEP x STEP` of them were a kernel: a
/// matrix of tiles by channels, in panels, for each of the 36 values.
pub(super) struct TransformOutputGrad<'a, const STEP: usize> {
    pub(super) grid: TileGrid,
    pub(super) shape: PaddedShape,
    pub(super) panels: Panels,
    pub(super) image: &'a [f32],
    pub(super) tiles: &'a mut [f32],
}

impl<const STEP: usize> WithSimd for TransformOutputGrad<'_, STEP> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for panel in self.panels.iter() {
            for (tile, place) in self.grid.places().enumerate() {
                let window = TileWindow::of_size(self.shape, place, [0; 2], STEP);
                for first in (0..panel.width).step_by(S::F32_LANES) {
                    let lanes = S::F32_LANES.min(panel.used - first);
                    let channel = panel.column + first;
                    let values = read::<S, STEP>(simd, self.image, &window, channel, lanes);
                    let mut half = [[simd.splat_f32s(0.0); TILE]; STEP];
                    for (x, half) in half.iter_mut().enumerate() {
                        *half = transform_taps::<S, STEP>(simd, column(&values, x));
                    }
                    for y in 0..TILE {
                        let row = transform_taps::<S, STEP>(simd, column(&half, y));
                        for (x, value) in row.into_iter().enumerate() {
                            let at = (y * TILE + x) * self.panels.len() + panel.start;
                            let to = &mut self.tiles[at + tile * panel.width + first..];
                            store(simd, value, &mut to[..S::F32_LANES]);
                        }
                    }
                }
            }
        }
        debug_assert_eq!(self.tiles.len(), TILE_VALUES * self.panels.len());
    }
}

/// The values of a tile in some channels; zeros outside the image.
#[inline(always)]
fn read<S: Simd, const N: usize>(
    simd: S,
    image: &[f32],
    window: &TileWindow,
    channel: usize,
    lanes: usize,
) -> [[S::f32s; N]; N] {
    let mut values = [[simd.splat_f32s(0.0); N]; N];
    for y in window.rows.clone() {
        for x in window.columns.clone() {
            values[y][x] = load(simd, &image[window.at(y, x) + channel..][..lanes]);
        }
    }
    values
}

/// Reads a vector, filled up with zeros.
#[inline(always)]
pub(super) fn load<S: Simd>(simd: S, from: &[f32]) -> S::f32s {
    match S::as_simd_f32s(from).0.first() {
        Some(vector) => *vector,
        None => simd.partial_load_f32s(from),
    }
}

/// Writes as much of a vector as there is room for.
#[inline(always)]
pub(super) fn store<S: Simd>(simd: S, vector: S::f32s, to: &mut [f32]) {
    match S::as_mut_simd_f32s(to).0.first_mut() {
        Some(to) => *to = vector,
        None => simd.partial_store_f32s(to, vector),
    }
}
