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
    /// Weight decay: `g += decay * p` before the optimizer uses the gradient.
    pub decay: f32,
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
        let group = GroupSettings { rate: rate.into(), decay: 0.0 };
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
