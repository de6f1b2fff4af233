//! Trains a sparse model of your own over a parameter server: a million features, three in each
//! row, and two parameters that every row touches.
//!
//! A row's score saturates: `gain * tanh(sum of its weights) + bias`. No single feature can then
//! make the model arbitrarily sure of a class.

use paceline::prelude::*;

#[derive(Clone)]
struct Saturating {
    layout: Layout,
    features: usize,
}

/// What the forward pass of a row leaves for the backward pass.
struct RowScore {
    tanh: f32,
    gain: f32,
    score: f32,
}

impl Saturating {
    fn new(features: usize) -> Self {
        let mut layout = Layout::new();
        layout.push("weight", &[features], Group::Weights);
        layout.push("gain", &[1], Group::Biases); // 1 is added to it: parameters start at 0
        layout.push("bias", &[1], Group::Biases);
        Self { layout, features }
    }

    /// The score of a row, from a compact slice that ends with the shared parameters.
    fn score(params: &[f32], row: Row<'_>) -> RowScore {
        let [.., gain, bias] = params else { unreachable!("two shared parameters") };
        let (tanh, gain) = (row.dot(params).tanh(), 1.0 + gain);
        RowScore { tanh, gain, score: gain * tanh + bias }
    }
}

impl Model for Saturating {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.features
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        mode.prepare(grad);
        let shared = grad.len() - 2;
        let mut loss = 0.0;
        for row in block.sparse_rows() {
            let RowScore { tanh, gain, score } = Self::score(params, row);
            let point = LogisticLoss.loss(score, row.label);
            let delta = share * point.slope;
            row.add_scaled(delta * gain * (1.0 - tanh * tanh), grad);
            grad[shared] += delta * tanh;
            grad[shared + 1] += delta;
            loss += point.loss;
        }
        share * loss
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        for row in block.sparse_rows() {
            let score = Self::score(params, row).score;
            tally.count_two_class(score, row.label, LogisticLoss.loss(score, row.label).loss);
        }
    }
}

/// The default suits a model whose first tensor has a parameter for each feature.
impl SparseModel for Saturating {}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A row's first key decides its class.
    let rows = (0..4_000u32).map(|i| {
        let first = i * 7919 % 100;
        let keys = [first, 1_000 + i * 31 % 5_000, 999_999 - i % 777];
        (keys, [], u32::from(first < 50))
    });
    let rows = SparseRows::from_rows(1_000_000, rows)?.hold_out(1_000, 1)?;
    let report = Session::sparse(Saturating::new(1_000_000), rows)
        .optimizer(AdaGrad::new(0.1))
        .stop(Stop::epochs(3))
        .share(Sharing::servers(1).workers(2).mode(Mode::Async))
        .run()?;
    println!("{:.2} % after {} steps", 100.0 * report.accuracy, report.steps);
    assert!(report.accuracy > 0.95, "the model learns");
    Ok(())
}
