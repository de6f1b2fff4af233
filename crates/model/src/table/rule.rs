//! Which optimizers a table runs, and how.

use crate::optimizer::{AdaGrad, Ftrl, OptimizerSpec, Sgd};

/// How a table updates the parameters that a step touches.
#[derive(Clone, Copy, Debug)]
pub(super) enum TableRule {
    /// Plain SGD; decay is a common factor of all parameters.
    Sgd,
    AdaGrad(AdaGrad),
    /// The parameters are not stored: they follow from the state.
    Ftrl(Ftrl),
    /// Any other optimizer, called for the parameters that have a gradient.
    Touched,
}

impl TableRule {
    /// The way to run an optimizer exactly, or why there is none and what to use instead.
    pub(super) fn of(spec: &OptimizerSpec) -> Result<Self, String> {
        let decays = spec.weights.decay != 0.0 || spec.biases.decay != 0.0;
        let name = spec.optimizer().name();
        spec.check()?;
        if spec.weights.l1 != 0.0 || spec.biases.l1 != 0.0 {
            return Err(format!(
                "{name} with l1 would have to touch every parameter at every step; use ftrl with \
                 l1, or a dense model (model.dense = true)"
            ));
        }
        if spec.downcast::<Sgd>().is_some() {
            return Ok(Self::Sgd);
        }
        if let Some(&ftrl) = spec.downcast::<Ftrl>() {
            if decays {
                return Err("ftrl has l2 in place of decay; set train.optimizer.l2".into());
            }
            return Ok(Self::Ftrl(ftrl));
        }
        if !spec.optimizer().ignores_zero_gradients() {
            return Err(format!(
                "{name} moves every parameter at every step, which a sparse model cannot afford; \
                 use sgd, adagrad or ftrl"
            ));
        }
        if decays {
            return Err(format!(
                "{name} with decay would have to touch every parameter at every step; use ftrl \
                 with l2, or sgd with decay"
            ));
        }
        Ok(spec.downcast::<AdaGrad>().map_or(Self::Touched, |&ada_grad| Self::AdaGrad(ada_grad)))
    }

    /// How many numbers a table stores for each parameter.
    pub(super) fn width(self, spec: &OptimizerSpec) -> usize {
        let states = spec.optimizer().state_names().len();
        if matches!(self, Self::Ftrl(_)) { states } else { 1 + states }
    }
}
