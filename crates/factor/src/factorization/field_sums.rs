//! Field-aware machines for rows with more keys than fields.
//!
//! The pairs of 100,000 keys would take minutes. With `a[f][g]` the sum of the vectors for field g
//! over the keys of field f, each times its value, the products of `a[f][g]` and `a[g][f]` over all
//! f and g contain every pair twice, and each key once with itself. So the work grows with the
//! number of keys and not with its square.

use super::ffm::FfmShape;
use super::row_entries::RowEntries;

/// Up to this many keys, the pairs themselves are faster.
const FEW: usize = 64;

impl FfmShape {
    /// Whether sums by field take less work than the pairs of a row of this many keys.
    #[inline(always)]
    pub(crate) fn prefers_sums(self, keys: usize) -> bool {
        keys > FEW && keys >= self.fields
    }

    /// The score of a row, without a bias. `sums` receives what
    /// [`add_gradient_by_sums`](Self::add_gradient_by_sums) needs.
    #[inline(always)]
    pub(crate) fn score_by_sums(
        self,
        row: RowEntries<'_>,
        fields: &[u16],
        sums: &mut Vec<f32>,
    ) -> f32 {
        assert_eq!(row.places.len(), fields.len(), "fields of the row");
        let (rank, len) = (self.rank, self.fields * self.rank);
        sums.clear();
        sums.resize(self.fields * len, 0.0);
        let mut with_themselves = 0.0;
        for (at, (&place, &field)) in row.places.iter().zip(fields).enumerate() {
            let (value, field) = (row.value(at), usize::from(field));
            let vectors = &row.params[place as usize * self.width() + 1..][..len];
            let of_field = &mut sums[field * len..][..len];
            of_field.iter_mut().zip(vectors).for_each(|(sum, number)| *sum += value * number);
            for number in &vectors[field * rank..][..rank] {
                let product = value * number;
                with_themselves += product * product;
            }
        }
        let mut twice = 0.0;
        for first in 0..self.fields {
            for second in 0..self.fields {
                let ours = &sums[first * len + second * rank..][..rank];
                let theirs = &sums[second * len + first * rank..][..rank];
                twice += ours.iter().zip(theirs).map(|(a, b)| a * b).sum::<f32>();
            }
        }
        row.linear(self.width()) + 0.5 * (twice - with_themselves)
    }

    /// Adds the gradient of `delta` times the score to `grad`, which is laid out as the entries.
    #[inline(always)]
    pub(crate) fn add_gradient_by_sums(
        self,
        row: RowEntries<'_>,
        fields: &[u16],
        sums: &[f32],
        delta: f32,
        grad: &mut [f32],
    ) {
        let (rank, len) = (self.rank, self.fields * self.rank);
        row.add_linear(self.width(), delta, grad);
        for (at, (&place, &field)) in row.places.iter().zip(fields).enumerate() {
            let (value, field) = (row.value(at), usize::from(field));
            let start = place as usize * self.width() + 1;
            let slope = delta * value;
            for other in 0..self.fields {
                let of_other = &sums[other * len + field * rank..][..rank];
                let grad = &mut grad[start + other * rank..][..rank];
                grad.iter_mut().zip(of_other).for_each(|(grad, sum)| *grad += slope * sum);
            }
            let own = start + field * rank;
            let vector = &row.params[own..][..rank];
            let grad = &mut grad[own..][..rank];
            grad.iter_mut().zip(vector).for_each(|(grad, v)| *grad -= slope * value * v);
        }
    }
}
