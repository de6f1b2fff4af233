//! The trait that every optimizer implements.

use std::any::Any;
use std::fmt::Debug;

/// The most state values that an optimizer may keep for each parameter.
///
/// The bound lets an update run without allocating memory.
pub const MAX_STATES: usize = 4;

/// A formula that turns a gradient into an update of parameters.
///
/// An optimizer holds its settings and nothing else: what it remembers for each parameter lives
/// where the parameters live and is passed to [`Optimizer::update`]. That is what lets a server
/// update one shard, one chunk at a time, on any thread. The new value of a parameter must
/// therefore depend on that parameter's own value, gradient and state alone; then the result has
/// the same bits however the parameters are split.
///
/// ```
/// use paceline_model::{Optimizer, OptimizerSpec, ParamUpdate};
///
/// /// Moves every parameter by the learning rate, in the direction of the gradient's sign.
/// #[derive(Debug)]
/// struct SignDescent;
///
/// impl Optimizer for SignDescent {
///     fn name(&self) -> &str {
///         "sign"
///     }
///
///     fn update(&self, _step: u64, update: ParamUpdate<'_>) {
///         let ParamUpdate { params, grad, rate, decay, .. } = update;
///         for (param, grad) in params.iter_mut().zip(grad) {
///             let grad = grad + decay * *param;
///             if grad != 0.0 {
///                 *param -= rate * grad.signum();
///             }
///         }
///     }
///
///     fn ignores_zero_gradients(&self) -> bool {
///         true
///     }
/// }
///
/// let spec = OptimizerSpec::new(SignDescent, 0.01);
/// assert_eq!(spec.optimizer().name(), "sign");
/// ```
pub trait Optimizer: Any + Debug + Send + Sync {
    /// The name in messages and records of a run, such as `adam`.
    fn name(&self) -> &str;

    /// The name of each value kept for every parameter, as written to checkpoints: at most
    /// [`MAX_STATES`], all different. State starts at zero.
    fn state_names(&self) -> &[&'static str] {
        &[]
    }

    /// Updates a run of parameters that share a learning rate and decay. It must add
    /// `decay * param` to each gradient; nothing else does.
    ///
    /// `step` is the number of updates made before this one. Write the loop as a plain pass over
    /// slices inside [`kernels::each`](crate::kernels::each) to have it run with the widest
    /// vectors of the processor.
    fn update(&self, step: u64, update: ParamUpdate<'_>);

    /// Whether a gradient of zero, without decay, leaves a parameter and its state exactly as
    /// they are, at any step and learning rate.
    ///
    /// A sparse model's gradient is zero for all but a few of its parameters. If this returns
    /// `true`, a [`Table`](crate::Table) updates those few and never visits the others;
    /// otherwise it refuses the optimizer.
    fn ignores_zero_gradients(&self) -> bool {
        false
    }

    /// Whether updates apply an L1 penalty ([`ParamUpdate::l1`]): after the step along the
    /// gradient, the parameter moves towards zero by `l1` times the length of that step for a
    /// gradient of 1, and stays at zero if it gets there.
    ///
    /// That is exact where the step is a rate times the gradient (the *proximal* step of the
    /// penalty). Otherwise leave this `false`, and the penalty is refused.
    fn applies_l1(&self) -> bool {
        false
    }
}

/// Moves a parameter towards zero by `way`, and no further than that.
#[inline(always)]
pub(super) fn shrink(param: f32, way: f32) -> f32 {
    let left = param.abs() - way;
    // Computed in any case and then chosen, so that there is no branch between vectors.
    let moved = left.copysign(param);
    if left > 0.0 { moved } else { 0.0 }
}

/// One run of parameters for [`Optimizer::update`] to update in place.
///
/// All slices are equally long, except the unused ones of `state`.
#[derive(Debug)]
pub struct ParamUpdate<'a> {
    /// The parameters, to be overwritten with their new values.
    pub params: &'a mut [f32],
    /// The gradient of the loss by each parameter.
    pub grad: &'a [f32],
    /// The state in the order of [`Optimizer::state_names`], to be overwritten; the rest of the
    /// array holds empty slices. `let [mean, square, ..] = update.state;` takes the first two.
    pub state: [&'a mut [f32]; MAX_STATES],
    /// The learning rate at this step.
    pub rate: f32,
    /// Weight decay: the optimizer adds `decay * param` to the gradient before it uses it.
    pub decay: f32,
    /// The factor of an L1 penalty; 0 unless [`Optimizer::applies_l1`].
    pub l1: f32,
}

impl ParamUpdate<'_> {
    pub(crate) fn split_in_half(self) -> (Self, Self) {
        let middle = self.params.len() / 2;
        let Self { params, grad, state, rate, decay, l1 } = self;
        let (params, more_params) = params.split_at_mut(middle);
        let (grad, more_grad) = grad.split_at(middle);
        let mut rest: [&mut [f32]; MAX_STATES] = Default::default();
        let mut rests = rest.iter_mut();
        let state = state.map(|values| {
            let middle = middle.min(values.len());
            let (left, right) = values.split_at_mut(middle);
            if let Some(rest) = rests.next() {
                *rest = right;
            }
            left
        });
        (
            Self { params, grad, state, rate, decay, l1 },
            Self { params: more_params, grad: more_grad, state: rest, rate, decay, l1 },
        )
    }
}
