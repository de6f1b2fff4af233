//! The sums in the gradient of a convolution by its weights: the part of one task.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::conv::{Conv, divided};
use crate::kernels::OutputMode;
use crate::kernels::panels::{Panel, Panels};
use crate::kernels::tile::{
    ROWS, TileRows, TileWork, add_outer, add_packed, most_rows, run_tall_tile, tiles_of, write_sums,
};

/// The most rows of a task.
pub(super) const TASK_ROWS: usize = 96;
/// Output pixels that are processed together.
const PIXELS: usize = 256;
/// The least number of panels for which packing the covered part pays.
const PACKED_PANELS: usize = 3;

/// Some rows of the sums, over some examples.
pub(super) struct ConvSums<'a> {
    pub(super) conv: &'a Conv,
    pub(super) x: &'a [f32],
    pub(super) panels: Panels,
    pub(super) dy_packed: &'a [f32],
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) examples: Range<usize>,
    pub(super) sums: &'a mut [f32],
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

impl WithSimd for ConvSums<'_> {
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

impl ConvSums<'_> {
    /// Adds an area's products.
    #[inline(always)]
    fn all_panels<S: Simd>(&mut self, simd: S, area: Area, covered: Option<&[f32]>) {
        for panel in self.panels.iter() {
            self.add(simd, area, panel, covered);
        }
    }

    /// Packs the part that the kernel covers over an area, tile by tile.
    #[inline(always)]
    fn pack_covered(&self, area: Area, covered: &mut [f32]) {
        self.all_tiles(
            ROWS,
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
    fn add<S: Simd>(&mut self, simd: S, area: Area, panel: Panel, covered: Option<&[f32]>) {
        // An area is whole rows or part of one, so its pixels are contiguous.
        let pixel = area.y * self.conv.to.shape.width + area.x;
        let start = area.example * self.panels.len() + panel.start + pixel * panel.width;
        let packed = &self.dy_packed[start..][..area.height * area.width * panel.width];
        let stored = self.conv.outputs.stored_columns();
        let sums = std::mem::take(&mut self.sums);
        self.all_tiles(
            if covered.is_none() { most_rows::<S>(panel.width) } else { ROWS },
            #[inline(always)]
            |row: usize, size, at| {
                let sums = &mut sums[row * stored + panel.column..];
                let left = covered.map(|covered| &covered[row * PIXELS..]);
                let tile = SumTile { task: self, area, left, at, right: packed, out: sums };
                run_tall_tile(simd, size, panel.width, tile);
            },
        );
        self.sums = sums;
    }

    /// Calls `work` for every tile with its first row, counted from the task's first, the number
    /// of rows, at most `most`, and their offset in the part that the kernel covers.
    #[inline(always)]
    fn all_tiles(&self, most: usize, mut work: impl FnMut(usize, usize, usize)) {
        let run = self.conv.run();
        let (mut row, last) = (self.first, self.first + self.rows);
        while row < last {
            // A tile must not reach over the end of a row of the kernel.
            let (kernel_row, within) = divided(row, run);
            let len = (run - within).min(last - row);
            for TileRows { first: tile, count: size } in tiles_of(most, len) {
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

    /// The offset of the part that the kernel covers at the first pixel of a row of an area.
    #[inline(always)]
    fn covered(&self, area: Area, y: usize) -> usize {
        self.conv.pixels[(area.y + y) * self.conv.to.shape.width + area.x].covered
    }

    /// The distance between the covered parts of two neighbouring pixels.
    #[inline(always)]
    fn stride(&self) -> usize {
        self.conv.stride[1] * self.conv.from.shape.channels
    }
}

/// One tile of the sums, to which an area's products are added.
struct SumTile<'a, 'b> {
    task: &'a ConvSums<'b>,
    area: Area,
    /// The packed part that the kernel covers, if it is packed.
    left: Option<&'a [f32]>,
    /// The tile's offset in that part.
    at: usize,
    right: &'a [f32],
    out: &'a mut [f32],
}

impl<S: Simd> TileWork<S> for SumTile<'_, '_> {
    #[inline(always)]
    fn run<const M: usize, const V: usize>(self, simd: S) {
        let Self { task, area, left, at, right, out } = self;
        let right = S::as_simd_f32s(right).0.as_chunks::<V>().0;
        let mut sums = [[simd.splat_f32s(0.0); V]; M];
        if let Some(left) = left {
            add_packed(simd, left, right, &mut sums);
        } else {
            let (x, stride) = (task.example(area), task.stride());
            for y in 0..area.height {
                let right = &right[y * area.width..][..area.width];
                add_outer(simd, &x[task.covered(area, y) + at..], stride, right, &mut sums);
            }
        }
        let stored = task.conv.outputs.stored_columns();
        for (m, sums) in sums.iter().enumerate() {
            let out = &mut out[m * stored..][..V * S::F32_LANES];
            write_sums(simd, sums, OutputMode::Add, out);
        }
    }
}
