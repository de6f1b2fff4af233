//! Register tiles: the inner loops of convolutions and dense layers.
//!
//! A tile is a few rows by a few vectors of a product, whose sums stay in registers while the
//! common index runs. Six rows of two vectors give twelve sums: enough to keep two multiply-add
//! units busy, and few enough to leave registers for the operands. A processor with 32 registers
//! takes rows of four. Where a row is a single vector, twelve rows do the same. The left matrix is
//! read in place, one value at a time, so that an image need not be copied for each position of a
//! kernel; the right one is packed into panels (`panels.rs`).

use pulp::{Simd, WithSimd};

use crate::output_mode::OutputMode;
use crate::panels::Panel;
use crate::vectors::vectors;

/// The most rows of a tile.
pub const ROWS: usize = 6;
/// The most rows of a tile whose rows are single vectors.
pub const TALL_ROWS: usize = 2 * ROWS;
/// The most columns of a tile on any processor.
pub const WIDEST: usize = 64;

/// Work on one tile, compiled for each size.
pub trait TileWork<S: Simd> {
    /// Computes a tile of `M` rows by `V` vectors.
    fn run<const M: usize, const V: usize>(self, simd: S);
}

/// Runs the work on a tile of `rows` rows, at least 1 and at most [`ROWS`], by `width` columns:
/// whole vectors, at most [`vectors`].
#[inline(always)]
pub fn run_tile<S: Simd>(simd: S, rows: usize, width: usize, work: impl TileWork<S>) {
    let in_row = width / S::F32_LANES;
    // A constant, so that the compiler generates no code for sizes that the processor never has.
    if const { vectors::<S>() > 2 } && in_row > 2 {
        return if in_row == 3 {
            run_rows::<S, 3>(simd, rows, work)
        } else {
            run_rows::<S, 4>(simd, rows, work)
        };
    }
    if in_row == 1 {
        run_rows::<S, 1>(simd, rows, work);
    } else {
        run_rows::<S, 2>(simd, rows, work);
    }
}

#[inline(always)]
fn run_rows<S: Simd, const V: usize>(simd: S, rows: usize, work: impl TileWork<S>) {
    match rows {
        1 => work.run::<1, V>(simd),
        2 => work.run::<2, V>(simd),
        3 => work.run::<3, V>(simd),
        4 => work.run::<4, V>(simd),
        5 => work.run::<5, V>(simd),
        _ => work.run::<ROWS, V>(simd),
    }
}

/// The most rows of a tile of `width` columns.
#[inline(always)]
pub fn most_rows<S: Simd>(width: usize) -> usize {
    if width == S::F32_LANES { TALL_ROWS } else { ROWS }
}

/// As [`run_tile`], of at most [`most_rows`] rows.
#[inline(always)]
pub fn run_tall_tile<S: Simd>(simd: S, rows: usize, width: usize, work: impl TileWork<S>) {
    match rows {
        ..=ROWS => run_tile(simd, rows, width, work),
        7 => work.run::<7, 1>(simd),
        8 => work.run::<8, 1>(simd),
        9 => work.run::<9, 1>(simd),
        10 => work.run::<10, 1>(simd),
        11 => work.run::<11, 1>(simd),
        _ => work.run::<TALL_ROWS, 1>(simd),
    }
}

/// The rows of a tile.
#[derive(Clone, Copy, Debug)]
pub struct TileRows {
    /// The first row.
    pub first: usize,
    /// The number of rows.
    pub count: usize,
}

/// Cuts `count` rows into tiles of at most [`ROWS`], as evenly as possible: small tiles are slow.
#[inline(always)]
pub fn tiles(count: usize) -> impl Iterator<Item = TileRows> {
    tiles_of(ROWS, count)
}

/// As [`tiles`], of at most `most` rows.
#[inline(always)]
pub fn tiles_of(most: usize, count: usize) -> impl Iterator<Item = TileRows> {
    let number = count.div_ceil(most);
    let (least, larger) = (count / number.max(1), count % number.max(1));
    (0..number).map(move |tile| {
        let first = tile * least + tile.min(larger);
        TileRows { first, count: least + usize::from(tile < larger) }
    })
}

/// A contiguous part of a row of the left matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRun {
    /// The offset from the beginning of the row.
    pub start: usize,
    /// The number of values.
    pub len: usize,
}

/// Where a row begins in the left matrix, and in the product.
pub type RowStart = (usize, usize);

/// Finds the places of rows, for a whole tile in one call; a closure from row to place does.
pub trait FindRows {
    /// Writes the places of the rows of a tile.
    fn find(&self, tile: TileRows, places: &mut [RowStart; TALL_ROWS]);
}

impl<F: Fn(usize) -> RowStart> FindRows for F {
    fn find(&self, tile: TileRows, places: &mut [RowStart; TALL_ROWS]) {
        for (place, row) in places.iter_mut().zip(tile.first..tile.first + tile.count) {
            *place = self(row);
        }
    }
}

/// Rows of a left matrix times one panel of a right one.
///
/// For each row r, with `(from, to) = place(r)`:
/// `out[to + j] (+)= sum over k of left[from + k] * panel[k][j]`, where k goes through the runs.
pub struct RowsTimesPanel<'a> {
    /// The number of rows.
    pub count: usize,
    /// Where each row begins in `left` and in `out`. Rows of `out` may overlap.
    pub place: &'a dyn FindRows,
    /// The left matrix.
    pub left: &'a [f32],
    /// The parts of a row of the left matrix, in the order of the panel's rows.
    pub runs: &'a [MemoryRun],
    /// As many rows as the runs are long, of as many values as the panel is wide.
    pub right: &'a [f32],
    /// The panel's place in its matrix.
    pub panel: Panel,
    /// Columns of `out` that the product has.
    pub used: usize,
    /// Whether zeros may be written, or added, beyond those columns: whole vectors are faster.
    pub spills: bool,
    /// The initial sum of each column; zeros if empty.
    pub start: &'a [f32],
    /// Whether the product replaces what `out` holds or is added to it.
    pub mode: OutputMode,
    /// The product.
    pub out: &'a mut [f32],
}

impl RowsTimesPanel<'_> {
    /// Computes the product.
    pub fn run(self) {
        self.panel.vectors().dispatch(self);
    }
}

impl WithSimd for RowsTimesPanel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let mut start = [0.0; WIDEST];
        let known = self.used.min(self.start.len());
        start[..known].copy_from_slice(&self.start[..known]);
        let mut places = [(0, 0); TALL_ROWS];
        let width = self.panel.width;
        for rows in tiles_of(most_rows::<S>(width), self.count) {
            self.place.find(rows, &mut places);
            let tile = PanelTile { product: &mut self, start: &start, places: &places };
            run_tall_tile(simd, rows.count, width, tile);
        }
    }
}

/// Some rows of the product.
struct PanelTile<'a, 'b> {
    product: &'a mut RowsTimesPanel<'b>,
    start: &'a [f32; WIDEST],
    places: &'a [RowStart; TALL_ROWS],
}

impl<S: Simd> TileWork<S> for PanelTile<'_, '_> {
    #[inline(always)]
    fn run<const M: usize, const V: usize>(self, simd: S) {
        let Self { product, start, places } = self;
        let places: [RowStart; M] = std::array::from_fn(|m| places[m]);
        let mut panel = S::as_simd_f32s(product.right).0.as_chunks::<V>().0;
        let mut sums = [[simd.splat_f32s(0.0); V]; M];
        for sums in &mut sums {
            sums.copy_from_slice(S::as_simd_f32s(&start[..V * S::F32_LANES]).0);
        }
        for run in product.runs {
            let (here, rest) = panel.split_at(run.len);
            panel = rest;
            let mut rows = [&product.left[..0]; M];
            for (row, place) in rows.iter_mut().zip(&places) {
                *row = &product.left[place.0 + run.start..][..run.len];
            }
            for k in 0..here.len() {
                let right = here[k];
                for m in 0..M {
                    let left = simd.splat_f32s(rows[m][k]);
                    for v in 0..V {
                        sums[m][v] = simd.mul_add_e_f32s(left, right[v], sums[m][v]);
                    }
                }
            }
        }
        for m in 0..M {
            let out = &mut product.out[places[m].1..];
            let has_room = product.spills && out.len() >= V * S::F32_LANES;
            let len = if has_room { V * S::F32_LANES } else { product.used };
            write_sums(simd, &sums[m], product.mode, &mut out[..len]);
        }
    }
}

/// Writes a row of sums, as many as `out` has room for.
#[inline(always)]
pub fn write_sums<S: Simd, const V: usize>(
    simd: S,
    sums: &[S::f32s; V],
    mode: OutputMode,
    out: &mut [f32],
) {
    if out.len() == V * S::F32_LANES {
        let out = S::as_mut_simd_f32s(out).0;
        for v in 0..V {
            out[v] = match mode {
                OutputMode::Overwrite => sums[v],
                OutputMode::Add => simd.add_f32s(out[v], sums[v]),
            };
        }
    } else {
        for (sum, out) in sums.iter().zip(out.chunks_mut(S::F32_LANES)) {
            let sum = match mode {
                OutputMode::Overwrite => *sum,
                OutputMode::Add => simd.add_f32s(simd.partial_load_f32s(out), *sum),
            };
            simd.partial_store_f32s(out, sum);
        }
    }
}

/// `sums[m] += left[k * stride + m] * right[k]`, for all rows k of `right`.
#[inline(always)]
pub fn add_outer<S: Simd, const M: usize, const V: usize>(
    simd: S,
    left: &[f32],
    stride: usize,
    right: &[[S::f32s; V]],
    sums: &mut [[S::f32s; V]; M],
) {
    for (k, right) in right.iter().enumerate() {
        // An index that could panic would have the compiler spill all sums to memory.
        let Some(left) = left.get(k * stride..) else { break };
        let Some(left) = left.first_chunk::<M>() else { break };
        for m in 0..M {
            let left = simd.splat_f32s(left[m]);
            for v in 0..V {
                sums[m][v] = simd.mul_add_e_f32s(left, right[v], sums[m][v]);
            }
        }
    }
}

/// As [`add_outer`] with a stride of `M`, without a bounds check in the loop.
#[inline(always)]
pub fn add_packed<S: Simd, const M: usize, const V: usize>(
    simd: S,
    left: &[f32],
    right: &[[S::f32s; V]],
    sums: &mut [[S::f32s; V]; M],
) {
    for (left, right) in left.as_chunks::<M>().0.iter().zip(right) {
        for m in 0..M {
            let left = simd.splat_f32s(left[m]);
            for v in 0..V {
                sums[m][v] = simd.mul_add_e_f32s(left, right[v], sums[m][v]);
            }
        }
    }
}
