//! Tests of dense layers.

use super::*;
use crate::layers::softmax_cross_entropy;
use crate::seed::fill_uniform;

const VALUES: [f32; 6] = [0.5, -1.0, 0.25, 2.0, 0.0, -0.75];
const LABELS: [u32; 3] = [0, 2, 1];

/// Two layers, and the loss of three examples under them.
struct TwoLayers {
    hidden: DenseLayer,
    output: DenseLayer,
}

impl TwoLayers {
    fn new() -> (Self, Layout) {
        let mut layout = Layout::new();
        let hidden = DenseLayer::relu(&mut layout, "hidden", 2, 5);
        let output = DenseLayer::linear(&mut layout, "output", 5, 3);
        (Self { hidden, output }, layout)
    }

    fn gradient(&mut self, params: &[f32], mode: OutputMode, grad: &mut [f32]) -> f32 {
        let hidden = self.hidden.forward(params, &VALUES);
        let scores = self.output.forward(params, hidden);
        let loss = softmax_cross_entropy(scores, &LABELS, 1.0);
        self.output.backward(params, hidden, mode, grad);
        self.hidden.param_gradient(&VALUES, mode, grad);
        loss
    }
}

#[test]
fn the_gradient_agrees_with_finite_differences() {
    let (mut layers, layout) = TwoLayers::new();
    let mut params = vec![0.0; layout.len()];
    fill_uniform(3, 0, 0.8, &mut params);
    let mut grad = vec![f32::NAN; params.len()];
    layers.gradient(&params, OutputMode::Overwrite, &mut grad);
    let mut scratch = vec![0.0; params.len()];
    for index in 0..params.len() {
        let mut loss_at = |value: f32| {
            let mut moved = params.clone();
            moved[index] = value;
            layers.gradient(&moved, OutputMode::Overwrite, &mut scratch)
        };
        let step = 1e-2;
        let slope = (loss_at(params[index] + step) - loss_at(params[index] - step)) / step / 2.0;
        assert!((slope - grad[index]).abs() < 2e-3, "{index}: {slope} and {}", grad[index]);
    }
}

#[test]
fn a_second_block_adds_to_the_gradient() {
    let (mut layers, layout) = TwoLayers::new();
    let params = vec![0.25; layout.len()];
    let mut once = vec![f32::NAN; params.len()];
    layers.gradient(&params, OutputMode::Overwrite, &mut once);
    let mut twice = once.clone();
    layers.gradient(&params, OutputMode::Add, &mut twice);
    for (once, twice) in once.iter().zip(&twice) {
        assert!((2.0 * once - twice).abs() < 1e-6, "{once} and {twice}");
    }
}
