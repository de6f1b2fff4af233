//! The mathematics of Paceline: models, their layouts, optimizers and metrics.
//!
//! Everything here is a pure function over flat slices. Nothing in this crate opens a file or
//! a socket or reads a clock; that keeps it easy to test against finite differences and easy to
//! run anywhere, on a worker, a server or in somebody else's program. Threads it has for
//! arithmetic alone, as many as a network is told, and what they compute does not depend on them.
//!
//! The words: a [`Model`] turns parameters and a [`Batch`] into a loss and a gradient; its
//! [`Layout`] names the tensors inside the one flat slice of parameters; an [`Optimizer`]
//! turns gradients into updates where the parameters live; a [`Tally`] counts how well a
//! model does. A [`Network`] is a model made of [`Layer`]s. A sparse model works on the compact
//! slice that a [`Compactor`] finds, of parameters that live in a [`Table`] with their optimizer.

mod alexnet;
mod batch;
mod crew;
mod descent;
mod ftrl;
mod graph;
pub mod kernels;
mod keys;
pub mod layers;
mod layout;
mod lenet;
mod logistic;
mod model;
mod moment;
mod network;
mod optimizer;
mod ranking;
mod schedule;
mod seed;
mod softmax;
mod table;
mod tally;

pub use alexnet::AlexNet;
pub use batch::{Batch, Inputs, Patchy, Rows};
pub use descent::{Descent, InPlace};
pub use graph::Node;
pub use kernels::Onto;
pub use keys::Compactor;
pub use layers::{Kind, Layer, Shape, Windows};
pub use layout::{Group, Layout, Tensor};
pub use lenet::{LENET_INPUT, lenet};
pub use logistic::Logistic;
pub use model::Model;
pub use moment::{LayerShape, Moment};
pub use network::{LayerCost, Network, NetworkError};
pub use optimizer::{GroupRule, Optimizer, OptimizerSpec, Rule};
pub use schedule::Schedule;
pub use softmax::Softmax;
pub use table::Table;
pub use tally::{Score, Tally};
