//! Register tiles: the inner loops of convolutions and dense layers.
//!
//! A tile is a few rows by two vectors of a product, whose sums stay in registers while the
//! common index runs. Six rows give twelve sums: enough to keep two multiply-add units busy, and
//! few enough to leave registers for the operands. The left matrix is read in place, one value at
//! a time, so that an image need not be copied for each position of a kernel; the right one is
//! packed into panels (`panels.rs`).

use pulp::{Arch, Simd, WithSimd};

use super::output_mode::OutputMode;

/// The most rows of a tile.
pub(crate) const ROWS: usize = 6;
/// The most vectors of a tile's row.
pub(crate) const VECTORS: usize = 2;
/// The most columns of a tile on any processor.
pub(crate) const WIDEST: usize = 32;

/// Numbers in one of the processor's vectors.
pub(crate) fn lanes() -> usize {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F32_LANES
        }
    }
    Arch::new().dispatch(Lanes)
}

/// The rows of a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileRows {
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// Cuts `count` rows into tiles of at most [`ROWS`], as evenly as possible: small tiles are slow.
#[inline(always)]
pub(crate) fn tiles(count: usize) -> impl Iterator<Item = TileRows> {
    let number = count.div_ceil(ROWS);
    let (least, larger) = (count / number.max(1), count % number.max(1));
    (0..number).map(move |tile| {
        let first = tile * least + tile.min(larger);
        TileRows { first, count: least + usize::from(tile < larger) }
    })
}

/// A contiguous part of a row of the left matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryRun {
    /// The offset from the beginning of the row.
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// Rows of a left matrix times one panel of a right one.
///
/// For each row r, with `(from, to) = place(r)`:
/// `out[to + j] (+)= sum over k of left[from + k] * panel[k][j]`, where k goes through the runs.
pub(crate) struct RowsTimesPanel<'a, F> {
    pub(crate) count: usize,
    /// Where each row begins in `left` and in `out`. Rows of `out` may overlap.
    pub(crate) place: F,
    pub(crate) left: &'a [f32],
    pub(crate) runs: &'a [MemoryRun],
    /// As many rows as the runs are long, of `width` values each.
    pub(crate) panel: &'a [f32],
    /// Stored columns of the panel: one or two vectors.
    pub(crate) width: usize,
    /// Columns that are written to `out`.
    pub(crate) used: usize,
    /// The initial sum of each column; zeros if empty.
    pub(crate) start: &'a [f32],
    pub(crate) mode: OutputMode,
    pub(crate) out: &'a mut [f32],
}

impl<F: Fn(usize) -> (usize, usize)> RowsTimesPanel<'_, F> {
    pub(crate) fn run(self) {
        Arch::new().dispatch(self);
    }
}

impl<F: Fn(usize) -> (usize, usize)> WithSimd for RowsTimesPanel<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.width == S::F32_LANES {
            self.all_rows::<S, 1>(simd);
        } else {
            assert_eq!(self.width, VECTORS * S::F32_LANES, "a panel's width");
            self.all_rows::<S, VECTORS>(simd);
        }
    }
}

impl<F: Fn(usize) -> (usize, usize)> RowsTimesPanel<'_, F> {
    #[inline(always)]
    fn all_rows<S: Simd, const V: usize>(mut self, simd: S) {
        let mut start = [0.0; WIDEST];
        let known = self.used.min(self.start.len());
        start[..known].copy_from_slice(&self.start[..known]);
        let start = S::as_simd_f32s(&start[..V * S::F32_LANES]).0;
        let start: [S::f32s; V] = std::array::from_fn(|v| start[v]);
        for TileRows { first, count } in tiles(self.count) {
            match count {
                1 => self.some_rows::<S, 1, V>(simd, start, first),
                2 => self.some_rows::<S, 2, V>(simd, start, first),
                3 => self.some_rows::<S, 3, V>(simd, start, first),
                4 => self.some_rows::<S, 4, V>(simd, start, first),
                5 => self.some_rows::<S, 5, V>(simd, start, first),
                _ => self.some_rows::<S, ROWS, V>(simd, start, first),
            }
        }
    }

    /// One tile: `M` rows from row `first`.
    #[inline(always)]
    fn some_rows<S: Simd, const M: usize, const V: usize>(
        &mut self,
        simd: S,
        start: [S::f32s; V],
        first: usize,
    ) {
        let places: [(usize, usize); M] = std::array::from_fn(|m| (self.place)(first + m));
        let mut panel = S::as_simd_f32s(self.panel).0.as_chunks::<V>().0;
        let mut sums = [start; M];
        for run in self.runs {
            let (here, rest) = panel.split_at(run.len);
            panel = rest;
            let rows: [&[f32]; M] =
                std::array::from_fn(|m| &self.left[places[m].0 + run.start..][..run.len]);
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
            let out = &mut self.out[places[m].1..][..self.used];
            write_sums(simd, &sums[m], self.mode, out);
        }
    }
}

/// Writes a row of sums, as many as `out` has room for.
#[inline(always)]
pub(crate) fn write_sums<S: Simd, const V: usize>(
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
pub(crate) fn add_outer<S: Simd, const M: usize, const V: usize>(
    simd: S,
    left: &[f32],
    stride: usize,
    right: &[[S::f32s; V]],
    sums: &mut [[S::f32s; V]; M],
) {
    for (k, right) in right.iter().enumerate() {
        let left = &left[k * stride..][..M];
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
pub(crate) fn add_packed<S: Simd, const M: usize, const V: usize>(
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
