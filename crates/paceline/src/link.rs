//! Where a worker's parameters live, seen from the worker.

use paceline_model::{Model, Optimizer, OptimizerSpec};
use paceline_observe::PhaseClock;

use crate::Failure;

/// A worker's way to the parameters: pull them, compute, push the gradient.
///
/// A push also fetches what the next pull gives, so that a step takes one round trip; the link
/// tells the clock what that time goes to.
pub trait Link {
    /// The parameters to compute the next gradient with.
    fn params(&self) -> &[f32];

    /// The step of the plan whose batch is to be computed next.
    fn next_step(&self) -> u64;

    /// Hands over the gradient of that batch, which had so many examples.
    fn push(
        &mut self,
        examples: usize,
        grad: &[f32],
        clock: &mut PhaseClock,
    ) -> Result<Pushed, Failure>;

    /// Whether the run is over, so that nothing more is to be pushed.
    fn is_stopping(&self) -> bool;

    /// How many updates have been made, as far as this worker knows.
    fn global_step(&self) -> u64;

    /// Asks everybody to stop; only the chief does.
    fn ask_to_stop(&mut self, reason: &str) -> Result<(), Failure>;
}

/// What became of a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It was used.
    Applied,
    /// It came too late and was not used.
    Dropped,
}

/// Parameters that live in this process: mode `single`.
pub struct Local {
    params: Vec<f32>,
    optimizer: Optimizer,
    global_step: u64,
    stopping: bool,
}

impl Local {
    /// Parameters at the model's start.
    pub fn new(model: &dyn Model, seed: u64, optimizer: OptimizerSpec) -> Self {
        let mut params = vec![0.0; model.layout().len()];
        model.initialise(seed, &mut params);
        let optimizer = Optimizer::new(optimizer, model.layout(), 0..params.len());
        Self { params, optimizer, global_step: 0, stopping: false }
    }
}

impl Link for Local {
    fn params(&self) -> &[f32] {
        &self.params
    }

    fn next_step(&self) -> u64 {
        self.global_step
    }

    fn push(&mut self, _: usize, grad: &[f32], _: &mut PhaseClock) -> Result<Pushed, Failure> {
        self.optimizer.apply(self.global_step, 0, &mut self.params, grad);
        self.global_step += 1;
        Ok(Pushed::Applied)
    }

    fn is_stopping(&self) -> bool {
        self.stopping
    }

    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn ask_to_stop(&mut self, _reason: &str) -> Result<(), Failure> {
        self.stopping = true;
        Ok(())
    }
}
