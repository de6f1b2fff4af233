//! Weights of examples: in loss and gradient, of every model that uses them.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use paceline_model::{
    Architecture, Batch, Layer, LayerKind, Logistic, Model, Network, OutputMode, Rows, Shape,
    Softmax,
};

const WEIGHTS: [f32; 4] = [2.0, 0.0, 0.5, 1.0];
const LABELS: [u32; 4] = [0, 1, 1, 0];

fn values(len: usize, salt: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 37 + salt * 101) % 64) as f32 / 32.0 - 1.0).collect()
}

/// Calls its second argument with one example of the batch.
type OneExample<'a> = dyn Fn(usize, &mut dyn FnMut(Batch<'_>)) + 'a;

/// The gradient of a batch with weights is the sum of its examples' own, each times its weight.
fn check(model: &mut dyn Model, params: &[f32], example: &OneExample<'_>, all: Batch<'_>) {
    assert!(model.uses_weights());
    let share = 0.25;
    let (mut loss, mut sum) = (0.0, vec![0.0; params.len()]);
    for (at, weight) in WEIGHTS.iter().enumerate() {
        example(at, &mut |one| {
            let mut grad = vec![0.0; params.len()];
            let own = model.gradient(params, one, share, OutputMode::Overwrite, &mut grad);
            loss += weight * own;
            sum.iter_mut().zip(&grad).for_each(|(sum, grad)| *sum += weight * grad);
        });
    }
    let mut grad = vec![f32::NAN; params.len()];
    let weighted = all.weighted(&WEIGHTS);
    let ours = model.gradient(params, weighted, share, OutputMode::Overwrite, &mut grad);
    assert!((ours - loss).abs() < 1e-5, "{ours}, not {loss}");
    for (at, (grad, sum)) in grad.iter().zip(&sum).enumerate() {
        assert!((grad - sum).abs() < 1e-5, "{at}: {grad}, not {sum}");
    }
    // Weights of 1 change nothing but the rounding of sums.
    let mut plain = vec![f32::NAN; params.len()];
    let without = model.gradient(params, all, share, OutputMode::Overwrite, &mut plain);
    let ones = all.weighted(&[1.0; 4]);
    let with = model.gradient(params, ones, share, OutputMode::Overwrite, &mut grad);
    assert!((with - without).abs() < 1e-6);
    assert!(grad.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-6));
}

#[test]
fn a_weight_multiplies_the_loss_and_gradient_of_its_example_in_dense_models() {
    let x = values(4 * 6, 1);
    let example = |at: usize, visit: &mut dyn FnMut(Batch<'_>)| {
        visit(Batch::dense(&x[at * 6..(at + 1) * 6], &LABELS[at..=at]));
    };
    let all = Batch::dense(&x, &LABELS);
    let mut softmax = Softmax::new(6, 2);
    let params = values(softmax.layout().len(), 2);
    check(&mut softmax, &params, &example, all);

    let layers = vec![
        Layer::new("flatten", LayerKind::Flatten),
        Layer::dense("hidden", 5),
        Layer::new("relu", LayerKind::Relu),
        Layer::dense("output", 2),
    ];
    let architecture = Architecture::new(Shape::image(1, 2, 3), layers).unwrap();
    let mut network = Network::of(architecture, 4, 1).unwrap();
    let params = values(network.layout().len(), 3);
    check(&mut network, &params, &example, all);
}

#[test]
fn a_weight_multiplies_the_loss_and_gradient_of_its_row() {
    let (keys, x) = ([0u32, 2, 1, 0, 1, 2, 2], values(7, 1));
    let starts = [0u32, 2, 3, 6, 7];
    let example = |at: usize, visit: &mut dyn FnMut(Batch<'_>)| {
        let rows = Rows { starts: &starts[at..at + 2], places: &keys, values: &x };
        visit(Batch::sparse(rows, &LABELS[at..=at]));
    };
    let rows = Rows { starts: &starts, places: &keys, values: &x };
    let mut model = Logistic::new(3);
    check(&mut model, &values(4, 5), &example, Batch::sparse(rows, &LABELS));
}
