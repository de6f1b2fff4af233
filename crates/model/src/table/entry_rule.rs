//! Which optimizers an entry table runs.

use crate::optimizer::{AdaGrad, Adam, Ftrl, OptimizerSpec};

/// How an entry table updates the entries of a gradient.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryRule {
    /// With the optimizer itself.
    Plain,
    /// FTRL for the linear part, whose numbers follow from the state; AdaGrad for everything else.
    LinearFtrl(Ftrl),
}

/// What FTRL leaves to AdaGrad.
pub(super) const BESIDE_FTRL: AdaGrad = AdaGrad { epsilon: 1e-8, initial: 0.0 };

impl EntryRule {
    /// The way to run an optimizer on entries, or why there is none and what to use instead.
    pub(super) fn of(spec: &OptimizerSpec) -> Result<Self, String> {
        let name = spec.optimizer().name();
        spec.check()?;
        if spec.weights.l1 != 0.0 || spec.biases.l1 != 0.0 {
            return Err(format!(
                "{name} with l1 would have to touch every entry at every step; use ftrl with l1"
            ));
        }
        if let Some(&ftrl) = spec.downcast::<Ftrl>() {
            if spec.weights.decay != 0.0 || spec.biases.decay != 0.0 {
                return Err("ftrl has l2 in place of decay; set train.optimizer.l2".into());
            }
            return Ok(Self::LinearFtrl(ftrl));
        }
        // Adam is lazy here: the means of an entry do not fade while no gradient touches it.
        if !spec.optimizer().ignores_zero_gradients() && spec.downcast::<Adam>().is_none() {
            return Err(format!(
                "{name} moves every parameter at every step, which a sparse model cannot afford; \
                 use sgd, adagrad, adam or ftrl"
            ));
        }
        Ok(Self::Plain)
    }

    /// How many numbers a table stores for each parameter.
    pub(super) fn cells(self, spec: &OptimizerSpec) -> usize {
        let states = spec.optimizer().state_names().len();
        if matches!(self, Self::LinearFtrl(_)) { states } else { 1 + states }
    }
}
