//! Trains with an optimizer of your own, which runs on the parameter servers.

use paceline::prelude::*;

/// Moves each parameter by the sign of its gradient.
#[derive(Debug)]
struct SignSgd;

impl Optimizer for SignSgd {
    fn name(&self) -> &'static str {
        "sign-sgd"
    }

    fn update(&self, _step: u64, update: ParamUpdate<'_>) {
        for (param, grad) in update.params.iter_mut().zip(update.grad) {
            let grad = grad + update.decay * *param;
            *param -= update.rate * grad.signum() * f32::from(grad != 0.0);
        }
    }
}

pub(crate) fn main() -> Result<(), TrainError> {
    let report = Session::new(Softmax::new(784, 10), Digits::generate(6_000, 1))
        .optimizer(OptimizerSpec::new(SignSgd, 0.001).decay(1e-4))
        .stop(Stop::epochs(2))
        .share(Sharing::servers(2).workers(2))
        .run()?;
    println!("{:.2} % after {} steps", 100.0 * report.accuracy, report.steps);
    assert!(report.accuracy > 0.8, "the model learns");
    Ok(())
}
