//! Tests of linear models of sparse rows.

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
    let loss = model.gradient(&case.params, case.batch(), share, OutputMode::Overwrite, &mut grad);
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
    let loss = model.gradient(&case.params, case.batch(), 0.5, OutputMode::Overwrite, &mut whole);
    let mut grad = vec![f32::NAN; 12];
    let (mut sum, mut mode) = (0.0, OutputMode::Overwrite);
    for range in [0..5, 5..17, 17..24] {
        let rows = Rows { starts: &case.starts[range.start..=range.end], ..case.batch().rows() };
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
    let loss =
        model.gradient(&case.params, case.batch(), 1.0 / 30.0, OutputMode::Overwrite, &mut grad);
    let mut tally = Tally::default();
    model.evaluate(&case.params, case.batch(), &mut tally);
    let score = tally.score();
    assert_eq!(score.examples, 30);
    assert!((score.loss - f64::from(loss)).abs() < 1e-6);
    assert!(score.auc.is_some() && score.precision.is_some());
}
