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
    loss: L,
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
        Self { features, layout, loss }
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
        let bias = params.last().copied().unwrap_or_default();
        let (mut loss, mut bias_slope) = (0.0, 0.0);
        for row in block.sparse_rows() {
            let point = self.loss.loss(row.dot(params) + bias, row.label);
            let delta = share * point.slope;
            row.add_scaled(delta, grad);
            bias_slope += delta;
            loss += point.loss;
        }
        if let Some(last) = grad.last_mut() {
            *last += bias_slope;
        }
        loss * share
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        vec![LayerShape { name: self.loss.name().into(), output: vec![1] }]
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        let bias = params.last().copied().unwrap_or_default();
        for row in block.sparse_rows() {
            let score = row.dot(params) + bias;
            tally.count_two_class(score, row.label, self.loss.loss(score, row.label).loss);
        }
    }

    fn graph(&self) -> Vec<OpNode> {
        let features = self.features as i64;
        let [weight, bias, scores, add] =
            ["weight", "bias", "scores", "add"].map(|part| format!("{}/{part}", self.loss.name()));
        vec![
            OpNode::new("input/examples", "Placeholder", &[], &[-1, features]),
            OpNode::new("input/labels", "Placeholder", &[], &[-1]),
            OpNode::new(&weight, "VariableV2", &[], &[features]),
            OpNode::new(&bias, "VariableV2", &[], &[1]),
            OpNode::new(&scores, "SparseTensorDenseMatMul", &["input/examples", &weight], &[-1]),
            OpNode::new(&add, "BiasAdd", &[&scores, &bias], &[-1]),
            OpNode::new(
                "loss/cross_entropy",
                self.loss.operation(),
                &[&add, "input/labels"],
                &[-1],
            ),
            OpNode::new("loss/mean", "Mean", &["loss/cross_entropy"], &[]),
        ]
    }
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
mod tests {
    use super::*;
    use crate::batch::Rows;

    /// Rows of odd lengths, one of them empty.
    struct LinearCase {
        starts: Vec<u32>,
        places: Vec<u32>,
        values: Vec<f32>,
        labels: Vec<u32>,
        params: Vec<f32>,
    }

    impl LinearCase {
        fn new(rows: usize, features: usize) -> Self {
            let mut case = Self {
                starts: vec![0],
                places: Vec::new(),
                values: Vec::new(),
                labels: (0..rows as u32).map(|row| row * 7 / 3 % 2).collect(),
                params: (0..=features).map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0).collect(),
            };
            for row in 0..rows {
                for i in 0..row % 8 {
                    case.places.push(((row * 31 + i * 17) % features) as u32);
                    case.values.push(((row * 13 + i * 29) % 32) as f32 / 16.0 - 0.9);
                }
                case.starts.push(case.places.len() as u32);
            }
            case
        }

        fn batch(&self) -> Batch<'_> {
            let rows = Rows { starts: &self.starts, places: &self.places, values: &self.values };
            Batch::sparse(rows, &self.labels)
        }

        /// Mean loss in f64, with none of the model's code.
        fn plain_loss(&self, params: &[f64]) -> f64 {
            let mut loss = 0.0;
            for (row, &label) in self.labels.iter().enumerate() {
                let range = self.starts[row] as usize..self.starts[row + 1] as usize;
                let score: f64 = range
                    .map(|i| {
                        let value = self.values.get(i).map_or(1.0, |&value| f64::from(value));
                        params[self.places[i] as usize] * value
                    })
                    .sum::<f64>()
                    + params[params.len() - 1];
                loss += (1.0 + score.exp()).ln() - f64::from(label) * score;
            }
            loss / self.labels.len() as f64
        }
    }

    fn check_finite_differences(case: &LinearCase) {
        let mut model = Logistic::new(case.params.len() - 1);
        let share = 1.0 / case.labels.len() as f32;
        let mut grad = vec![f32::NAN; case.params.len()];
        let loss =
            model.gradient(&case.params, case.batch(), share, OutputMode::Overwrite, &mut grad);
        let mut wide: Vec<f64> = case.params.iter().map(|&p| f64::from(p)).collect();
        let plain = case.plain_loss(&wide);
        assert!((f64::from(loss) - plain).abs() < 1e-5, "loss {loss}, not {plain}");
        for i in 0..wide.len() {
            let (here, step) = (wide[i], 1e-5);
            wide[i] = here + step;
            let above = case.plain_loss(&wide);
            wide[i] = here - step;
            let below = case.plain_loss(&wide);
            wide[i] = here;
            let (slope, got) = ((above - below) / (2.0 * step), f64::from(grad[i]));
            assert!((got - slope).abs() < 1e-5, "parameter {i}: {got}, not {slope}");
        }
    }

    #[test]
    fn the_gradient_agrees_with_finite_differences() {
        for (rows, features) in [(1, 1), (2, 1), (9, 5), (40, 33)] {
            let mut case = LinearCase::new(rows, features);
            check_finite_differences(&case);
            case.values.clear();
            check_finite_differences(&case);
        }
    }

    #[test]
    fn gradients_of_blocks_add_up_to_the_batch() {
        let case = LinearCase::new(24, 11);
        let mut model = Logistic::new(11);
        let mut whole = vec![f32::NAN; 12];
        let loss =
            model.gradient(&case.params, case.batch(), 0.5, OutputMode::Overwrite, &mut whole);
        let mut grad = vec![f32::NAN; 12];
        let (mut sum, mut mode) = (0.0, OutputMode::Overwrite);
        for range in [0..5, 5..17, 17..24] {
            let rows =
                Rows { starts: &case.starts[range.start..=range.end], ..case.batch().rows() };
            let block = Batch::sparse(rows, &case.labels[range]);
            sum += model.gradient(&case.params, block, 0.5, mode, &mut grad);
            mode = OutputMode::Add;
        }
        assert!((sum - loss).abs() < 1e-5);
        for (got, want) in grad.iter().zip(&whole) {
            assert!((got - want).abs() < 1e-5, "{got}, not {want}");
        }
    }

    #[test]
    fn rows_without_values_count_as_ones() {
        let mut case = LinearCase::new(17, 9);
        let mut model = Logistic::new(9);
        let mut grads = [vec![0.0; 10], vec![0.0; 10]];
        case.values.fill(1.0);
        let loss =
            model.gradient(&case.params, case.batch(), 0.1, OutputMode::Overwrite, &mut grads[0]);
        case.values.clear();
        let bare =
            model.gradient(&case.params, case.batch(), 0.1, OutputMode::Overwrite, &mut grads[1]);
        assert_eq!(loss, bare);
        assert_eq!(grads[0], grads[1]);
    }

    #[test]
    fn loss_and_gradient_stay_finite_at_huge_scores() {
        for score in [1e30, -1e30, 90.0, -90.0, 0.0, -0.0] {
            for label in [0, 1] {
                let point = LogisticLoss.loss(score, label);
                assert!(point.loss.is_finite() && point.slope.is_finite(), "{score} {label}");
                assert!(point.loss >= 0.0 && point.slope.abs() <= 1.0, "{score} {label}");
            }
        }
    }

    #[test]
    fn evaluation_counts_what_the_gradient_sees() {
        let case = LinearCase::new(30, 7);
        let mut model = Logistic::new(7);
        let mut grad = vec![0.0; 8];
        let loss = model.gradient(
            &case.params,
            case.batch(),
            1.0 / 30.0,
            OutputMode::Overwrite,
            &mut grad,
        );
        let mut tally = Tally::default();
        model.evaluate(&case.params, case.batch(), &mut tally);
        let score = tally.score();
        assert_eq!(score.examples, 30);
        assert!((score.loss - f64::from(loss)).abs() < 1e-6);
        assert!(score.auc.is_some() && score.precision.is_some());
    }
}
