//! Logistic regression over sparse examples: two classes, one weight a feature, one bias.
//!
//! The model never sees the many million parameters. It works on a *compact slice*: one
//! parameter for each key of the batch, in the order of the keys, and the bias at the end,
//! because its key is the greatest. Shown all parameters instead, with the features themselves
//! as places, it does the same: so the two ways can be held against each other.

use crate::kernels::Onto;
use crate::{Batch, Group, LayerShape, Layout, Model, Node, Rows, Tally};

/// Examples that go forward and backward together. Nothing is kept but a number for each, so
/// this is only a bound; the compact slice stays in the cache whatever it is.
const BLOCK: usize = 4_096;

/// Partial sums of a score, so that additions need not wait for each other.
const LANES: usize = 4;

/// Logistic regression from an all-zero start; classes are 0 and 1.
///
/// Its tensors are `weight` (`[features]`) and `bias` (`[1]`).
pub struct Logistic {
    features: usize,
    layout: Layout,
}

impl Logistic {
    /// A model for examples of so many features.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(features: usize) -> Self {
        assert!(features > 0, "a model needs a feature");
        let mut layout = Layout::new();
        layout.push("weight", &[features], Group::Weights);
        layout.push("bias", &[1], Group::Biases);
        Self { features, layout }
    }
}

impl Model for Logistic {
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
        onto: Onto,
        grad: &mut [f32],
    ) -> f32 {
        assert_eq!(params.len(), grad.len(), "gradient");
        if onto == Onto::Zero {
            grad.fill(0.0);
        }
        let (mut loss, mut bias) = (0.0, 0.0);
        for (row, &label) in examples(block.rows(), block.len()).zip(block.labels) {
            let point = Point::new(row.score(params), label);
            let delta = share * point.slope;
            row.spread(delta, grad);
            bias += delta;
            loss += point.loss;
        }
        if let Some(last) = grad.last_mut() {
            *last += bias;
        }
        loss * share
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        vec![LayerShape { name: "logistic".into(), output: vec![1] }]
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        for (row, &label) in examples(block.rows(), block.len()).zip(block.labels) {
            let score = row.score(params);
            tally.count_two_class(score, label, Point::new(score, label).loss);
        }
    }

    fn graph(&self) -> Vec<Node> {
        let features = self.features as i64;
        vec![
            Node::new("input/examples", "Placeholder", &[], &[-1, features]),
            Node::new("input/labels", "Placeholder", &[], &[-1]),
            Node::new("logistic/weight", "VariableV2", &[], &[features]),
            Node::new("logistic/bias", "VariableV2", &[], &[1]),
            Node::new(
                "logistic/scores",
                "SparseTensorDenseMatMul",
                &["input/examples", "logistic/weight"],
                &[-1],
            ),
            Node::new("logistic/add", "BiasAdd", &["logistic/scores", "logistic/bias"], &[-1]),
            Node::new(
                "loss/cross_entropy",
                "SigmoidCrossEntropyWithLogits",
                &["logistic/add", "input/labels"],
                &[-1],
            ),
            Node::new("loss/mean", "Mean", &["loss/cross_entropy"], &[]),
        ]
    }
}

/// The loss of an example and its derivative by the score.
struct Point {
    loss: f32,
    slope: f32,
}

impl Point {
    /// No exponential of a positive number is taken, so nothing overflows.
    #[inline]
    fn new(score: f32, label: u32) -> Self {
        debug_assert!(label < 2, "class {label} of a model of two");
        let target = if label == 0 { 0.0 } else { 1.0 };
        let small = (-score.abs()).exp();
        let likely = 1.0 / (1.0 + small);
        let chance = if score >= 0.0 { likely } else { small * likely };
        Self { loss: score.max(0.0) - target * score + small.ln_1p(), slope: chance - target }
    }
}

/// One example: the places of its values and the values, none if all are 1.
struct Example<'a> {
    places: &'a [u32],
    values: &'a [f32],
}

/// The examples of a block, one by one.
fn examples(rows: Rows<'_>, count: usize) -> impl Iterator<Item = Example<'_>> {
    assert_eq!(rows.starts.len(), count + 1, "rows of the block");
    rows.starts.windows(2).map(move |ends| {
        let range = ends[0] as usize..ends[1] as usize;
        let values = if rows.values.is_empty() { &[] } else { &rows.values[range.clone()] };
        Example { places: &rows.places[range], values }
    })
}

impl Example<'_> {
    /// The score that the parameters give, in an order of additions that depends on nothing but
    /// the number of values.
    #[inline]
    fn score(&self, params: &[f32]) -> f32 {
        let bias = params[params.len() - 1];
        let mut sums = [0.0f32; LANES];
        if self.values.is_empty() {
            let mut fours = self.places.chunks_exact(LANES);
            for four in &mut fours {
                for (sum, &place) in sums.iter_mut().zip(four) {
                    *sum += params[place as usize];
                }
            }
            for (sum, &place) in sums.iter_mut().zip(fours.remainder()) {
                *sum += params[place as usize];
            }
        } else {
            let mut fours = self.places.chunks_exact(LANES);
            let mut values = self.values.chunks_exact(LANES);
            for (four, values) in (&mut fours).zip(&mut values) {
                for ((sum, &place), value) in sums.iter_mut().zip(four).zip(values) {
                    *sum += params[place as usize] * value;
                }
            }
            let rest = fours.remainder().iter().zip(values.remainder());
            for (sum, (&place, value)) in sums.iter_mut().zip(rest) {
                *sum += params[place as usize] * value;
            }
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3]) + bias
    }

    /// Adds `delta` times the values to where they belong.
    #[inline]
    fn spread(&self, delta: f32, grad: &mut [f32]) {
        if self.values.is_empty() {
            self.places.iter().for_each(|&place| grad[place as usize] += delta);
        } else {
            let pairs = self.places.iter().zip(self.values);
            pairs.for_each(|(&place, value)| grad[place as usize] += delta * value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of odd lengths (an empty one among them) over so many features.
    struct Case {
        starts: Vec<u32>,
        places: Vec<u32>,
        values: Vec<f32>,
        labels: Vec<u32>,
        params: Vec<f32>,
    }

    impl Case {
        fn new(rows: usize, features: usize) -> Self {
            let mut case = Case {
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

    fn check_finite_differences(case: &Case) {
        let mut model = Logistic::new(case.params.len() - 1);
        let share = 1.0 / case.labels.len() as f32;
        let mut grad = vec![f32::NAN; case.params.len()];
        let loss = model.gradient(&case.params, case.batch(), share, Onto::Zero, &mut grad);
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
            let mut case = Case::new(rows, features);
            check_finite_differences(&case);
            case.values.clear();
            check_finite_differences(&case);
        }
    }

    #[test]
    fn onto_what_is_there_adds_up_over_blocks() {
        let case = Case::new(24, 11);
        let mut model = Logistic::new(11);
        let mut whole = vec![f32::NAN; 12];
        let loss = model.gradient(&case.params, case.batch(), 0.5, Onto::Zero, &mut whole);
        let mut grad = vec![f32::NAN; 12];
        let (mut sum, mut onto) = (0.0, Onto::Zero);
        for range in [0..5, 5..17, 17..24] {
            let rows =
                Rows { starts: &case.starts[range.start..=range.end], ..case.batch().rows() };
            let block = Batch::sparse(rows, &case.labels[range]);
            sum += model.gradient(&case.params, block, 0.5, onto, &mut grad);
            onto = Onto::Present;
        }
        assert!((sum - loss).abs() < 1e-5);
        for (got, want) in grad.iter().zip(&whole) {
            assert!((got - want).abs() < 1e-5, "{got}, not {want}");
        }
    }

    #[test]
    fn values_of_one_are_the_same_as_none() {
        let mut case = Case::new(17, 9);
        let mut model = Logistic::new(9);
        let mut grads = [vec![0.0; 10], vec![0.0; 10]];
        case.values.fill(1.0);
        let loss = model.gradient(&case.params, case.batch(), 0.1, Onto::Zero, &mut grads[0]);
        case.values.clear();
        let bare = model.gradient(&case.params, case.batch(), 0.1, Onto::Zero, &mut grads[1]);
        assert_eq!(loss, bare);
        assert_eq!(grads[0], grads[1]);
    }

    #[test]
    fn loss_and_gradient_stay_finite_at_huge_scores() {
        for score in [1e30, -1e30, 90.0, -90.0, 0.0, -0.0] {
            for label in [0, 1] {
                let point = Point::new(score, label);
                assert!(point.loss.is_finite() && point.slope.is_finite(), "{score} {label}");
                assert!(point.loss >= 0.0 && point.slope.abs() <= 1.0, "{score} {label}");
            }
        }
    }

    #[test]
    fn evaluation_counts_what_the_gradient_sees() {
        let case = Case::new(30, 7);
        let mut model = Logistic::new(7);
        let mut grad = vec![0.0; 8];
        let loss = model.gradient(&case.params, case.batch(), 1.0 / 30.0, Onto::Zero, &mut grad);
        let mut tally = Tally::default();
        model.evaluate(&case.params, case.batch(), &mut tally);
        let score = tally.score();
        assert_eq!(score.examples, 30);
        assert!((score.loss - f64::from(loss)).abs() < 1e-6);
        assert!(score.auc.is_some() && score.precision.is_some());
    }
}
