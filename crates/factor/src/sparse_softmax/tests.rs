//! Sparse softmax agrees with the dense one and with finite differences.

use paceline_model::{Rows, Softmax};

use super::*;

const FEATURES: usize = 5;
const CLASSES: usize = 3;
const STARTS: [u32; 5] = [0, 2, 2, 5, 6];
const KEYS: [u32; 6] = [0, 4, 1, 2, 3, 4];
const VALUES: [f32; 6] = [0.5, -1.0, 2.0, 1.0, 0.25, 1.5];
const LABELS: [u32; 4] = [2, 0, 1, 2];

fn batch() -> Batch<'static> {
    let rows = Rows { starts: &STARTS, places: &KEYS, values: &VALUES };
    Batch::sparse(rows, &LABELS).weighted(&[1.0, 2.0, 0.5, 1.0])
}

fn params() -> Vec<f32> {
    let mut params = vec![0.0; (FEATURES + 1) * CLASSES];
    paceline_model::fill_uniform(4, 1, 1.0, &mut params);
    params
}

#[test]
fn the_gradient_agrees_with_finite_differences() {
    let (mut model, mut params) = (SparseSoftmax::new(FEATURES, CLASSES), params());
    let mut grad = vec![f32::NAN; params.len()];
    model.gradient(&params, batch(), 0.25, OutputMode::Overwrite, &mut grad);
    let mut other = grad.clone();
    for at in 0..params.len() {
        let (here, step) = (params[at], 1.0 / 128.0);
        let mut loss_at = |value: f32| {
            params[at] = value;
            model.gradient(&params, batch(), 0.25, OutputMode::Overwrite, &mut other)
        };
        let slope = (loss_at(here + step) - loss_at(here - step)) / (2.0 * step);
        params[at] = here;
        assert!((grad[at] - slope).abs() < 2e-3, "parameter {at}: {} and {slope}", grad[at]);
    }
}

#[test]
fn it_agrees_with_dense_softmax() {
    let (mut sparse, params) = (SparseSoftmax::new(FEATURES, CLASSES), params());
    let mut dense = Softmax::new(FEATURES, CLASSES);
    let mut inputs = vec![0.0; LABELS.len() * FEATURES];
    for row in 0..LABELS.len() {
        for at in STARTS[row] as usize..STARTS[row + 1] as usize {
            inputs[row * FEATURES + KEYS[at] as usize] = VALUES[at];
        }
    }
    // The dense model has one row of weights for each class.
    let mut turned = params.clone();
    for feature in 0..FEATURES {
        for class in 0..CLASSES {
            turned[class * FEATURES + feature] = params[feature * CLASSES + class];
        }
    }
    let mut tallies = [Tally::keeping_scores(), Tally::keeping_scores()];
    sparse.evaluate(&params, batch(), &mut tallies[0]);
    dense.evaluate(&turned, Batch::dense(&inputs, &LABELS), &mut tallies[1]);
    let scores = tallies[0].scores().iter().zip(tallies[1].scores());
    assert!(scores.into_iter().all(|(a, b)| (a - b).abs() < 1e-5), "{tallies:?}");
    assert_eq!(tallies[0].correct, tallies[1].correct);
}
