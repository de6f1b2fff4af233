//! The optimizers that come with the crate, except FTRL.
//!
//! Multiplications and additions stay apart (no fused multiply-add), so that every kind of
//! processor gives the same bits.

use super::spec::OptimizerSpec;
use super::update::{Optimizer, ParamUpdate, shrink};
use crate::kernels::each;
use crate::schedule::Schedule;

/// Plain stochastic gradient descent: `p -= rate * g`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sgd;

impl Sgd {
    /// SGD with a learning rate, the same for all parameters.
    #[expect(clippy::new_ret_no_self, reason = "an optimizer is of use only with a rate")]
    pub fn new(rate: impl Into<Schedule>) -> OptimizerSpec {
        OptimizerSpec::new(Self, rate)
    }
}

impl Optimizer for Sgd {
    fn name(&self) -> &str {
        "sgd"
    }

    fn update(&self, _step: u64, update: ParamUpdate<'_>) {
        let ParamUpdate { params, grad, rate, decay, l1, .. } = update;
        each(
            #[inline(always)]
            || params.iter_mut().zip(grad).for_each(|(p, g)| *p -= rate * (g + decay * *p)),
        );
        if l1 != 0.0 {
            each(
                #[inline(always)]
                || params.iter_mut().for_each(|p| *p = shrink(*p, rate * l1)),
            );
        }
    }

    fn ignores_zero_gradients(&self) -> bool {
        true
    }

    fn applies_l1(&self) -> bool {
        true
    }
}

/// `v = momentum * v + g; p -= rate * v`, as PyTorch and TensorFlow define it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Momentum {
    /// The share of the last velocity that is kept, usually 0.9.
    pub momentum: f32,
}

impl Momentum {
    /// Momentum with a learning rate, the same for all parameters.
    #[expect(clippy::new_ret_no_self, reason = "an optimizer is of use only with a rate")]
    pub fn new(rate: impl Into<Schedule>, momentum: f32) -> OptimizerSpec {
        OptimizerSpec::new(Self { momentum }, rate)
    }
}

impl Optimizer for Momentum {
    fn name(&self) -> &str {
        "momentum"
    }

    fn state_names(&self) -> &[&'static str] {
        &["momentum"]
    }

    fn update(&self, _step: u64, update: ParamUpdate<'_>) {
        let ParamUpdate { params, grad, state: [velocity, ..], rate, decay, .. } = update;
        let momentum = self.momentum;
        each(
            #[inline(always)]
            || {
                for ((p, g), v) in params.iter_mut().zip(grad).zip(velocity) {
                    *v = momentum * *v + (g + decay * *p);
                    *p -= rate * *v;
                }
            },
        );
    }
}

/// `s += g * g; p -= rate * g / (sqrt(initial + s) + epsilon)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaGrad {
    /// Keeps the quotient finite.
    pub epsilon: f32,
    /// What sums count from, usually 0: without it, the first gradient of a parameter moves it by
    /// the whole rate, however small the gradient is.
    pub initial: f32,
}

impl Default for AdaGrad {
    fn default() -> Self {
        Self { epsilon: 1e-8, initial: 0.0 }
    }
}

impl AdaGrad {
    /// AdaGrad with a learning rate, the same for all parameters, and the default epsilon.
    #[expect(clippy::new_ret_no_self, reason = "an optimizer is of use only with a rate")]
    pub fn new(rate: impl Into<Schedule>) -> OptimizerSpec {
        OptimizerSpec::new(Self::default(), rate)
    }
}

impl Optimizer for AdaGrad {
    fn name(&self) -> &str {
        "adagrad"
    }

    fn state_names(&self) -> &[&'static str] {
        &["sum"]
    }

    fn update(&self, _step: u64, update: ParamUpdate<'_>) {
        let ParamUpdate { params, grad, state: [sums, ..], rate, decay, l1 } = update;
        let Self { epsilon, initial } = *self;
        each(
            #[inline(always)]
            || {
                for ((p, g), sum) in params.iter_mut().zip(grad).zip(&mut *sums) {
                    let g = g + decay * *p;
                    *sum += g * g;
                    *p -= rate * g / ((initial + *sum).sqrt() + epsilon);
                }
            },
        );
        if l1 != 0.0 {
            each(
                #[inline(always)]
                || {
                    for (p, sum) in params.iter_mut().zip(sums) {
                        let root = (initial + *sum).sqrt();
                        *p = shrink(*p, rate * l1 / (root + epsilon));
                    }
                },
            );
        }
    }

    fn ignores_zero_gradients(&self) -> bool {
        true
    }

    fn applies_l1(&self) -> bool {
        true
    }
}

/// Adam with bias correction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of squared gradients.
    pub beta2: f32,
    /// Keeps the quotient finite.
    pub epsilon: f32,
}

impl Default for Adam {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

impl Adam {
    /// Adam with a learning rate, the same for all parameters, and default settings.
    #[expect(clippy::new_ret_no_self, reason = "an optimizer is of use only with a rate")]
    pub fn new(rate: impl Into<Schedule>) -> OptimizerSpec {
        OptimizerSpec::new(Self::default(), rate)
    }
}

impl Optimizer for Adam {
    fn name(&self) -> &str {
        "adam"
    }

    fn state_names(&self) -> &[&'static str] {
        &["mean", "square"]
    }

    fn update(&self, step: u64, update: ParamUpdate<'_>) {
        let ParamUpdate { params, grad, state: [means, squares, ..], rate, decay, .. } = update;
        let Self { beta1, beta2, epsilon } = *self;
        // In f64, because `1 - beta2^t` loses most of its digits in f32 at the start.
        let count = (step + 1) as f64;
        let mean_scale = (1.0 / (1.0 - f64::from(beta1).powf(count))) as f32;
        let square_scale = (1.0 / (1.0 - f64::from(beta2).powf(count))) as f32;
        let pairs = params.iter_mut().zip(grad);
        each(
            #[inline(always)]
            || {
                for (((p, g), mean), square) in pairs.zip(means).zip(squares) {
                    let g = g + decay * *p;
                    *mean = beta1 * *mean + (1.0 - beta1) * g;
                    *square = beta2 * *square + (1.0 - beta2) * (g * g);
                    let root = (*square * square_scale).sqrt() + epsilon;
                    *p -= rate * (*mean * mean_scale) / root;
                }
            },
        );
    }
}
