//! An optimizer with the settings that job files and library users choose.

use std::any::Any;
use std::sync::Arc;

use super::update::{MAX_STATES, Optimizer};
use crate::layout::Group;
use crate::schedule::Schedule;

/// Settings that may differ between groups of tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupSettings {
    /// The learning rate over the global steps.
    pub rate: Schedule,
    /// Steps in which the rate rises to the beginning of its schedule.
    pub warm_up: u64,
    /// Weight decay: `g += decay * p` before the optimizer uses the gradient. It is the gradient of
    /// an L2 penalty of `decay / 2 * p * p`.
    pub decay: f32,
    /// The factor of an L1 penalty, `l1 * |p|`.
    pub l1: f32,
}

impl GroupSettings {
    /// The learning rate at a global step.
    pub fn rate_at(&self, step: u64) -> f32 {
        self.rate.after_warm_up(self.warm_up, step)
    }
}

/// An optimizer with its learning rates and decay: everything but its state.
///
/// ```
/// use paceline_model::{Adam, OptimizerSpec, Schedule, Sgd};
///
/// let plain = Sgd::new(0.1).bias_rate(0.2);
/// let falling = Schedule::Exponential { rate: 0.001, factor: 0.5, every: 1_000 };
/// let adam = OptimizerSpec::new(Adam { beta1: 0.8, ..Adam::default() }, falling).decay(1e-4);
/// assert_eq!(plain.weights.rate.at(0), 0.1);
/// assert_eq!(adam.optimizer().state_names(), ["mean", "square"]);
/// ```
#[derive(Clone, Debug)]
pub struct OptimizerSpec {
    optimizer: Arc<dyn Optimizer>,
    /// Settings of [`Group::Weights`].
    pub weights: GroupSettings,
    /// Settings of [`Group::Biases`].
    pub biases: GroupSettings,
}

impl OptimizerSpec {
    /// An optimizer with one learning rate for all parameters and no decay.
    ///
    /// # Panics
    /// If the optimizer keeps more than [`MAX_STATES`] values for each parameter.
    pub fn new(optimizer: impl Optimizer, rate: impl Into<Schedule>) -> Self {
        let states = optimizer.state_names().len();
        assert!(
            states <= MAX_STATES,
            "{} keeps {states} values for each parameter, but at most {MAX_STATES} are supported",
            optimizer.name()
        );
        let group = GroupSettings { rate: rate.into(), warm_up: 0, decay: 0.0, l1: 0.0 };
        Self { optimizer: Arc::new(optimizer), weights: group, biases: group }
    }

    /// Sets the learning rate of all parameters.
    #[must_use]
    pub fn rate(mut self, rate: impl Into<Schedule>) -> Self {
        let rate = rate.into();
        self.weights.rate = rate;
        self.biases.rate = rate;
        self
    }

    /// Sets the decay of all parameters.
    #[must_use]
    pub fn decay(mut self, decay: f32) -> Self {
        self.weights.decay = decay;
        self.biases.decay = decay;
        self
    }

    /// Lets the rate of all parameters rise over the first `steps` steps to the beginning of its
    /// schedule, which then counts from there.
    ///
    /// ```
    /// use paceline_model::{Schedule, Sgd};
    ///
    /// let falling = Schedule::Cosine { rate: 0.4, end: 0.0, over: 10_000 };
    /// let spec = Sgd::new(falling).warm_up(3);
    /// let rates = [0, 1, 2, 3, 10_003].map(|step| spec.weights.rate_at(step));
    /// assert_eq!(rates, [0.1, 0.2, 0.3, 0.4, 0.0]);
    /// ```
    #[must_use]
    pub fn warm_up(mut self, steps: u64) -> Self {
        self.weights.warm_up = steps;
        self.biases.warm_up = steps;
        self
    }

    /// Adds an L1 penalty of `l1 * |p|` for each parameter `p` of [`Group::Weights`], which makes
    /// many of them exactly zero. [`check`](Self::check) refuses it for optimizers that cannot
    /// apply it exactly.
    #[must_use]
    pub fn l1(mut self, l1: f32) -> Self {
        self.weights.l1 = l1;
        self
    }

    /// Adds an L2 penalty of `l2 / 2 * p * p` for each parameter `p` of [`Group::Weights`]: a decay
    /// of the weights alone.
    #[must_use]
    pub fn l2(mut self, l2: f32) -> Self {
        self.weights.decay = l2;
        self
    }

    /// Checks the learning rates and the names of the state, and that the optimizer applies its
    /// penalties exactly.
    ///
    /// # Errors
    /// What is wrong, and what to use instead.
    pub fn check(&self) -> Result<(), String> {
        for rate in [self.weights.rate.at(0), self.biases.rate.at(0)] {
            if !(rate.is_finite() && rate >= 0.0) {
                return Err(format!("the learning rate is {rate}, but must be 0 or more"));
            }
        }
        let names = self.optimizer.state_names();
        if let Some(name) = names
            .iter()
            .enumerate()
            .find_map(|(at, name)| names[..at].contains(name).then_some(name))
        {
            let optimizer = self.optimizer.name();
            return Err(format!(
                "{optimizer} has two states named {name:?}; name each differently"
            ));
        }
        let has_l1 = self.weights.l1 != 0.0 || self.biases.l1 != 0.0;
        if !has_l1 || self.optimizer.applies_l1() {
            return Ok(());
        }
        let name = self.optimizer.name();
        if name == "ftrl" {
            return Err("ftrl has an l1 of its own; set Ftrl { l1, .. }".into());
        }
        Err(format!(
            "{name} has no exact L1 penalty: its steps are not those of a gradient with one rate \
             for each parameter, after which the penalty moves the parameter towards zero; use \
             sgd, adagrad or ftrl"
        ))
    }

    /// Sets the learning rate of [`Group::Biases`] alone.
    #[must_use]
    pub fn bias_rate(mut self, rate: impl Into<Schedule>) -> Self {
        self.biases.rate = rate.into();
        self
    }

    /// Sets the decay of [`Group::Biases`] alone. After [`decay`](Self::decay), `bias_decay(0.0)`
    /// leaves only the weights to decay, as is usual.
    #[must_use]
    pub fn bias_decay(mut self, decay: f32) -> Self {
        self.biases.decay = decay;
        self
    }

    /// Sets the settings of both groups.
    #[must_use]
    pub fn groups(mut self, weights: GroupSettings, biases: GroupSettings) -> Self {
        self.weights = weights;
        self.biases = biases;
        self
    }

    /// The formula.
    pub fn optimizer(&self) -> &dyn Optimizer {
        &*self.optimizer
    }

    /// The settings of a group.
    pub fn group(&self, group: Group) -> &GroupSettings {
        match group {
            Group::Weights => &self.weights,
            Group::Biases => &self.biases,
        }
    }

    /// The optimizer as one of a known type, if it is of that type.
    pub fn downcast<O: Optimizer>(&self) -> Option<&O> {
        let any: &dyn Any = self.optimizer();
        any.downcast_ref()
    }
}
