//! The gradient of a dense layer by its weights: sums of outer products over a few examples.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::output_mode::OutputMode;
use crate::panels::{Panel, Panels};
use crate::tile::{ROWS, TileRows, TileWork, add_packed, run_tile, tiles, write_sums};

/// Panels that a tile's rows go through before the next rows do: that much of the right factor
/// stays in the first-level cache, and the output is written in long runs.
const PANELS: usize = 4;
/// Examples whose left factors are packed at a time.
const EXAMPLES: usize = 128;
/// The most rows of a call.
pub const OUTER_ROWS: usize = 8 * ROWS;

/// `grad[o][i] (+)= sum over b of dy[b][first + o] * x[b][i]`, with x in panels of inputs.
///
/// The length of `grad` determines the number of rows.
pub fn outer_rows(
    x: Panels,
    packed: &[f32],
    dy: OutputGrad<'_>,
    mode: OutputMode,
    grad: &mut [f32],
) {
    assert!(grad.len() <= OUTER_ROWS * x.columns(), "rows of the gradient");
    x.vectors().dispatch(OuterRows { x, packed, dy, mode, grad });
}

/// The gradient by a layer's outputs. A call uses the outputs from `first` on.
#[derive(Clone, Copy)]
pub struct OutputGrad<'a> {
    /// A row of `outputs` values for each example.
    pub values: &'a [f32],
    /// Outputs of the layer.
    pub outputs: usize,
    /// The first output used.
    pub first: usize,
}

struct OuterRows<'a> {
    x: Panels,
    packed: &'a [f32],
    dy: OutputGrad<'a>,
    mode: OutputMode,
    grad: &'a mut [f32],
}

impl WithSimd for OuterRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let examples = self.dy.values.len() / self.dy.outputs;
        let mut left = [0.0; EXAMPLES * OUTER_ROWS];
        for first in (0..examples).step_by(EXAMPLES) {
            let examples = first..(first + EXAMPLES).min(examples);
            self.pack(examples.clone(), &mut left);
            for panel in (0..self.x.count()).step_by(PANELS) {
                let panels = panel..(panel + PANELS).min(self.x.count());
                self.block(simd, &examples, panels, &left);
            }
            self.mode = OutputMode::Add;
        }
    }
}

impl OuterRows<'_> {
    /// Packs the left factors of some examples, tile by tile: examples lie far apart in memory,
    /// often at distances at which they evict each other from the cache.
    #[inline(always)]
    fn pack(&self, examples: Range<usize>, left: &mut [f32]) {
        let OutputGrad { values, outputs, first } = self.dy;
        for TileRows { first: row, count } in tiles(self.grad.len() / self.x.columns()) {
            let left = left[row * EXAMPLES..].chunks_exact_mut(count);
            let dy = values[examples.start * outputs..].chunks_exact(outputs);
            for (left, dy) in left.zip(dy.take(examples.len())) {
                left.iter_mut().zip(&dy[first + row..]).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// All rows, some columns, some examples.
    #[inline(always)]
    fn block<S: Simd>(
        &mut self,
        simd: S,
        examples: &Range<usize>,
        panels: Range<usize>,
        left: &[f32],
    ) {
        for rows in tiles(self.grad.len() / self.x.columns()) {
            let left = &left[rows.first * EXAMPLES..];
            for panel in panels.clone() {
                let panel = self.x.get(panel);
                let right = &self.packed[panel.start + examples.start * panel.width..];
                let right = &right[..examples.len() * panel.width];
                let row = rows.first;
                let tile = OuterTile { sums: self, panel, left, right, row };
                run_tile(simd, rows.count, panel.width, tile);
            }
        }
    }
}

/// Some rows of a panel, from row `row` on.
struct OuterTile<'a, 'b> {
    sums: &'a mut OuterRows<'b>,
    panel: Panel,
    left: &'a [f32],
    right: &'a [f32],
    row: usize,
}

impl<S: Simd> TileWork<S> for OuterTile<'_, '_> {
    #[inline(always)]
    fn run<const M: usize, const V: usize>(self, simd: S) {
        let right = S::as_simd_f32s(self.right).0.as_chunks::<V>().0;
        let mut sums = [[simd.splat_f32s(0.0); V]; M];
        add_packed(simd, self.left, right, &mut sums);
        let columns = self.sums.x.columns();
        for (m, sums) in sums.iter().enumerate() {
            let out = &mut self.sums.grad[(self.row + m) * columns + self.panel.column..];
            write_sums(simd, sums, self.sums.mode, &mut out[..self.panel.used]);
        }
    }
}
