//! Factorization machines (Rendle, 2010): every key has a weight and one vector.
//!
//! The score is the sum of the weights and, for every pair of keys, the product of their vectors,
//! all times the values. With `s` the sum of the vectors, the pairs add
//! `(s * s - sum of the squares) / 2`, which takes one pass over the keys.

use super::dimension_blocks::{DimensionWork, block_sum, for_dimensions};
use super::row_entries::{RowEntries, part_mut};
use paceline_kernels::vectors::narrow;

/// The entries of a factorization machine: a linear weight and a vector of `rank` numbers.
///
/// ```
/// use paceline_factor::{FmShape, RowEntries};
///
/// let fm = FmShape { rank: 2 };
/// // Two entries: weight, then vector.
/// let params = [0.5, 1.0, 2.0, -0.25, 3.0, 4.0];
/// let row = RowEntries { params: &params, places: &[0, 1], values: &[] };
/// let mut sums = [0.0; 2];
/// let score = fm.score(row, &mut sums);
/// assert_eq!(score, 0.5 - 0.25 + (1.0 * 3.0 + 2.0 * 4.0));
///
/// let mut grad = [0.0; 6];
/// fm.add_gradient(row, &sums, 1.0, &mut grad);
/// assert_eq!(grad, [1.0, 3.0, 4.0, 1.0, 1.0, 2.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FmShape {
    /// The length of a vector.
    pub rank: usize,
}

impl FmShape {
    /// The numbers of an entry.
    #[inline]
    pub fn width(self) -> usize {
        1 + self.rank
    }

    /// The score of a row, without a bias. `sums` receives the sum of the vectors times their
    /// values, which [`FmShape::add_gradient`] needs.
    ///
    /// # Panics
    /// If a place is not that of an entry, or `sums` is not of the rank's length.
    #[inline]
    pub fn score(self, row: RowEntries<'_>, sums: &mut [f32]) -> f32 {
        narrow().dispatch(
            #[inline(always)]
            || self.score_here(row, sums),
        )
    }

    /// Adds the gradient of `delta` times the score to `grad`, which is laid out as the entries.
    ///
    /// # Panics
    /// If a place is not that of an entry in both slices, or `sums` is not of the rank's length.
    #[inline]
    pub fn add_gradient(self, row: RowEntries<'_>, sums: &[f32], delta: f32, grad: &mut [f32]) {
        narrow().dispatch(
            #[inline(always)]
            || self.add_gradient_here(row, sums, delta, grad),
        );
    }

    /// [`FmShape::score`] with the vectors of the code that it is inlined into: a loop over rows
    /// inside [`each`](paceline_model::kernels::each) chooses them once.
    #[inline(always)]
    pub fn score_here(self, row: RowEntries<'_>, sums: &mut [f32]) -> f32 {
        assert_eq!(sums.len(), self.rank, "sums of the vectors");
        let pairs = for_dimensions(self.rank, FmForward { row, width: self.width(), sums });
        row.linear(self.width()) + 0.5 * pairs
    }

    /// [`FmShape::add_gradient`] with the vectors of the code that it is inlined into.
    #[inline(always)]
    pub fn add_gradient_here(
        self,
        row: RowEntries<'_>,
        sums: &[f32],
        delta: f32,
        grad: &mut [f32],
    ) {
        assert_eq!(sums.len(), self.rank, "sums of the vectors");
        row.add_linear(self.width(), delta, grad);
        for_dimensions(self.rank, FmBackward { row, width: self.width(), sums, delta, grad });
    }
}

struct FmForward<'a, 'b> {
    row: RowEntries<'a>,
    width: usize,
    sums: &'b mut [f32],
}

impl DimensionWork for FmForward<'_, '_> {
    #[inline(always)]
    fn run<const B: usize>(&mut self, from: usize) -> f32 {
        let (mut sums, mut squares) = ([0.0f32; B], [0.0f32; B]);
        for (at, &place) in self.row.places.iter().enumerate() {
            let vector: &[f32; B] = self.row.at(place as usize * self.width + 1 + from);
            let value = self.row.value(at);
            for d in 0..B {
                let product = vector[d] * value;
                sums[d] += product;
                squares[d] += product * product;
            }
        }
        *part_mut(self.sums, from) = sums;
        block_sum(std::array::from_fn::<_, B, _>(|d| sums[d] * sums[d] - squares[d]))
    }
}

struct FmBackward<'a, 'b> {
    row: RowEntries<'a>,
    width: usize,
    sums: &'b [f32],
    delta: f32,
    grad: &'b mut [f32],
}

impl DimensionWork for FmBackward<'_, '_> {
    #[inline(always)]
    fn run<const B: usize>(&mut self, from: usize) -> f32 {
        let sums: [f32; B] = std::array::from_fn(|d| self.sums[from + d]);
        for (at, &place) in self.row.places.iter().enumerate() {
            let vector: &[f32; B] = self.row.at(place as usize * self.width + 1 + from);
            let value = self.row.value(at);
            let slope = self.delta * value;
            let grad: &mut [f32; B] = part_mut(self.grad, place as usize * self.width + 1 + from);
            for d in 0..B {
                grad[d] += slope * (sums[d] - vector[d] * value);
            }
        }
        0.0
    }
}
