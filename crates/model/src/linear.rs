//! Linear models over sparse rows: one weight for each feature, and a bias.
//!
//! The model never sees all of its millions of parameters. It works on a *compact slice*: one
//! parameter for each key of the batch, in the order of the keys, and the bias at the end.
//! Given all parameters instead, with the features themselves as keys, it computes the same
//! result; tests compare the two ways.

use crate::batch::Batch;
use crate::graph::OpNode;
use crate::kernels::OutputMode;
use crate::layout::{Group, Layout};
use crate::model::Model;
use crate::sparse_model::{LossSlope, ScoreLoss, SparseModel};
use crate::step_event::LayerShape;
use crate::tally::Tally;

/// Examples that go forward and backward together. Only one number is kept for each, so this is
/// no more than a bound; the compact slice stays in the cache whatever it is.
const BLOCK: usize = 4_096;

/// A linear model of two classes with any [`ScoreLoss`], from an all-zero start.
///
/// Its tensors are `weight` (`[features]`) and `bias` (`[1]`).
#[derive(Clone, Debug)]
pub struct SparseLinear<L> {
    features: usize,
    layout: Layout,
    loss: TrainingLoss<L>,
}

/// A loss of scores that are higher in training than in tests.
#[derive(Clone, Debug)]
struct TrainingLoss<L> {
    loss: L,
    /// Added to every score in training.
    offset: f32,
}

impl<L: ScoreLoss> ScoreLoss for TrainingLoss<L> {
    #[inline]
    fn loss(&self, score: f32, label: u32) -> LossSlope {
        self.loss.loss(score + self.offset, label)
    }
}

/// Logistic regression over sparse rows; classes are 0 and 1.
pub type Logistic = SparseLinear<LogisticLoss>;

impl Logistic {
    /// Logistic regression over `features` features.
    ///
    /// # Panics
    /// If `features` is zero.
    pub fn new(features: usize) -> Self {
        Self::with_loss(features, LogisticLoss)
    }

    /// The same model, for training on rows after only this share of class 0 was kept.
    ///
    /// Among such rows the odds of class 1 are `1 / share` times as high. So training adds
    /// `ln(1 / share)` to every score, as an intercept that is not learned; tests and predictions
    /// do not, and give the probabilities of all rows, at any moment of training.
    ///
    /// ```
    /// use paceline_model::{Batch, Logistic, Model, OutputMode, Rows};
    ///
    /// // A row without features, as often of class 1 as of class 0 after sampling.
    /// let rows = Rows { starts: &[0, 0, 0], places: &[], values: &[] };
    /// let batch = Batch::sparse(rows, &[0, 1]);
    /// let mut model = Logistic::new(1).sampled_negatives(0.1);
    /// let (mut bias, mut grad) = ([0.0], [0.0]);
    /// for _ in 0..300 {
    ///     model.gradient(&bias, batch, 0.5, OutputMode::Overwrite, &mut grad);
    ///     bias[0] -= grad[0];
    /// }
    /// let probability = 1.0 / (1.0 + (-bias[0]).exp());
    /// assert!((probability - 1.0 / 11.0).abs() < 1e-4); // One in eleven before.
    /// ```
    ///
    /// # Panics
    /// If `share` is not above 0 and at most 1.
    #[must_use]
    pub fn sampled_negatives(mut self, share: f64) -> Self {
        assert!(share > 0.0 && share <= 1.0, "a share of {share} of the negative rows");
        self.loss.offset = -share.ln() as f32;
        self
    }

    /// The model as an object, compiled with this crate's settings instead of the caller's.
    #[inline(never)]
    pub fn boxed(self) -> Box<dyn SparseModel> {
        Box::new(self)
    }
}

impl<L: ScoreLoss> SparseLinear<L> {
    /// A model of `features` features with a loss.
    ///
    /// # Panics
    /// If `features` is zero.
    pub fn with_loss(features: usize, loss: L) -> Self {
        assert!(features > 0, "a model needs a feature");
        let mut layout = Layout::new();
        layout.push("weight", &[features], Group::Weights);
        layout.push("bias", &[1], Group::Biases);
        Self { features, layout, loss: TrainingLoss { loss, offset: 0.0 } }
    }
}

impl<L: ScoreLoss> Model for SparseLinear<L> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.features
    }

    fn max_block(&self) -> usize {
        BLOCK
    }

    fn initialise(&self, _seed: u64, params: &mut [f32]) {
        params.fill(0.0);
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        assert_eq!(params.len(), grad.len(), "gradient");
        mode.prepare(grad);
        gradient_of_rows(&self.loss, params, block, share, grad)
    }

    fn uses_weights(&self) -> bool {
        true
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        vec![LayerShape { name: self.loss.loss.name().into(), output: vec![1] }]
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        let bias = params.last().copied().unwrap_or_default();
        let loss = &self.loss.loss;
        for row in block.sparse_rows() {
            let score = row.dot(params) + bias;
            tally.count_two_class(score, row.label, loss.loss(score, row.label).loss);
        }
    }

    fn graph(&self) -> Vec<OpNode> {
        let features = self.features as i64;
        let [weight, bias, scores, add] = ["weight", "bias", "scores", "add"]
            .map(|part| format!("{}/{part}", self.loss.loss.name()));
        vec![
            OpNode::new("input/examples", "Placeholder", &[], &[-1, features]),
            OpNode::new("input/labels", "Placeholder", &[], &[-1]),
            OpNode::new(&weight, "VariableV2", &[], &[features]),
            OpNode::new(&bias, "VariableV2", &[], &[1]),
            OpNode::new(&scores, "SparseTensorDenseMatMul", &["input/examples", &weight], &[-1]),
            OpNode::new(&add, "BiasAdd", &[&scores, &bias], &[-1]),
            OpNode::new(
                "loss/cross_entropy",
                self.loss.loss.operation(),
                &[&add, "input/labels"],
                &[-1],
            ),
            OpNode::new("loss/mean", "Mean", &["loss/cross_entropy"], &[]),
        ]
    }
}

/// Adds the gradient of a block to `grad` and returns the loss. It is not generic, so that it is
/// compiled in this crate, with this crate's settings, for every loss.
fn gradient_of_rows(
    score_loss: &dyn ScoreLoss,
    params: &[f32],
    block: Batch<'_>,
    share: f32,
    grad: &mut [f32],
) -> f32 {
    let bias = params.last().copied().unwrap_or_default();
    let (mut loss, mut bias_slope) = (0.0, 0.0);
    for row in block.sparse_rows() {
        let point = score_loss.loss(row.dot(params) + bias, row.label);
        let delta = share * row.weight * point.slope;
        row.add_scaled(delta, grad);
        bias_slope += delta;
        loss += row.weight * point.loss;
    }
    if let Some(last) = grad.last_mut() {
        *last += bias_slope;
    }
    loss * share
}

impl<L: ScoreLoss> SparseModel for SparseLinear<L> {
    fn score_loss(&self) -> Option<&dyn ScoreLoss> {
        Some(&self.loss)
    }
}

/// The cross-entropy of a sigmoid.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogisticLoss;

impl ScoreLoss for LogisticLoss {
    /// No exponential of a positive number is taken, so nothing overflows.
    #[inline]
    fn loss(&self, score: f32, label: u32) -> LossSlope {
        debug_assert!(label < 2, "class {label} of a model of two");
        let target = if label == 0 { 0.0 } else { 1.0 };
        let small = (-score.abs()).exp();
        let likely = 1.0 / (1.0 + small);
        let chance = if score >= 0.0 { likely } else { small * likely };
        let loss = score.max(0.0) - target * score + small.ln_1p();
        LossSlope { loss, slope: chance - target }
    }

    fn name(&self) -> &str {
        "logistic"
    }

    fn operation(&self) -> &'static str {
        "SigmoidCrossEntropyWithLogits"
    }
}

#[cfg(test)]
mod tests;
