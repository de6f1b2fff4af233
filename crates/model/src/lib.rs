//! The mathematics of Paceline: models, their layouts, optimizers and metrics.
//!
//! Everything here is a pure function over flat slices. Nothing in this crate opens a file or
//! a socket, reads a clock or starts a thread; that keeps it easy to test against finite
//! differences and easy to run anywhere, on a worker, a server or in somebody else's program.
//!
//! The words: a [`Model`] turns parameters and a [`Batch`] into a loss and a gradient; its
//! [`Layout`] names the tensors inside the one flat slice of parameters; an [`Optimizer`]
//! turns gradients into updates where the parameters live; a [`Tally`] counts how well a
//! model does. A sparse model works on the compact slice that a [`Compactor`] finds, of
//! parameters that live in a [`Table`] with their optimizer.

mod batch;
mod ftrl;
mod graph;
pub mod kernels;
mod keys;
mod layout;
mod logistic;
mod model;
mod optimizer;
mod ranking;
mod schedule;
mod softmax;
mod stepper;
mod table;
mod tally;

pub use batch::{Batch, Inputs, Rows};
pub use graph::Node;
pub use kernels::Onto;
pub use keys::Compactor;
pub use layout::{Group, Layout, Tensor};
pub use logistic::Logistic;
pub use model::Model;
pub use optimizer::{GroupRule, Optimizer, OptimizerSpec, Rule};
pub use schedule::Schedule;
pub use softmax::Softmax;
pub use stepper::Stepper;
pub use table::Table;
pub use tally::{Score, Tally};
