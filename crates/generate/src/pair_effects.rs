//! What pairs of a row's values add to its score, besides the weights of single values.
//!
//! Every third field takes part. Each of its most popular values has a hidden vector of a few
//! dimensions, and a pair of values from two of these fields adds the product of their vectors, as
//! in a factorization machine. The vectors of a field have a mean of zero over its rows, and fields
//! are independent, so no sum of single values explains any of it: what pairs add to the variance
//! of scores, a linear model loses.

use crate::click_field::{CLICK_FIELDS, ClickField};
use crate::random::Random;

/// A key that keeps the random stream of vectors apart from others.
const PAIRS: u64 = 0x7061_6972_7300; // "pairs"

/// The number of dimensions.
const DIMENSIONS: usize = 4;

/// How many of a field's values have a vector.
const POPULAR: usize = 16;

/// One field of this many takes part.
const FIELD_STEP: usize = 3;

type PairVector = [f64; DIMENSIONS];

/// The hidden vectors.
#[derive(Clone, Debug)]
pub(crate) struct PairEffects {
    /// For each field that takes part, its number and the vectors by rank.
    fields: Vec<(usize, [PairVector; POPULAR])>,
}

impl PairEffects {
    /// Vectors for these fields, whose products have this variance.
    pub(crate) fn new(fields: &[ClickField; CLICK_FIELDS], variance: f64) -> Self {
        let numbers = (0..CLICK_FIELDS).step_by(FIELD_STEP);
        let mut effects =
            PairEffects { fields: numbers.map(|at| (at, vectors(at, &fields[at]))).collect() };
        // Of independent fields with means of zero, the product of a pair has as variance the
        // trace of the product of two covariances.
        let (mut drawn, mut before) = (0.0, [[0.0; DIMENSIONS]; DIMENSIONS]);
        for (at, vectors) in &effects.fields {
            let this = covariance(&fields[*at], vectors);
            for (before, this) in before.iter_mut().flatten().zip(this.iter().flatten()) {
                drawn += *before * this;
                *before += this;
            }
        }
        let scale = (variance / drawn).sqrt().sqrt();
        for number in effects.fields.iter_mut().flat_map(|(_, vectors)| vectors).flatten() {
            *number *= scale;
        }
        effects
    }

    /// What the pairs of a row add to its score, by the ranks of its values.
    pub(crate) fn score(&self, ranks: &[u32; CLICK_FIELDS]) -> f64 {
        let (mut sum, mut score) = ([0.0; DIMENSIONS], 0.0);
        for (field, vectors) in &self.fields {
            let Some(vector) = vectors.get(ranks[*field] as usize) else { continue };
            // The pairs with all fields before this one.
            for (sum, number) in sum.iter_mut().zip(vector) {
                score += *sum * number;
                *sum += number;
            }
        }
        score
    }
}

/// The vectors of a field's most popular values, moved so that their mean over rows is zero.
fn vectors(number: usize, field: &ClickField) -> [PairVector; POPULAR] {
    let mut vectors = [[0.0; DIMENSIONS]; POPULAR];
    let (mut mean, mut total) = ([0.0; DIMENSIONS], 0.0);
    let shares: [f64; POPULAR] = std::array::from_fn(|rank| field.share(rank as u32));
    for (rank, (vector, share)) in vectors.iter_mut().zip(shares).enumerate() {
        // A value that no row has would count for the mean otherwise.
        if share == 0.0 {
            continue;
        }
        let mut random = Random::keyed(&[PAIRS, number as u64, rank as u64]);
        total += share;
        for (number, mean) in vector.iter_mut().zip(&mut mean) {
            *number = f64::from(random.normal());
            *mean += share * *number;
        }
    }
    for (vector, _) in vectors.iter_mut().zip(shares).filter(|(_, share)| *share > 0.0) {
        for (number, mean) in vector.iter_mut().zip(mean) {
            *number -= mean / total;
        }
    }
    vectors
}

/// The mean over rows of the products of a vector's numbers.
fn covariance(
    field: &ClickField,
    vectors: &[PairVector; POPULAR],
) -> [[f64; DIMENSIONS]; DIMENSIONS] {
    let mut sums = [[0.0; DIMENSIONS]; DIMENSIONS];
    for (rank, vector) in (0..).zip(vectors) {
        let share = field.share(rank);
        for (sums, a) in sums.iter_mut().zip(vector) {
            sums.iter_mut().zip(vector).for_each(|(sum, b)| *sum += share * a * b);
        }
    }
    sums
}
