//! Sums over tiles: one of the 36 products in the gradient by the weights.

use pulp::{Simd, WithSimd};

use crate::kernels::OutputMode;
use crate::kernels::panels::{Panel, Panels};
use crate::kernels::tile::{TileRows, TileWork, add_outer, run_tile, tiles, write_sums};
use crate::kernels::winograd::TILE_VALUES;

/// `sums[i][o] (+)= sum over images and tiles of x[tile][i] * dy[tile][o]`.
pub(super) struct SumOverTiles<'a> {
    /// Which of the 36 values.
    pub(super) value: usize,
    pub(super) images: usize,
    pub(super) inputs: usize,
    /// Tiles of inputs: for each image and value a row for each tile.
    pub(super) x: &'a [f32],
    /// One image's tiles of outputs.
    pub(super) panels: Panels,
    /// For each image and value those panels.
    pub(super) dy: &'a [f32],
    pub(super) mode: OutputMode,
    pub(super) sums: &'a mut [f32],
}

impl WithSimd for SumOverTiles<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for panel in self.panels.iter() {
            for TileRows { first, count } in tiles(self.inputs) {
                run_tile(simd, count, panel.width, WeightTile { product: &mut self, panel, first });
            }
        }
    }
}

/// Some rows of a panel, from row `first` on.
struct WeightTile<'a, 'b> {
    product: &'a mut SumOverTiles<'b>,
    panel: Panel,
    first: usize,
}

impl<S: Simd> TileWork<S> for WeightTile<'_, '_> {
    #[inline(always)]
    fn run<const M: usize, const V: usize>(self, simd: S) {
        let Self { product, panel, first } = self;
        let (tiles, inputs) = (product.panels.depth(), product.inputs);
        let mut sums = [[simd.splat_f32s(0.0); V]; M];
        for image in 0..product.images {
            let matrix = image * TILE_VALUES + product.value;
            let x = &product.x[matrix * tiles * inputs + first..];
            let dy = &product.dy[matrix * product.panels.len() + panel.start..];
            let dy = S::as_simd_f32s(&dy[..tiles * panel.width]).0.as_chunks::<V>().0;
            add_outer(simd, x, inputs, dy, &mut sums);
        }
        let stored = product.panels.stored_columns();
        for (m, sums) in sums.iter().enumerate() {
            let out = &mut product.sums[(first + m) * stored + panel.column..][..panel.width];
            write_sums(simd, sums, product.mode, out);
        }
    }
}
