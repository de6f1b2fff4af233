//! Field-aware factorization machines (Juan et al., 2016): every key has a vector for each field.
//!
//! A pair of keys adds the product of two vectors: that of the first key for the field of the
//! second, and that of the second key for the field of the first. There is no shortcut as for
//! factorization machines, so a row of n keys takes n (n - 1) / 2 products.

use super::dimension_blocks::{DimensionWork, block_sum, for_dimensions};
use super::row_entries::{RowEntries, part_mut};
use paceline_kernels::vectors::narrow;

/// The entries of a field-aware factorization machine: a linear weight, then a vector of `rank`
/// numbers for each field.
///
/// ```
/// use paceline_factor::{FfmShape, RowEntries};
///
/// let ffm = FfmShape { fields: 2, rank: 1 };
/// // Two entries: weight, vector for field 0, vector for field 1.
/// let params = [0.5, 1.0, 2.0, -0.25, 3.0, 4.0];
/// let row = RowEntries { params: &params, places: &[0, 1], values: &[] };
/// // The first key's vector for field 1 times the second key's vector for field 0.
/// assert_eq!(ffm.score(row, &[0, 1]), 0.5 - 0.25 + 2.0 * 3.0);
///
/// let mut grad = [0.0; 6];
/// ffm.add_gradient(row, &[0, 1], 1.0, &mut grad);
/// assert_eq!(grad, [1.0, 0.0, 3.0, 1.0, 2.0, 0.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FfmShape {
    /// The number of fields; a row's fields are below it.
    pub fields: usize,
    /// The length of a vector.
    pub rank: usize,
}

impl FfmShape {
    /// The numbers of an entry.
    #[inline]
    pub fn width(self) -> usize {
        1 + self.fields * self.rank
    }

    /// The score of a row, without a bias. `fields` has the field of each key.
    ///
    /// # Panics
    /// If a place is not that of an entry, or `fields` is not as long as the row.
    #[inline]
    pub fn score(self, row: RowEntries<'_>, fields: &[u16]) -> f32 {
        narrow().dispatch(
            #[inline(always)]
            || self.score_here(row, fields),
        )
    }

    /// Adds the gradient of `delta` times the score to `grad`, which is laid out as the entries.
    ///
    /// # Panics
    /// If a place is not that of an entry in both slices, or `fields` is not as long as the row.
    #[inline]
    pub fn add_gradient(self, row: RowEntries<'_>, fields: &[u16], delta: f32, grad: &mut [f32]) {
        narrow().dispatch(
            #[inline(always)]
            || self.add_gradient_here(row, fields, delta, grad),
        );
    }

    /// [`FfmShape::score`] with the vectors of the code that it is inlined into: a loop over rows
    /// inside [`each`](paceline_model::kernels::each) chooses them once.
    #[inline(always)]
    pub fn score_here(self, row: RowEntries<'_>, fields: &[u16]) -> f32 {
        let pairs = for_dimensions(self.rank, FfmForward { pairs: self.pairs(row, fields) });
        row.linear(self.width()) + pairs
    }

    /// [`FfmShape::add_gradient`] with the vectors of the code that it is inlined into.
    #[inline(always)]
    pub fn add_gradient_here(
        self,
        row: RowEntries<'_>,
        fields: &[u16],
        delta: f32,
        grad: &mut [f32],
    ) {
        row.add_linear(self.width(), delta, grad);
        let pairs = self.pairs(row, fields);
        for_dimensions(self.rank, FfmBackward { pairs, delta, grad });
    }

    #[inline(always)]
    fn pairs<'a>(self, row: RowEntries<'a>, fields: &'a [u16]) -> FieldPairs<'a> {
        assert_eq!(row.places.len(), fields.len(), "fields of the row");
        let inside = fields.iter().all(|&field| usize::from(field) < self.fields);
        assert!(inside, "a field is not below {}", self.fields);
        FieldPairs { shape: self, row, fields }
    }
}

/// The pairs of a row's keys.
#[derive(Clone, Copy)]
struct FieldPairs<'a> {
    shape: FfmShape,
    row: RowEntries<'a>,
    fields: &'a [u16],
}

/// A key of a row: where its vectors begin, where those for its field lie among the vectors of
/// another key, and its value.
#[derive(Clone, Copy, Default)]
struct FieldKey {
    start: usize,
    field_at: usize,
    value: f32,
}

/// The most keys of a row that are worked out once, and not again for each pair.
const PREPARED: usize = 64;

impl FieldPairs<'_> {
    #[inline(always)]
    fn key(&self, at: usize) -> FieldKey {
        FieldKey {
            start: self.row.places[at] as usize * self.shape.width() + 1,
            field_at: usize::from(self.fields[at]) * self.shape.rank,
            value: self.row.value(at),
        }
    }

    /// The keys of a row that is not too long.
    #[inline(always)]
    fn prepare(&self) -> Option<[FieldKey; PREPARED]> {
        let mut keys = [FieldKey::default(); PREPARED];
        let count = self.fields.len();
        keys.get_mut(..count)?.iter_mut().zip(0..).for_each(|(key, at)| *key = self.key(at));
        Some(keys)
    }

    /// Whether every value is 1. Multiplying by it may then be left out: the bits are the same.
    #[inline(always)]
    fn is_unit(&self) -> bool {
        self.row.values.is_empty()
    }

    /// What the dimensions `from .. from + B` of all pairs add to the score. `keys` gives the keys
    /// of the row from an index on.
    #[inline(always)]
    fn sum<const B: usize, const UNIT: bool, I: Iterator<Item = FieldKey>>(
        &self,
        from: usize,
        keys: impl Fn(usize) -> I,
    ) -> f32 {
        let mut sums = [0.0f32; B];
        for (key, behind) in keys(0).zip(1..) {
            let mut of_key = [0.0f32; B];
            for other in keys(behind) {
                let ours: &[f32; B] = self.row.at(key.start + other.field_at + from);
                let theirs: &[f32; B] = self.row.at(other.start + key.field_at + from);
                for d in 0..B {
                    let product = ours[d] * theirs[d];
                    of_key[d] += if UNIT { product } else { product * other.value };
                }
            }
            for d in 0..B {
                sums[d] += if UNIT { of_key[d] } else { of_key[d] * key.value };
            }
        }
        block_sum(sums)
    }

    /// Adds the gradient of `delta` times that part of the score.
    #[inline(always)]
    fn add_gradient<const B: usize, const UNIT: bool, I: Iterator<Item = FieldKey>>(
        &self,
        from: usize,
        delta: f32,
        grad: &mut [f32],
        keys: impl Fn(usize) -> I,
    ) {
        for (key, behind) in keys(0).zip(1..) {
            let of_key = delta * key.value;
            for other in keys(behind) {
                let slope = if UNIT { delta } else { of_key * other.value };
                let ours = key.start + other.field_at + from;
                let theirs = other.start + key.field_at + from;
                let (left, right): (&[f32; B], &[f32; B]) =
                    (self.row.at(ours), self.row.at(theirs));
                let grad_of_ours: &mut [f32; B] = part_mut(grad, ours);
                for d in 0..B {
                    grad_of_ours[d] += slope * right[d];
                }
                let grad_of_theirs: &mut [f32; B] = part_mut(grad, theirs);
                for d in 0..B {
                    grad_of_theirs[d] += slope * left[d];
                }
            }
        }
    }
}

struct FfmForward<'a> {
    pairs: FieldPairs<'a>,
}

impl DimensionWork for FfmForward<'_> {
    #[inline(always)]
    fn run<const B: usize>(&mut self, from: usize) -> f32 {
        let (pairs, count) = (&self.pairs, self.pairs.fields.len());
        let Some(keys) = pairs.prepare() else {
            return pairs.sum::<B, false, _>(from, |at| (at..count).map(|at| pairs.key(at)));
        };
        let behind = |at| keys[at..count].iter().copied();
        if pairs.is_unit() {
            return pairs.sum::<B, true, _>(from, behind);
        }
        pairs.sum::<B, false, _>(from, behind)
    }
}

struct FfmBackward<'a, 'b> {
    pairs: FieldPairs<'a>,
    delta: f32,
    grad: &'b mut [f32],
}

impl DimensionWork for FfmBackward<'_, '_> {
    #[inline(always)]
    fn run<const B: usize>(&mut self, from: usize) -> f32 {
        let Self { pairs, delta, grad } = self;
        let count = pairs.fields.len();
        let Some(keys) = pairs.prepare() else {
            let behind = |at| (at..count).map(|at| pairs.key(at));
            pairs.add_gradient::<B, false, _>(from, *delta, grad, behind);
            return 0.0;
        };
        let behind = |at| keys[at..count].iter().copied();
        if pairs.is_unit() {
            pairs.add_gradient::<B, true, _>(from, *delta, grad, behind);
        } else {
            pairs.add_gradient::<B, false, _>(from, *delta, grad, behind);
        }
        0.0
    }
}
