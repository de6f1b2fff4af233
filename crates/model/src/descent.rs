//! A step that updates the parameters while it is computed.
//!
//! Where the parameters live in the process that computes, nobody else needs the gradient. So each
//! piece of it is used as soon as nothing needs the old parameters any more, while it is in the
//! cache, and forgotten: the memory of a whole gradient is saved, and the time to write it and read
//! it again.

use crate::crew::Crew;
use crate::{Batch, OptimizerState, StepEvent};

/// A model that can make a whole step where its parameters live.
pub trait InPlace {
    /// Moves the parameters by the gradient of the mean loss of a block, without ever holding all
    /// of that gradient, and returns that loss. The bits are those of
    /// [`Model::gradient`](crate::Model::gradient) and [`OptimizerState::apply`].
    fn descend(&mut self, descent: Descent<'_>, block: Batch<'_>) -> f32 {
        self.descend_observed(descent, block, &mut |_| {})
    }

    /// The same with a call at every [`StepEvent`], which may come from another thread.
    fn descend_observed(
        &mut self,
        descent: Descent<'_>,
        block: Batch<'_>,
        observe: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> f32;
}

/// Parameters that a step may update while it is computed, with what updates them.
pub struct Descent<'a> {
    /// All parameters of the model.
    pub params: &'a mut [f32],
    /// The optimizer of all of them.
    pub optimizer: &'a mut OptimizerState,
    /// How many updates were made before this one.
    pub step: u64,
}

impl Descent<'_> {
    /// Updates the parameters from `start` on with their gradient.
    pub(crate) fn update(&mut self, crew: &Crew, start: usize, grad: &[f32]) {
        let params = &mut self.params[start..start + grad.len()];
        self.optimizer.apply_on(crew, self.step, start, params, grad);
    }
}
