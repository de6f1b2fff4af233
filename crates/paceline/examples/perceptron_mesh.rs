//! Trains a perceptron of your own by all-reduce between two workers.

use paceline::prelude::*;

#[derive(Clone)]
struct Perceptron {
    layout: Layout,
    hidden: DenseLayer,
    output: DenseLayer,
}

fn perceptron(inputs: usize, hidden: usize, classes: usize) -> Perceptron {
    let mut layout = Layout::new();
    let first = DenseLayer::relu(&mut layout, "hidden", inputs, hidden);
    let second = DenseLayer::linear(&mut layout, "output", hidden, classes);
    Perceptron { layout, hidden: first, output: second }
}

impl Model for Perceptron {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.hidden.inputs()
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        let hidden = self.hidden.forward(params, block.values());
        let scores = self.output.forward(params, hidden);
        let loss = softmax_cross_entropy(scores, block.labels, share);
        self.output.backward(params, hidden, mode, grad);
        self.hidden.param_gradient(block.values(), mode, grad);
        share * loss
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        let hidden = self.hidden.forward(params, block.values());
        tally.count_block(self.output.forward(params, hidden), block.labels);
    }
}

pub(crate) fn main() -> Result<(), TrainError> {
    let report = Session::new(perceptron(784, 64, 10), Digits::generate(6_000, 1))
        .optimizer(Momentum::new(0.05, 0.9))
        .batch(60)
        .stop(Stop::epochs(3).or(Stop::test_loss(0.1)))
        .share(Sharing::mesh(2))
        .run()?;
    println!("{:.2} % after {} steps", 100.0 * report.accuracy, report.steps);
    assert!(report.accuracy > 0.9, "the perceptron learns");
    Ok(())
}
