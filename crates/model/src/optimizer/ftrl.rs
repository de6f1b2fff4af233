//! FTRL-proximal, the online learner of click models: McMahan et al., "Ad click prediction: a
//! view from the trenches", KDD 2013, algorithm 1.
//!
//! Each parameter keeps `n`, the sum of squared gradients, and `z`, the sum of gradients less
//! what the parameter has already moved. The parameter follows from the two and the rate:
//!
//! ```text
//! w = 0                                                     if |z| <= l1
//! w = -(z - sign(z) * l1) / ((beta + sqrt(n)) / rate + l2)  otherwise
//! ```
//!
//! A store that holds `z` and `n` therefore need not hold the parameter, and a parameter that no
//! gradient touches is right at any learning rate.

use super::spec::OptimizerSpec;
use super::update::{Optimizer, ParamUpdate};
use crate::kernels::each;
use crate::schedule::Schedule;

/// FTRL-proximal, which leaves parameters at exactly zero while their gradients are small.
///
/// Parameters start from zero, whatever the model initialises them to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ftrl {
    /// Lowers the rate of parameters with few gradients so far.
    pub beta: f32,
    /// The least magnitude of `z` for which a parameter is not zero.
    pub l1: f32,
    /// Pulls parameters towards zero.
    pub l2: f32,
}

impl Default for Ftrl {
    fn default() -> Self {
        Self { beta: 1.0, l1: 0.0, l2: 0.0 }
    }
}

impl Ftrl {
    /// FTRL with a learning rate, the same for all parameters, and no regularisation.
    #[expect(clippy::new_ret_no_self, reason = "an optimizer is of use only with a rate")]
    pub fn new(rate: impl Into<Schedule>) -> OptimizerSpec {
        OptimizerSpec::new(Self::default(), rate)
    }

    pub(crate) fn at_rate(self, rate: f32) -> FtrlStep {
        let Self { beta, l1, l2 } = self;
        FtrlStep { rate, beta, l1, l2 }
    }
}

impl Optimizer for Ftrl {
    fn name(&self) -> &str {
        "ftrl"
    }

    fn state_names(&self) -> &[&'static str] {
        &["z", "n"]
    }

    fn update(&self, _step: u64, update: ParamUpdate<'_>) {
        let ParamUpdate { params, grad, state: [z, n, ..], rate, decay, .. } = update;
        let ftrl = self.at_rate(rate);
        each(
            #[inline(always)]
            || {
                for (((p, g), z), n) in params.iter_mut().zip(grad).zip(z).zip(n) {
                    (*z, *n) = ftrl.accumulate(*p, *z, *n, g + decay * *p);
                    *p = ftrl.weight(*z, *n);
                }
            },
        );
    }
}

/// The settings of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FtrlStep {
    pub(crate) rate: f32,
    beta: f32,
    l1: f32,
    l2: f32,
}

impl FtrlStep {
    /// `z` and `n` after a gradient at the parameter `w`.
    #[inline(always)]
    pub(crate) fn accumulate(self, w: f32, z: f32, n: f32, g: f32) -> (f32, f32) {
        let square = g * g;
        let more = n + square;
        let roots = more.sqrt() + n.sqrt();
        // The same as (sqrt(more) - sqrt(n)) / rate, but for the digits that would cancel.
        // Where both roots are zero so is the square.
        let sigma = square / (roots + f32::MIN_POSITIVE) / self.rate;
        (z + (g - sigma * w), more)
    }

    /// The parameter that follows from `z` and `n`.
    #[inline(always)]
    pub(crate) fn weight(self, z: f32, n: f32) -> f32 {
        let over = z.abs() - self.l1;
        // Divided in any case and then chosen, so that there is no branch between vectors.
        let weight = -over.copysign(z) / self.stiffness(n);
        if over > 0.0 { weight } else { 0.0 }
    }

    /// The `z` from which the parameter `w` follows.
    pub(crate) fn z_of(self, w: f32, n: f32) -> f32 {
        if w == 0.0 { 0.0 } else { -(w.abs() * self.stiffness(n) + self.l1).copysign(w) }
    }

    #[inline(always)]
    fn stiffness(self, n: f32) -> f32 {
        (self.beta + n.sqrt()) / self.rate + self.l2
    }
}
