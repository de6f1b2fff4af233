//! Sums over tiles: one of the 36 products in the gradient by the weights.

use pulp::{Simd, WithSimd};

use crate::output_mode::OutputMode;
use crate::panels::{Panel, Panels};
use crate::tile::{TileRows, TileWork, add_outer, run_tile, tiles, write_sums};
use crate::winograd::TILE_VALUES;

/// `sums[i][o] (+)= sum over images and tiles of x[tile][i] * dy[tile][o]`.
pub struct SumOverTiles<'a> {
    /// Which of the 36 values.
    pub value: usize,
    /// Images whose tiles are added.
    pub images: usize,
    /// Values of a row of `x`.
    pub inputs: usize,
    /// Tiles of inputs: for each image and value a row for each tile.
    pub x: &'a [f32],
    /// One image's tiles of outputs.
    pub panels: Panels,
    /// For each image and value those panels.
    pub dy: &'a [f32],
    /// Whether the sums replace what is there or are added to it.
    pub mode: OutputMode,
    /// A row of outputs, in panels, for each input.
    pub sums: &'a mut [f32],
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
