//! Where a worker's parameters live, seen from the worker.

use paceline_model::{Model, Optimizer, OptimizerSpec};

use crate::Failure;

/// A worker's way to the parameters: pull them, compute, push the gradient.
pub trait Link {
    /// The parameters to compute the next gradient with.
    fn pull(&mut self) -> Result<&[f32], Failure>;

    /// Hands over the gradient of the batch of plan step `step`.
    fn push(&mut self, step: u64, grad: &[f32]) -> Result<(), Failure>;

    /// How many updates have been made, as far as this worker knows.
    fn global_step(&self) -> u64;
}

/// Parameters that live in this process: mode `single`.
pub struct Local {
    params: Vec<f32>,
    optimizer: Optimizer,
    global_step: u64,
}

impl Local {
    /// Parameters at the model's start.
    pub fn new(model: &dyn Model, seed: u64, optimizer: OptimizerSpec) -> Self {
        let mut params = vec![0.0; model.layout().len()];
        model.initialise(seed, &mut params);
        let optimizer = Optimizer::new(optimizer, model.layout(), 0..params.len());
        Self { params, optimizer, global_step: 0 }
    }
}

impl Link for Local {
    fn pull(&mut self) -> Result<&[f32], Failure> {
        Ok(&self.params)
    }

    fn push(&mut self, _step: u64, grad: &[f32]) -> Result<(), Failure> {
        self.optimizer.apply(self.global_step, 0, &mut self.params, grad);
        self.global_step += 1;
        Ok(())
    }

    fn global_step(&self) -> u64 {
        self.global_step
    }
}
