//! A step that updates the parameters while it is computed.
//!
//! If the parameters live in the process that computes the gradient, the gradient is not needed
//! elsewhere. Each piece of it is then applied while it is in the cache, as soon as no layer needs
//! the old parameters any more. That saves the memory of a whole gradient, and the time to write
//! and read it.

use crate::batch::Batch;
use crate::optimizer::OptimizerState;
use crate::step_event::StepEvent;
use crate::thread_pool::ThreadPool;

/// A model that can make a whole step where its parameters live.
pub trait InPlace {
    /// Makes a step with the mean loss of a block, without ever holding the whole gradient, and
    /// returns that loss. The bits are those of
    /// [`Model::gradient`](crate::Model::gradient) and [`OptimizerState::apply`].
    fn descend(&mut self, descent: Descent<'_>, block: Batch<'_>) -> f32 {
        self.descend_observed(descent, block, &mut |_| {})
    }

    /// As [`InPlace::descend`], with a call at every [`StepEvent`], which may come from another
    /// thread.
    fn descend_observed(
        &mut self,
        descent: Descent<'_>,
        block: Batch<'_>,
        observe: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> f32;
}

/// The parameters of a step in place, with their optimizer.
pub struct Descent<'a> {
    /// All parameters of the model.
    pub params: &'a mut [f32],
    /// The optimizer, with state for all parameters.
    pub optimizer: &'a mut OptimizerState,
    /// The number of updates made before this one.
    pub step: u64,
}

impl Descent<'_> {
    /// Updates the parameters from `start` on with their gradient.
    pub(crate) fn update(&mut self, pool: &ThreadPool, start: usize, grad: &[f32]) {
        let params = &mut self.params[start..start + grad.len()];
        self.optimizer.apply_with(pool, self.step, start, params, grad);
    }
}
