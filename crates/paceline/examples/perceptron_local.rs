//! Trains a perceptron of your own in this process.

mod perceptron;

use paceline::prelude::*;
use perceptron::Perceptron;

pub(crate) fn main() -> Result<(), TrainError> {
    let report = Session::new(Perceptron::new(784, 64, 10), Digits::generate(6_000, 1))
        .optimizer(Momentum::new(0.05, 0.9))
        .batch(60)
        .stop(Stop::epochs(3).or(Stop::test_loss(0.1)))
        .run()?;
    println!("{:.2} % after {} steps", 100.0 * report.accuracy, report.steps);
    println!("held back by {}", report.verdict);
    assert!(report.accuracy > 0.9, "the perceptron learns");
    Ok(())
}
