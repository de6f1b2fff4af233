//! Trains a linear sparse model with a loss of your own over a parameter server: a support vector
//! machine on a million features, three in each row.

use paceline::prelude::*;

/// The hinge loss of a row's score.
#[derive(Clone)]
struct Hinge;

impl ScoreLoss for Hinge {
    fn loss(&self, score: f32, label: u32) -> LossSlope {
        let sign = if label == 0 { -1.0 } else { 1.0 };
        let loss = (1.0 - sign * score).max(0.0);
        LossSlope { loss, slope: if loss > 0.0 { -sign } else { 0.0 } }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A row's first key decides its class.
    let rows = (0..4_000u32).map(|i| {
        let first = i * 7919 % 100;
        let keys = [first, 1_000 + i * 31 % 5_000, 999_999 - i % 777];
        (keys, [], u32::from(first < 50))
    });
    let rows = SparseRows::from_rows(1_000_000, rows)?.hold_out(1_000, 1)?;
    let report = Session::sparse(SparseLinear::with_loss(1_000_000, Hinge), rows)
        .optimizer(AdaGrad::new(0.1))
        .stop(Stop::epochs(3))
        .share(Sharing::servers(1).workers(2).mode(Mode::Async))
        .run()?;
    println!("{:.2} % after {} steps", 100.0 * report.accuracy, report.steps);
    assert!(report.accuracy > 0.95, "the model learns");
    Ok(())
}
