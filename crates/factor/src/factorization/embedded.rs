//! Factorization machines whose vectors are also the inputs of a perceptron: one pass over a row's
//! keys serves both.

use super::dimension_blocks::{DimensionWork, block_sum, for_dimensions};
use super::fm::FmShape;
use super::row_entries::{RowEntries, part_mut};

/// A row whose keys belong to fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldRow<'a> {
    pub(crate) entries: RowEntries<'a>,
    /// The field of each key.
    pub(crate) fields: &'a [u16],
}

/// What the score of a row leaves for its gradient, with the derivatives that follow from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSlopes<'a> {
    /// The derivative with respect to the score.
    pub(crate) delta: f32,
    /// The sums of the vectors, if pairs are part of the score.
    pub(crate) sums: Option<&'a [f32]>,
    /// The derivatives with respect to the perceptron's inputs, a vector for each field.
    pub(crate) inputs: &'a [f32],
}

impl FmShape {
    /// What pairs add to the score of a row, and the sum of the vectors in `sums`. Adds each
    /// vector, times its value, to the part of `inputs` that is its field's.
    #[inline(always)]
    pub(crate) fn embed_here(self, row: FieldRow<'_>, sums: &mut [f32], inputs: &mut [f32]) -> f32 {
        assert_eq!(sums.len(), self.rank, "sums of the vectors");
        assert_eq!(row.entries.places.len(), row.fields.len(), "fields of the row");
        0.5 * for_dimensions(self.rank, Embed { row, shape: self, sums, inputs })
    }

    /// Adds the gradient of the vectors: through the pairs, and through the perceptron's inputs.
    #[inline(always)]
    pub(crate) fn add_embedded_gradient_here(
        self,
        row: FieldRow<'_>,
        slopes: RowSlopes<'_>,
        grad: &mut [f32],
    ) {
        assert_eq!(row.entries.places.len(), row.fields.len(), "fields of the row");
        for_dimensions(self.rank, EmbedBackward { row, shape: self, slopes, grad });
    }
}

struct Embed<'a, 'b> {
    row: FieldRow<'a>,
    shape: FmShape,
    sums: &'b mut [f32],
    inputs: &'b mut [f32],
}

impl DimensionWork for Embed<'_, '_> {
    #[inline(always)]
    fn run<const B: usize>(&mut self, from: usize) -> f32 {
        let FieldRow { entries, fields } = self.row;
        let (width, rank) = (self.shape.width(), self.shape.rank);
        let (mut sums, mut squares) = ([0.0f32; B], [0.0f32; B]);
        for (at, (&place, &field)) in entries.places.iter().zip(fields).enumerate() {
            let vector: &[f32; B] = entries.at(place as usize * width + 1 + from);
            let inputs: &mut [f32; B] = part_mut(self.inputs, usize::from(field) * rank + from);
            let value = entries.value(at);
            for d in 0..B {
                let product = vector[d] * value;
                sums[d] += product;
                squares[d] += product * product;
                inputs[d] += product;
            }
        }
        *part_mut(self.sums, from) = sums;
        block_sum(std::array::from_fn::<_, B, _>(|d| sums[d] * sums[d] - squares[d]))
    }
}

struct EmbedBackward<'a, 'b> {
    row: FieldRow<'a>,
    shape: FmShape,
    slopes: RowSlopes<'a>,
    grad: &'b mut [f32],
}

impl DimensionWork for EmbedBackward<'_, '_> {
    #[inline(always)]
    fn run<const B: usize>(&mut self, from: usize) -> f32 {
        let (FieldRow { entries, fields }, slopes) = (self.row, self.slopes);
        let (width, rank) = (self.shape.width(), self.shape.rank);
        let sums: Option<[f32; B]> =
            slopes.sums.map(|sums| std::array::from_fn(|d| sums[from + d]));
        for (at, (&place, &field)) in entries.places.iter().zip(fields).enumerate() {
            let start = place as usize * width + 1 + from;
            let value = entries.value(at);
            let by_inputs: &[f32; B] = part(slopes.inputs, usize::from(field) * rank + from);
            let grad: &mut [f32; B] = part_mut(self.grad, start);
            if let Some(sums) = &sums {
                let (vector, slope): (&[f32; B], _) = (entries.at(start), slopes.delta * value);
                for d in 0..B {
                    grad[d] += slope * (sums[d] - vector[d] * value);
                }
            }
            for d in 0..B {
                grad[d] += value * by_inputs[d];
            }
        }
        0.0
    }
}

/// `B` numbers from an index on.
#[inline(always)]
fn part<const B: usize>(numbers: &[f32], from: usize) -> &[f32; B] {
    match numbers[from..].first_chunk() {
        Some(part) => part,
        None => panic!("a field beyond the {} inputs of the perceptron", numbers.len()),
    }
}
