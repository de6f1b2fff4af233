//! The gradient of a convolution by its weights.
//!
//! It is a sum over all pixels of all examples: what the kernel covers, times the gradient by
//! the output. Threads share it by rows of the sums, so each sum is one thread's and its order
//! is fixed. A task takes so many rows that an image's share of both factors fits into the
//! second-level cache, and packs a panel of the second one into the first-level cache, where all
//! its rows use it.

use pulp::{Arch, Simd, WithSimd};

use super::conv::{Conv, divided};
use super::stage::Pass;
use crate::Onto;
use crate::kernels::panels::Panel;
use crate::kernels::tile::{ROWS, VECTORS, WIDEST, add_outer, tiles};

/// Rows of the sums that a task takes, at most.
const TASK_ROWS: usize = 96;
/// Output pixels whose gradient is packed at a time.
const PIXELS: usize = 256;

impl Conv {
    /// Scratch memory for so many examples: the sums, and each example's part of the bias.
    pub(super) fn slope_scratch(&self, count: usize) -> usize {
        self.covered() * self.outputs.stored_columns() + count * self.to.shape.channels
    }

    /// Puts the gradient by weights and bias onto `grad`.
    pub(super) fn put_slope(
        &self,
        pass: &mut Pass<'_>,
        x: &[f32],
        dy: &[f32],
        onto: Onto,
        grad: &mut [f32],
    ) {
        let outputs = self.to.shape.channels;
        let stored = self.outputs.stored_columns();
        let (sums, rest) = pass.scratch.split_at_mut(self.covered() * stored);
        let rows = self.task_rows();
        pass.crew.each(sums, rows * stored, |task, sums| {
            let sums = Sums { conv: self, count: pass.count, x, dy, first: task * rows, sums };
            Arch::new().dispatch(sums);
        });
        let (weights, bias) = grad.split_at_mut(self.covered() * outputs);
        let sums = &*sums;
        let some = self.outputs.full();
        pass.crew.each(weights, some * self.covered(), |task, weights| {
            self.put_weights(sums, task * some, onto, weights);
        });
        let parts = &mut rest[..pass.count * outputs];
        pass.crew.each(parts, outputs, |example, part| {
            self.sum_pixels(&dy[example * self.to.len()..][..self.to.len()], part);
        });
        if onto == Onto::Zero {
            bias.fill(0.0);
        }
        for part in parts.chunks_exact(outputs) {
            bias.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }

    /// How many rows of the sums a task takes.
    fn task_rows(&self) -> usize {
        let run = self.run();
        if run > TASK_ROWS { TASK_ROWS } else { run * (TASK_ROWS / run).min(2) }
    }

    /// The weights of some outputs, from the first on, out of the sums' order.
    fn put_weights(&self, sums: &[f32], first: usize, onto: Onto, weights: &mut [f32]) {
        let inputs = self.from.shape.channels;
        let taps = self.kernel[0] * self.kernel[1];
        let stored = self.outputs.stored_columns();
        for (row, sums) in sums.chunks_exact(stored).enumerate() {
            let (tap, input) = divided(row, inputs);
            let weights = weights[input * taps + tap..].iter_mut().step_by(inputs * taps);
            for (weight, sum) in weights.zip(&sums[first..]) {
                *weight = if onto == Onto::Zero { *sum } else { *weight + sum };
            }
        }
    }

    /// The sum over an example's pixels, for each output.
    fn sum_pixels(&self, dy: &[f32], part: &mut [f32]) {
        part.fill(0.0);
        for &(_, at) in &self.pixels {
            let pixel = &dy[at..][..part.len()];
            part.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
        }
    }
}

/// Some rows of the sums.
struct Sums<'a> {
    conv: &'a Conv,
    count: usize,
    x: &'a [f32],
    dy: &'a [f32],
    /// The first of the rows.
    first: usize,
    sums: &'a mut [f32],
}

/// A rectangle of output pixels.
#[derive(Clone, Copy)]
struct Area {
    y: usize,
    x: usize,
    height: usize,
    width: usize,
}

impl WithSimd for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        self.sums.fill(0.0);
        let mut packed = [0.0; PIXELS * WIDEST];
        let shape = self.conv.to.shape;
        let width = shape.width.min(PIXELS);
        let height = (PIXELS / width).min(shape.height);
        for example in 0..self.count {
            for y in (0..shape.height).step_by(height) {
                for x in (0..shape.width).step_by(width) {
                    let height = height.min(shape.height - y);
                    let area = Area { y, x, height, width: width.min(shape.width - x) };
                    for panel in self.conv.outputs.iter() {
                        self.pack(example, area, panel, &mut packed);
                        if panel.width == S::F32_LANES {
                            self.add::<S, 1>(simd, example, area, panel, &packed);
                        } else {
                            self.add::<S, VECTORS>(simd, example, area, panel, &packed);
                        }
                    }
                }
            }
        }
    }
}

impl Sums<'_> {
    /// Packs an area's gradient by the outputs of a panel.
    #[inline(always)]
    fn pack(&self, example: usize, area: Area, panel: Panel, packed: &mut [f32]) {
        let to = self.conv.to;
        let dy = &self.dy[example * to.len()..][..to.len()];
        let mut rows = packed.chunks_exact_mut(panel.width);
        for y in area.y..area.y + area.height {
            let pixels = dy[to.at(y, area.x)..].chunks(to.shape.channels);
            for (pixel, row) in pixels.take(area.width).zip(&mut rows) {
                let (row, rest) = row.split_at_mut(panel.used);
                row.copy_from_slice(&pixel[panel.column..][..panel.used]);
                rest.fill(0.0);
            }
        }
    }

    /// Adds an area's products to the columns of a panel, for all rows.
    #[inline(always)]
    fn add<S: Simd, const V: usize>(
        &mut self,
        simd: S,
        example: usize,
        area: Area,
        panel: Panel,
        packed: &[f32],
    ) {
        let packed = S::as_simd_f32s(packed).0.as_chunks::<V>().0;
        let run = self.conv.run();
        let rows = self.sums.len() / self.conv.outputs.stored_columns();
        let mut row = 0;
        while row < rows {
            // A tile must not reach over the end of a row of the kernel.
            let (kernel_row, within) = divided(self.first + row, run);
            let len = (run - within).min(rows - row);
            for (tile, size) in tiles(len) {
                let at = kernel_row * self.conv.from.row() + within + tile;
                let tile = Tile { example, area, panel, row: row + tile, at };
                match size {
                    1 => self.add_tile::<S, 1, V>(simd, tile, packed),
                    2 => self.add_tile::<S, 2, V>(simd, tile, packed),
                    3 => self.add_tile::<S, 3, V>(simd, tile, packed),
                    4 => self.add_tile::<S, 4, V>(simd, tile, packed),
                    5 => self.add_tile::<S, 5, V>(simd, tile, packed),
                    _ => self.add_tile::<S, ROWS, V>(simd, tile, packed),
                }
            }
            row += len;
        }
    }

    /// Adds an area's products to one tile of the sums.
    #[inline(always)]
    fn add_tile<S: Simd, const M: usize, const V: usize>(
        &mut self,
        simd: S,
        tile: Tile,
        packed: &[[S::f32s; V]],
    ) {
        let conv = self.conv;
        let (shape, area) = (conv.to.shape, tile.area);
        let x = &self.x[tile.example * conv.from.len()..][..conv.from.len()];
        let stride = conv.stride[1] * conv.from.shape.channels;
        let mut sums = [[simd.splat_f32s(0.0); V]; M];
        for y in 0..area.height {
            let (covered, _) = conv.pixels[(area.y + y) * shape.width + area.x];
            let right = &packed[y * area.width..][..area.width];
            add_outer(simd, &x[covered + tile.at..], stride, right, &mut sums);
        }
        let stored = conv.outputs.stored_columns();
        for (m, sums) in sums.iter().enumerate() {
            let out = &mut self.sums[(tile.row + m) * stored + tile.panel.column..];
            let out = S::as_mut_simd_f32s(&mut out[..V * S::F32_LANES]).0;
            for v in 0..V {
                out[v] = simd.add_f32s(out[v], sums[v]);
            }
        }
    }
}

/// Which tile of the sums, and over what.
#[derive(Clone, Copy)]
struct Tile {
    example: usize,
    area: Area,
    panel: Panel,
    /// Its first row, counted from the task's first.
    row: usize,
    /// Where its rows begin within what the kernel covers.
    at: usize,
}
