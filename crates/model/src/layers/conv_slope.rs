//! The gradient of a convolution by its weights.
//!
//! It is a sum over all pixels of all examples: what the kernel covers, times the gradient by
//! the output. Threads share it by rows of the sums, so each sum is one thread's and its order
//! is fixed. A task takes so many rows that an image's share of both factors fits into the
//! second-level cache. The second factor is packed into panels beforehand, so that a panel is in
//! the first-level cache while all rows of a task use it.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::conv::{Conv, divided};
use super::stage::Pass;
use crate::Onto;
use crate::kernels::each;
use crate::kernels::panels::{Panel, Panels};
use crate::kernels::tile::{ROWS, VECTORS, add_outer, add_packed, copy_row, put_out, tiles};

/// Rows of the sums that a task takes, at most.
const TASK_ROWS: usize = 96;
/// Output pixels that are packed at a time.
const PIXELS: usize = 256;
/// From so many panels on it pays to pack what the kernel covers, too.
const PACKED_PANELS: usize = 3;
/// There shall be so many tasks; where the rows do not give them, groups of examples do.
const TASKS: usize = 8;

/// How a gradient by weights is cut into tasks. It depends on sizes alone.
struct Cut {
    /// Rows of the sums that a task takes.
    rows: usize,
    /// Tasks that it takes for all rows.
    blocks: usize,
    /// Groups of examples, each with its own sums.
    groups: usize,
    /// Examples of a group.
    examples: usize,
}

impl Conv {
    /// Cuts the work for so many examples.
    fn cut(&self, count: usize) -> Cut {
        let run = self.run();
        let rows = if run > TASK_ROWS { TASK_ROWS } else { TASK_ROWS / run * run };
        let blocks = self.covered().div_ceil(rows);
        let examples = count.div_ceil((TASKS / blocks).clamp(1, count.max(1)));
        Cut { rows, blocks, groups: count.div_ceil(examples.max(1)).max(1), examples }
    }

    /// An example's gradient by the output, packed.
    fn panels(&self) -> Panels {
        Panels::new(self.pixels.len(), self.to.shape.channels)
    }

    /// Scratch memory for so many examples: the packed gradient by the output, the sums, and
    /// each example's part of the bias.
    pub(super) fn slope_scratch(&self, count: usize) -> usize {
        let most = |count: usize| {
            let Cut { rows, blocks, groups, .. } = self.cut(count);
            groups * blocks * rows * self.outputs.stored_columns()
        };
        // Fewer examples may make more groups, but never more than this.
        (1..=count.min(TASKS)).map(most).max().unwrap_or(0).max(most(count))
            + count * (self.panels().len() + self.to.shape.channels)
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
        let cut = self.cut(pass.count);
        let group = cut.blocks * cut.rows * stored;
        let panels = self.panels();
        let (packed, rest) = pass.scratch.split_at_mut(pass.count * panels.len());
        pass.crew.each(packed, panels.len(), |example, packed| {
            let dy = &dy[example * self.to.len()..][..self.to.len()];
            Arch::new().dispatch(Pack { conv: self, panels, dy, packed });
        });
        let (dy_packed, (sums, rest)) = (&*packed, rest.split_at_mut(cut.groups * group));
        pass.crew.each(sums, cut.rows * stored, |task, sums| {
            let (group, block) = divided(task, cut.blocks);
            let first = block * cut.rows;
            let rows = cut.rows.min(self.covered() - first);
            let sums = &mut sums[..rows * stored];
            let from = group * cut.examples;
            let examples = from..(from + cut.examples).min(pass.count);
            Arch::new().dispatch(Sums {
                conv: self,
                x,
                panels,
                dy_packed,
                first,
                rows,
                examples,
                sums,
            });
        });
        let (weights, bias) = grad.split_at_mut(self.covered() * outputs);
        let sums = &*sums;
        let some = self.outputs.full();
        pass.crew.each(weights, some * self.covered(), |task, weights| {
            let mut onto = onto;
            for sums in sums.chunks_exact(group) {
                let sums = &sums[..self.covered() * stored];
                self.put_weights(sums, task * some, onto, weights);
                onto = Onto::Present;
            }
        });
        let parts = &mut rest[..pass.count * outputs];
        pass.crew.each(parts, outputs, |example, part| {
            each(
                #[inline(always)]
                || self.sum_pixels(&dy[example * self.to.len()..][..self.to.len()], part),
            );
        });
        if onto == Onto::Zero {
            bias.fill(0.0);
        }
        for part in parts.chunks_exact(outputs) {
            bias.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
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
    #[inline(always)]
    fn sum_pixels(&self, dy: &[f32], part: &mut [f32]) {
        part.fill(0.0);
        for &(_, at) in &self.pixels {
            let pixel = &dy[at..][..part.len()];
            part.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
        }
    }
}

/// An example's gradient by the output, to be packed.
struct Pack<'a> {
    conv: &'a Conv,
    panels: Panels,
    dy: &'a [f32],
    packed: &'a mut [f32],
}

impl WithSimd for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for panel in self.panels.iter() {
            let rows = self.packed[panel.start..].chunks_exact_mut(panel.width);
            for (row, &(_, at)) in rows.zip(&self.conv.pixels) {
                let pixel = &self.dy[at + panel.column..][..panel.used];
                if panel.width == S::F32_LANES {
                    copy_row::<S, 1>(pixel, row);
                } else {
                    copy_row::<S, VECTORS>(pixel, row);
                }
            }
        }
    }
}

/// Some rows of the sums, over some examples.
struct Sums<'a> {
    conv: &'a Conv,
    x: &'a [f32],
    panels: Panels,
    dy_packed: &'a [f32],
    /// The first of the rows.
    first: usize,
    /// How many there are.
    rows: usize,
    examples: Range<usize>,
    sums: &'a mut [f32],
}

/// A rectangle of an example's output pixels.
#[derive(Clone, Copy)]
struct Area {
    example: usize,
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
        let mut covered = [0.0; PIXELS * TASK_ROWS];
        let shape = self.conv.to.shape;
        let width = shape.width.min(PIXELS);
        let height = (PIXELS / width).min(shape.height);
        let packs = self.conv.outputs.count() >= PACKED_PANELS;
        for example in self.examples.clone() {
            for y in (0..shape.height).step_by(height) {
                for x in (0..shape.width).step_by(width) {
                    let height = height.min(shape.height - y);
                    let area = Area { example, y, x, height, width: width.min(shape.width - x) };
                    if packs {
                        self.pack_covered(area, &mut covered);
                    }
                    let covered = packs.then_some(&covered[..]);
                    self.all_panels(simd, area, covered);
                }
            }
        }
    }
}

impl Sums<'_> {
    /// Adds an area's products.
    #[inline(always)]
    fn all_panels<S: Simd>(&mut self, simd: S, area: Area, covered: Option<&[f32]>) {
        for panel in self.panels.iter() {
            if panel.width == S::F32_LANES {
                self.add::<S, 1>(simd, (area, panel), covered);
            } else {
                self.add::<S, VECTORS>(simd, (area, panel), covered);
            }
        }
    }

    /// Packs what the kernel covers over an area, tile by tile.
    #[inline(always)]
    fn pack_covered(&self, area: Area, covered: &mut [f32]) {
        self.all_tiles(
            #[inline(always)]
            |row: usize, size, at| {
                let to = &mut covered[row * PIXELS..];
                match size {
                    1 => self.pack_tile::<1>(area, at, to),
                    2 => self.pack_tile::<2>(area, at, to),
                    3 => self.pack_tile::<3>(area, at, to),
                    4 => self.pack_tile::<4>(area, at, to),
                    5 => self.pack_tile::<5>(area, at, to),
                    _ => self.pack_tile::<ROWS>(area, at, to),
                }
            },
        );
    }

    #[inline(always)]
    fn pack_tile<const M: usize>(&self, area: Area, at: usize, to: &mut [f32]) {
        let mut to = to.as_chunks_mut::<M>().0.iter_mut();
        let (x, stride) = (self.example(area), self.stride());
        for y in 0..area.height {
            let row = &x[self.covered(area, y) + at..];
            for (pixel, to) in (0..area.width).zip(&mut to) {
                if let Some(from) = row[pixel * stride..].first_chunk() {
                    *to = *from;
                }
            }
        }
    }

    /// Adds an area's products to the columns of a panel, for all rows.
    #[inline(always)]
    fn add<S: Simd, const V: usize>(
        &mut self,
        simd: S,
        (area, panel): (Area, Panel),
        covered: Option<&[f32]>,
    ) {
        // An area is whole rows or part of one, so its pixels follow each other.
        let pixel = area.y * self.conv.to.shape.width + area.x;
        let start = area.example * self.panels.len() + panel.start + pixel * panel.width;
        let packed = &self.dy_packed[start..][..area.height * area.width * panel.width];
        let packed = S::as_simd_f32s(packed).0.as_chunks::<V>().0;
        let stored = self.conv.outputs.stored_columns();
        let sums = std::mem::take(&mut self.sums);
        self.all_tiles(
            #[inline(always)]
            |row: usize, size, at| {
                let sums = &mut sums[row * stored + panel.column..];
                let left = covered.map(|covered| &covered[row * PIXELS..]);
                match size {
                    1 => self.add_tile::<S, 1, V>(simd, area, (left, at), packed, sums),
                    2 => self.add_tile::<S, 2, V>(simd, area, (left, at), packed, sums),
                    3 => self.add_tile::<S, 3, V>(simd, area, (left, at), packed, sums),
                    4 => self.add_tile::<S, 4, V>(simd, area, (left, at), packed, sums),
                    5 => self.add_tile::<S, 5, V>(simd, area, (left, at), packed, sums),
                    _ => self.add_tile::<S, ROWS, V>(simd, area, (left, at), packed, sums),
                }
            },
        );
        self.sums = sums;
    }

    /// Adds an area's products to one tile of the sums.
    #[inline(always)]
    fn add_tile<S: Simd, const M: usize, const V: usize>(
        &self,
        simd: S,
        area: Area,
        (left, at): (Option<&[f32]>, usize),
        packed: &[[S::f32s; V]],
        out: &mut [f32],
    ) {
        let mut sums = [[simd.splat_f32s(0.0); V]; M];
        if let Some(left) = left {
            add_packed(simd, left, packed, &mut sums);
        } else {
            let (x, stride) = (self.example(area), self.stride());
            for y in 0..area.height {
                let right = &packed[y * area.width..][..area.width];
                add_outer(simd, &x[self.covered(area, y) + at..], stride, right, &mut sums);
            }
        }
        let stored = self.conv.outputs.stored_columns();
        for (m, sums) in sums.iter().enumerate() {
            let out = &mut out[m * stored..][..V * S::F32_LANES];
            put_out(simd, sums, Onto::Present, out);
        }
    }

    /// Goes through the tiles of the rows: the first row counted from the task's first, how many
    /// rows, and where they begin in what the kernel covers.
    #[inline(always)]
    fn all_tiles(&self, mut work: impl FnMut(usize, usize, usize)) {
        let run = self.conv.run();
        let (mut row, last) = (self.first, self.first + self.rows);
        while row < last {
            // A tile must not reach over the end of a row of the kernel.
            let (kernel_row, within) = divided(row, run);
            let len = (run - within).min(last - row);
            for (tile, size) in tiles(len) {
                let at = kernel_row * self.conv.from.row() + within + tile;
                work(row - self.first + tile, size, at);
            }
            row += len;
        }
    }

    /// An area's input.
    #[inline(always)]
    fn example(&self, area: Area) -> &[f32] {
        let len = self.conv.from.len();
        &self.x[area.example * len..][..len]
    }

    /// Where what the kernel covers begins, for the first pixel of a row of an area.
    #[inline(always)]
    fn covered(&self, area: Area, y: usize) -> usize {
        self.conv.pixels[(area.y + y) * self.conv.to.shape.width + area.x].0
    }

    /// From there to the same of the next pixel.
    #[inline(always)]
    fn stride(&self) -> usize {
        self.conv.stride[1] * self.conv.from.shape.channels
    }
}
