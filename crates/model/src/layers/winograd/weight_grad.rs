//! Sums over tiles: one of the 36 products in the gradient by the weights.

use pulp::{Simd, WithSimd};

use crate::kernels::OutputMode;
use crate::kernels::panels::{Panel, Panels};
use crate::kernels::tile::{ROWS, TileRows, add_outer, tiles, write_sums};
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
                match count {
                    1 => self.rows::<S, 1>(simd, panel, first),
                    2 => self.rows::<S, 2>(simd, panel, first),
                    3 => self.rows::<S, 3>(simd, panel, first),
                    4 => self.rows::<S, 4>(simd, panel, first),
                    5 => self.rows::<S, 5>(simd, panel, first),
                    _ => self.rows::<S, ROWS>(simd, panel, first),
                }
            }
        }
    }
}

impl SumOverTiles<'_> {
    #[inline(always)]
    fn rows<S: Simd, const M: usize>(&mut self, simd: S, panel: Panel, first: usize) {
        match panel.width / S::F32_LANES {
            1 => self.tile::<S, M, 1>(simd, panel, first),
            _ => self.tile::<S, M, 2>(simd, panel, first),
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const M: usize, const V: usize>(
        &mut self,
        simd: S,
        panel: Panel,
        first: usize,
    ) {
        let tiles = self.panels.depth();
        let mut sums = [[simd.splat_f32s(0.0); V]; M];
        for image in 0..self.images {
            let matrix = image * TILE_VALUES + self.value;
            let x = &self.x[matrix * tiles * self.inputs + first..];
            let dy = &self.dy[matrix * self.panels.len() + panel.start..][..tiles * panel.width];
            let dy = S::as_simd_f32s(dy).0.as_chunks::<V>().0;
            add_outer(simd, x, self.inputs, dy, &mut sums);
        }
        let stored = self.panels.stored_columns();
        for (m, sums) in sums.iter().enumerate() {
            let out = &mut self.sums[(first + m) * stored + panel.column..][..panel.width];
            write_sums(simd, sums, self.mode, out);
        }
    }
}
