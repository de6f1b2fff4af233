//! A copy of the state of a replica that is one step behind, while a peer's state overwrites it.
//!
//! The donor may be lost before it has sent everything. If it was the only replica that had made
//! the step, the run continues from the copy; without one it would have to begin again.

use paceline_model::OptimizerState;

/// The state of a replica that is whole.
#[derive(Debug)]
pub(super) struct KeptState {
    params: Vec<f32>,
    optimizer: Vec<Vec<f32>>,
    mean: Vec<f32>,
}

impl KeptState {
    pub(super) fn copy(params: &[f32], optimizer: &OptimizerState, mean: &[f32]) -> Self {
        Self {
            params: params.to_vec(),
            optimizer: optimizer.states().map(|(_, state)| state.to_vec()).collect(),
            mean: mean.to_vec(),
        }
    }

    pub(super) fn restore(
        &self,
        params: &mut [f32],
        optimizer: &mut OptimizerState,
        mean: &mut [f32],
    ) {
        params.copy_from_slice(&self.params);
        for (index, state) in self.optimizer.iter().enumerate() {
            optimizer.state_mut(index).copy_from_slice(state);
        }
        mean.copy_from_slice(&self.mean);
    }
}
