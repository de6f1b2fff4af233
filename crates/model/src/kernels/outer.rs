//! The gradient of a dense layer by its weights: sums of outer products over a few examples.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::OutputMode;
use super::panels::{Panel, Panels};
use super::tile::{ROWS, VECTORS, add_packed, put_out, tiles};

/// Panels that a tile's rows go through before the next rows do: so much of the right factor
/// stays in the first-level cache, and the output is written in stretches.
const PANELS: usize = 4;
/// Examples whose left factors are packed at a time.
const EXAMPLES: usize = 128;
/// The most rows of a call.
pub(crate) const OUTER_ROWS: usize = 8 * ROWS;

/// `grad[o][i] (+)= sum over b of dy[b][first + o] * x[b][i]`, with x in panels of inputs.
///
/// `dy` comes as (values, values of an example, first). `grad` has as many rows as it has.
pub(crate) fn outer_rows(
    x: Panels,
    packed: &[f32],
    dy: (&[f32], usize, usize),
    onto: OutputMode,
    grad: &mut [f32],
) {
    assert!(grad.len() <= OUTER_ROWS * x.columns(), "rows of the gradient");
    Arch::new().dispatch(OuterRows { x, packed, dy, onto, grad });
}

struct OuterRows<'a> {
    x: Panels,
    packed: &'a [f32],
    dy: (&'a [f32], usize, usize),
    onto: OutputMode,
    grad: &'a mut [f32],
}

impl WithSimd for OuterRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let examples = self.dy.0.len() / self.dy.1;
        let mut left = [0.0; EXAMPLES * OUTER_ROWS];
        for first in (0..examples).step_by(EXAMPLES) {
            let examples = first..(first + EXAMPLES).min(examples);
            self.pack(examples.clone(), &mut left);
            for panel in (0..self.x.count()).step_by(PANELS) {
                let panels = panel..(panel + PANELS).min(self.x.count());
                self.block(simd, &examples, panels, &left);
            }
            self.onto = OutputMode::Add;
        }
    }
}

impl OuterRows<'_> {
    /// Packs the left factors of some examples, tile by tile: where they are, examples lie far
    /// apart, and often just so that they push each other out of the cache.
    #[inline(always)]
    fn pack(&self, examples: Range<usize>, left: &mut [f32]) {
        let (dy, outputs, first) = self.dy;
        for (row, size) in tiles(self.grad.len() / self.x.columns()) {
            let left = left[row * EXAMPLES..].chunks_exact_mut(size);
            let dy = dy[examples.start * outputs..].chunks_exact(outputs);
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
        for (row, size) in tiles(self.grad.len() / self.x.columns()) {
            let left = &left[row * EXAMPLES..];
            for panel in panels.clone() {
                let panel = self.x.get(panel);
                if panel.width == S::F32_LANES {
                    self.tile::<S, 1>(simd, (row, size), panel, examples, left);
                } else {
                    self.tile::<S, VECTORS>(simd, (row, size), panel, examples, left);
                }
            }
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const V: usize>(
        &mut self,
        simd: S,
        (row, size): (usize, usize),
        panel: Panel,
        examples: &Range<usize>,
        left: &[f32],
    ) {
        let right = &self.packed[panel.start + examples.start * panel.width..];
        let right = S::as_simd_f32s(&right[..examples.len() * panel.width]).0.as_chunks::<V>().0;
        match size {
            1 => self.rows::<S, 1, V>(simd, row, panel, left, right),
            2 => self.rows::<S, 2, V>(simd, row, panel, left, right),
            3 => self.rows::<S, 3, V>(simd, row, panel, left, right),
            4 => self.rows::<S, 4, V>(simd, row, panel, left, right),
            5 => self.rows::<S, 5, V>(simd, row, panel, left, right),
            _ => self.rows::<S, ROWS, V>(simd, row, panel, left, right),
        }
    }

    #[inline(always)]
    fn rows<S: Simd, const M: usize, const V: usize>(
        &mut self,
        simd: S,
        row: usize,
        panel: Panel,
        left: &[f32],
        right: &[[S::f32s; V]],
    ) {
        let mut sums = [[simd.splat_f32s(0.0); V]; M];
        add_packed(simd, left, right, &mut sums);
        for (m, sums) in sums.iter().enumerate() {
            let out = &mut self.grad[(row + m) * self.x.columns() + panel.column..];
            put_out(simd, sums, self.onto, &mut out[..panel.used]);
        }
    }
}
