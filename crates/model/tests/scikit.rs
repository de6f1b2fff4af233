//! Penalties and weights, compared with what scikit-learn fits.
//!
//! The numbers are from `scikit/make_golden.py`. Gradient descent over all rows goes to the same
//! minimum, which is the only one.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use paceline_model::{
    AdaGrad, Batch, Logistic, Model, OptimizerSpec, OptimizerState, OutputMode, Rows, Sgd,
};

const ROWS: usize = 60;
const FEATURES: usize = 5;
const PENALTY: f32 = 0.02;

const L2: [f32; 6] = [2.78368, -1.080718, 0.270065, -0.055242, 0.046275, -0.224528];
const L1: [f32; 6] = [4.409836, -1.441953, 0.0, 0.0, 0.0, -0.243164];
const WEIGHTED: [f32; 6] = [3.657831, -1.170391, 0.542384, -0.411733, -0.037728, -0.257374];

fn value(i: usize, j: usize) -> f32 {
    ((i * (j + 3) * 7 + j * 11) % 17) as f32 / 8.0 - 1.0
}

/// The weights and the bias after many steps over all rows.
fn fit(spec: OptimizerSpec, weights: &[f32]) -> Vec<f32> {
    let values: Vec<f32> =
        (0..ROWS * FEATURES).map(|at| value(at / FEATURES, at % FEATURES)).collect();
    let places: Vec<u32> = (0..ROWS * FEATURES).map(|at| (at % FEATURES) as u32).collect();
    let starts: Vec<u32> = (0..=ROWS).map(|row| (row * FEATURES) as u32).collect();
    let noise = |i: usize| ((i * 5) % 7) as f32 / 3.0 - 1.0;
    let label = |i: usize| u32::from(value(i, 0) - 0.5 * value(i, 1) + 0.3 * noise(i) > 0.0);
    let labels: Vec<u32> = (0..ROWS).map(label).collect();
    let rows = Rows { starts: &starts, places: &places, values: &values };
    let batch = Batch::sparse(rows, &labels).weighted(weights);
    let mut model = Logistic::new(FEATURES);
    let mut optimizer = OptimizerState::new(spec, model.layout(), 0..FEATURES + 1);
    let (mut params, mut grad) = (vec![0.0; FEATURES + 1], vec![0.0; FEATURES + 1]);
    for step in 0..20_000 {
        model.gradient(&params, batch, 1.0 / ROWS as f32, OutputMode::Overwrite, &mut grad);
        optimizer.apply(step, 0, &mut params, &grad);
    }
    params
}

#[track_caller]
fn check(params: &[f32], expected: &[f32]) {
    for (ours, theirs) in params.iter().zip(expected) {
        assert!((ours - theirs).abs() < 2e-3, "{params:?}, not {expected:?}");
        assert!(*theirs != 0.0 || *ours == 0.0, "{params:?}: not exactly zero");
    }
}

#[test]
fn an_l2_penalty_gives_the_weights_of_scikit_learn() {
    check(&fit(Sgd::new(0.5).l2(PENALTY), &[]), &L2);
    check(&fit(AdaGrad::new(0.5).l2(PENALTY), &[]), &L2);
}

#[test]
fn an_l1_penalty_gives_the_weights_of_scikit_learn_and_its_zeros_exactly() {
    check(&fit(Sgd::new(0.5).l1(PENALTY), &[]), &L1);
    check(&fit(AdaGrad::new(0.5).l1(PENALTY), &[]), &L1);
}

#[test]
fn weights_of_examples_give_the_weights_of_scikit_learn() {
    let weights: Vec<f32> = (0..ROWS).map(|i| 0.5 + (i % 4) as f32).collect();
    check(&fit(Sgd::new(0.5).l2(PENALTY), &weights), &WEIGHTED);
}
