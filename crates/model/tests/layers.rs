//! Networks give PyTorch's loss and gradient (`tests/python/make_layers_golden.py`), layer by
//! layer at odd sizes, and follow its training.

#![allow(clippy::unwrap_used, reason = "a failed assumption of a test should panic")]

mod golden;

use std::process::Command;

use golden::{batch, golden, network, start};
use paceline_model::{AlexNet, Batch, Model, Momentum, Network, OptimizerState, OutputMode, lenet};
use serde_json::Value;

#[test]
fn loss_and_gradient_agree_with_pytorch_on_any_number_of_threads() {
    let golden = golden();
    for case in golden["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let count = case["batch"].as_u64().unwrap() as usize;
        let wanted: Vec<f32> = floats(&case["grad"]);
        let mut first = None;
        for threads in [1, 2, 3] {
            let mut model = network(case, count, threads);
            let params = start(&model);
            let (x, labels) = batch(&model, count, 0);
            let mut grad = vec![f32::NAN; params.len()];
            let share = 1.0 / count as f32;
            let block = Batch::dense(&x, &labels);
            let loss = model.gradient(&params, block, share, OutputMode::Overwrite, &mut grad);
            let theirs = case["loss"].as_f64().unwrap() as f32;
            assert!((loss - theirs).abs() < 1e-5, "{name}: loss {loss}, not {theirs}");
            let largest = wanted.iter().fold(0f32, |most, g| most.max(g.abs()));
            assert_eq!(grad.len(), wanted.len(), "{name}");
            for (i, (got, wanted)) in grad.iter().zip(&wanted).enumerate() {
                let near = (got - wanted).abs() <= 2e-6 + 1e-5 * largest;
                assert!(near, "{name}: gradient {i} is {got}, not {wanted}");
            }
            let first = first.get_or_insert_with(|| grad.clone());
            assert_eq!(first, &grad, "{name} with {threads} threads");
        }
    }
}

#[test]
fn lenet_follows_pytorch_for_twenty_steps() {
    follow(lenet(16, 2).unwrap(), 16, 0.1, &golden()["lenet"]);
}

#[test]
fn a_small_alexnet_follows_pytorch_for_twenty_steps() {
    let widths = [4, 12, 24, 16, 16];
    let sizes = AlexNet { classes: 10, size: 95, widths, hidden: 32, dropout: 0.0 };
    follow(sizes.network(8, 2).unwrap(), 8, 0.03, &golden()["alexnet"]);
}

/// Runs the other tests of this file in a process that keeps to vectors of eight numbers.
#[test]
fn all_of_this_holds_with_narrower_vectors() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let status = command.arg("pytorch").env("PACELINE_TEST_NARROW_VECTORS", "1").status().unwrap();
    assert!(status.success());
}

fn follow(mut model: Network, count: usize, rate: f64, losses: &Value) {
    let mut params = start(&model);
    let spec = Momentum::new(rate, 0.9);
    let mut optimizer = OptimizerState::new(spec, model.layout(), 0..params.len());
    let mut grad = vec![0.0; params.len()];
    for (step, wanted) in floats(losses).into_iter().enumerate() {
        let (x, labels) = batch(&model, count, step % 3);
        let block = Batch::dense(&x, &labels);
        let loss =
            model.gradient(&params, block, 1.0 / count as f32, OutputMode::Overwrite, &mut grad);
        assert!((loss - wanted).abs() < 1e-3, "step {step}: loss {loss}, not {wanted}");
        optimizer.apply(step as u64, 0, &mut params, &grad);
    }
}

fn floats(values: &Value) -> Vec<f32> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap() as f32).collect()
}
