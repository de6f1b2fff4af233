//! Optimizers: formulas that turn gradients into updates, and the state they keep.
//!
//! [`Optimizer`] is the trait to implement for a formula of your own. [`OptimizerSpec`] pairs a
//! formula with learning rates and decay. [`OptimizerState`] holds what the formula remembers for
//! a range of the flat parameters, so that a server keeps only the state of its own shard.

mod builtin;
mod ftrl;
mod spec;
mod state;
mod update;

pub use builtin::{AdaGrad, Adam, Momentum, Sgd};
pub use ftrl::Ftrl;
pub(crate) use ftrl::FtrlStep;
pub use spec::{GroupSettings, OptimizerSpec};
pub use state::OptimizerState;
pub use update::{MAX_STATES, Optimizer, ParamUpdate};

#[cfg(test)]
mod tests;
