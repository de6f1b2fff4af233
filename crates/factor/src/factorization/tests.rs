//! Tests of the arithmetic of rows, against sums over all pairs in double precision.

use super::*;

/// A row of odd values, some of whose keys may share an entry.
struct PairCase {
    params: Vec<f32>,
    places: Vec<u32>,
    values: Vec<f32>,
    fields: Vec<u16>,
    width: usize,
}

impl PairCase {
    fn new(keys: usize, entries: usize, fields: usize, width: usize) -> Self {
        let number = |i: usize, salt: usize| ((i * 37 + salt * 11) % 64) as f32 / 32.0 - 1.0;
        Self {
            params: (0..entries * width).map(|i| number(i * i + i / 7, 1) * 0.5).collect(),
            places: (0..keys).map(|i| (i * 7 % entries) as u32).collect(),
            values: (0..keys).map(|i| number(i, 5) + 0.07).collect(),
            fields: (0..keys).map(|i| (i * 5 % fields) as u16).collect(),
            width,
        }
    }

    fn row(&self) -> RowEntries<'_> {
        RowEntries { params: &self.params, places: &self.places, values: &self.values }
    }

    /// The score in f64, pair by pair. `vector` gives the start of a key's vector for a pair with
    /// another key.
    fn plain_score(
        &self,
        params: &[f64],
        rank: usize,
        vector: impl Fn(usize, usize) -> usize,
    ) -> f64 {
        let keys = self.places.len();
        let start = |at: usize| self.places[at] as usize * self.width;
        let value = |at: usize| self.values.get(at).map_or(1.0, |&value| f64::from(value));
        let mut score: f64 = (0..keys).map(|at| params[start(at)] * value(at)).sum();
        for i in 0..keys {
            for j in i + 1..keys {
                let (ours, theirs) = (start(i) + vector(i, j), start(j) + vector(j, i));
                let dot: f64 = (0..rank).map(|d| params[ours + d] * params[theirs + d]).sum();
                score += dot * value(i) * value(j);
            }
        }
        score
    }
}

/// Compares a score and a gradient with those of a plain function.
#[track_caller]
fn check(params: &[f32], score: f32, grad: &[f32], plain: impl Fn(&[f64]) -> f64) {
    let mut wide: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
    let want = plain(&wide);
    assert!((f64::from(score) - want).abs() < 1e-4 * (1.0 + want.abs()), "{score}, not {want}");
    for i in 0..wide.len() {
        let (here, step) = (wide[i], 1e-4);
        wide[i] = here + step;
        let above = plain(&wide);
        wide[i] = here - step;
        let below = plain(&wide);
        wide[i] = here;
        let (slope, got) = ((above - below) / (2.0 * step), f64::from(grad[i]));
        let close = (got - slope).abs() < 1e-4 * (1.0 + slope.abs());
        assert!(close, "parameter {i}: {got}, not {slope}");
    }
}

fn check_fm(case: &PairCase, rank: usize) {
    let fm = FmShape { rank };
    let mut sums = vec![f32::NAN; rank];
    let score = fm.score(case.row(), &mut sums);
    let mut grad = vec![0.0; case.params.len()];
    fm.add_gradient(case.row(), &sums, 1.0, &mut grad);
    check(&case.params, score, &grad, |params| case.plain_score(params, rank, |_, _| 1));
}

fn check_ffm(case: &PairCase, ffm: FfmShape) {
    let score = ffm.score(case.row(), &case.fields);
    let mut grad = vec![0.0; case.params.len()];
    ffm.add_gradient(case.row(), &case.fields, 1.0, &mut grad);
    let vector = |_, other: usize| 1 + usize::from(case.fields[other]) * ffm.rank;
    check(&case.params, score, &grad, |params| case.plain_score(params, ffm.rank, vector));
}

#[test]
fn gradients_of_a_factorization_machine_agree_with_finite_differences() {
    for rank in [1, 3, 8, 17, 39] {
        for keys in [0, 1, 2, 39] {
            let mut case = PairCase::new(keys, keys.max(1), 1, 1 + rank);
            check_fm(&case, rank);
            case.values.clear();
            check_fm(&case, rank);
        }
    }
}

#[test]
fn gradients_of_a_field_aware_machine_agree_with_finite_differences() {
    for (fields, rank) in [(1, 1), (3, 3), (39, 4), (2, 8), (5, 17)] {
        let ffm = FfmShape { fields, rank };
        for keys in [0, 1, 2, 13] {
            let mut case = PairCase::new(keys, keys.max(1), fields, ffm.width());
            check_ffm(&case, ffm);
            case.values.clear();
            check_ffm(&case, ffm);
        }
    }
}

#[test]
fn a_key_that_occurs_twice_has_the_gradient_of_both_places() {
    let case = PairCase::new(9, 4, 3, 4);
    check_fm(&case, 3);
    let ffm = FfmShape { fields: 3, rank: 2 };
    check_ffm(&PairCase::new(9, 4, 3, ffm.width()), ffm);
}

#[test]
fn rows_without_values_have_the_bits_of_ones() {
    let mut case = PairCase::new(39, 39, 5, 36);
    let (fm, ffm) = (FmShape { rank: 35 }, FfmShape { fields: 5, rank: 7 });
    let bits = |case: &PairCase| {
        let mut sums = vec![0.0; 35];
        let mut scores = vec![fm.score(case.row(), &mut sums), ffm.score(case.row(), &case.fields)];
        let mut grad = vec![0.0; case.params.len()];
        fm.add_gradient(case.row(), &sums, 0.3, &mut grad);
        ffm.add_gradient(case.row(), &case.fields, 0.7, &mut grad);
        scores.extend(grad);
        scores.iter().map(|number| number.to_bits()).collect::<Vec<_>>()
    };
    case.values.fill(1.0);
    let ones = bits(&case);
    case.values.clear();
    assert_eq!(bits(&case), ones);
}

#[test]
fn vector_instructions_do_not_change_the_bits() {
    let case = PairCase::new(39, 39, 5, 36);
    let (fm, ffm) = (FmShape { rank: 35 }, FfmShape { fields: 5, rank: 7 });
    let (mut sums, mut plain_sums) = (vec![0.0; 35], vec![0.0; 35]);
    // In this function there are no wider vectors than in any other.
    let plain = fm.score_here(case.row(), &mut plain_sums);
    assert_eq!(fm.score(case.row(), &mut sums).to_bits(), plain.to_bits());
    assert_eq!(sums, plain_sums);
    let plain = ffm.score_here(case.row(), &case.fields);
    assert_eq!(ffm.score(case.row(), &case.fields).to_bits(), plain.to_bits());
    let mut grads = [vec![0.0; case.params.len()], vec![0.0; case.params.len()]];
    fm.add_gradient(case.row(), &sums, 0.3, &mut grads[0]);
    ffm.add_gradient(case.row(), &case.fields, 0.7, &mut grads[0]);
    fm.add_gradient_here(case.row(), &sums, 0.3, &mut grads[1]);
    ffm.add_gradient_here(case.row(), &case.fields, 0.7, &mut grads[1]);
    assert_eq!(grads[0], grads[1]);
}
