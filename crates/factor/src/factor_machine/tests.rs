//! The model around the arithmetic of one row.

use paceline_model::{Compactor, ParamTable, Rows, Sgd};

use super::*;

const FEATURES: usize = 9;

/// Rows of odd lengths: one is empty, and one has a key twice.
struct FmCase {
    starts: Vec<u32>,
    keys: Vec<u32>,
    values: Vec<f32>,
    labels: Vec<u32>,
}

impl FmCase {
    fn new() -> Self {
        Self {
            starts: vec![0, 3, 3, 5, 8],
            keys: vec![1, 4, 8, 4, 4, 0, 8, 2],
            values: vec![0.5, -1.0, 2.0, 1.0, 0.25, 1.5, -0.5, 1.0],
            labels: vec![1, 0, 0, 1],
        }
    }

    fn batch<'a>(&'a self, places: &'a [u32]) -> Batch<'a> {
        Batch::sparse(Rows { starts: &self.starts, places, values: &self.values }, &self.labels)
    }
}

fn gradient(model: &mut FactorMachine, params: &[f32], batch: Batch<'_>) -> (f32, Vec<f32>) {
    let mut grad = vec![f32::NAN; params.len()];
    let loss = model.gradient(params, batch, 0.25, OutputMode::Overwrite, &mut grad);
    (loss, grad)
}

#[test]
fn the_gradient_agrees_with_finite_differences() {
    for rank in [1, 2, 3, 8, 17] {
        let (case, mut model) = (FmCase::new(), FactorMachine::new(FEATURES, rank));
        let mut params = vec![0.0; model.layout().len()];
        paceline_model::fill_uniform(3, 0, 0.7, &mut params);
        let weights = [1.0, 2.0, 0.5, 1.5];
        let batch = case.batch(&case.keys).weighted(&weights);
        let (_, grad) = gradient(&mut model, &params, batch);
        for at in 0..params.len() {
            let here = params[at];
            let mut loss_at = |value: f32| {
                params[at] = value;
                f64::from(gradient(&mut model, &params, batch).0)
            };
            let step = 1.0 / 128.0;
            let slope = (loss_at(here + step) - loss_at(here - step)) / f64::from(2.0 * step);
            params[at] = here;
            let off = (f64::from(grad[at]) - slope).abs();
            assert!(off < 2e-3, "rank {rank}, parameter {at}: {} and {slope}", grad[at]);
        }
    }
}

#[test]
fn a_compact_slice_gives_the_bits_of_all_parameters() {
    let (case, mut model) = (FmCase::new(), FactorMachine::new(FEATURES, 3));
    let width = model.layout().width();
    let mut params = vec![0.0; model.layout().len()];
    model.initialise(5, &mut params);
    let (loss, grad) = gradient(&mut model, &params, case.batch(&case.keys));

    let table = ParamTable::new(Sgd::new(0.1), &model, 0..FEATURES + 1, 5);
    let mut compactor = Compactor::new();
    compactor.compact(&case.keys, model.shared_keys());
    let mut compact = vec![f32::NAN; compactor.keys().len() * width];
    table.read(compactor.keys(), &mut compact);
    let batch = case.batch(compactor.places());
    let (compact_loss, compact_grad) = gradient(&mut model, &compact, batch);

    assert_eq!(loss, compact_loss);
    for (&key, got) in compactor.keys().iter().zip(compact_grad.chunks(width)) {
        let want = &grad[model.layout().params_of(key as usize..key as usize + 1)];
        assert_eq!(got[..want.len()], *want, "key {key}");
    }
    let mut tallies = [Tally::keeping_scores(), Tally::keeping_scores()];
    model.evaluate(&params, case.batch(&case.keys), &mut tallies[0]);
    model.evaluate(&compact, batch, &mut tallies[1]);
    assert_eq!(tallies[0], tallies[1]);
}

#[test]
fn sampled_negatives_raise_the_score_in_training_alone() {
    let (case, mut model) = (FmCase::new(), FactorMachine::new(FEATURES, 2));
    let params = vec![0.1; model.layout().len()];
    let plain = gradient(&mut model, &params, case.batch(&case.keys)).0;
    let mut sampled = model.clone().sampled_negatives(0.1);
    let shifted = gradient(&mut sampled, &params, case.batch(&case.keys)).0;
    assert!((plain - shifted).abs() > 0.1, "{plain} and {shifted}");
    let mut tallies = [Tally::keeping_scores(), Tally::keeping_scores()];
    model.evaluate(&params, case.batch(&case.keys), &mut tallies[0]);
    sampled.evaluate(&params, case.batch(&case.keys), &mut tallies[1]);
    assert_eq!(tallies[0], tallies[1]);
}

#[test]
fn a_long_row_of_fields_gives_what_its_pairs_give() {
    let (features, fields, rank) = (50, 3, 2);
    let shape = FfmShape { fields, rank };
    let mut params = vec![0.0; features * shape.width()];
    paceline_model::fill_uniform(9, 0, 0.3, &mut params);
    let keys: Vec<u32> = (0..100).map(|at| at * 7 % 50).collect();
    let of_keys: Vec<u16> = (0..100).map(|at| at % 3).collect();
    let values: Vec<f32> = (0..100).map(|at| 0.1 * (at % 7) as f32 - 0.2).collect();
    let row = RowEntries { params: &params, places: &keys, values: &values };
    let mut sums = vec![0.0; rank];
    assert!(shape.prefers_sums(keys.len()) && !shape.prefers_sums(39));
    let (score, by_pairs) = (shape.score_of(row, &of_keys, &mut sums), shape.score(row, &of_keys));
    assert!((score - by_pairs).abs() < 1e-4 * by_pairs.abs().max(1.0), "{score} and {by_pairs}");
    let mut grads = [vec![0.0; params.len()], vec![0.0; params.len()]];
    shape.add_to_gradient(row, &of_keys, &sums, 0.7, &mut grads[0]);
    shape.add_gradient(row, &of_keys, 0.7, &mut grads[1]);
    for (at, (ours, by_pairs)) in grads[0].iter().zip(&grads[1]).enumerate() {
        assert!((ours - by_pairs).abs() < 1e-4, "number {at}: {ours} and {by_pairs}");
    }
}
