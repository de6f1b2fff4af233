//! The mathematics of Paceline: models, their layouts, optimizers and metrics.
//!
//! Everything here is a pure function over flat slices. Nothing in this crate opens a file or
//! a socket or reads a clock; that keeps it easy to test against finite differences and easy to
//! run anywhere, on a worker, a server or in somebody else's program. Threads it has for
//! arithmetic alone, as many as a network is told, and what they compute does not depend on them.
//!
//! The words: a [`Model`] turns parameters and a [`Batch`] into a loss and a gradient; its
//! [`Layout`] names the tensors inside the one flat slice of parameters; an [`OptimizerState`]
//! turns gradients into updates where the parameters live; a [`Tally`] counts how well a
//! model does. A [`Network`] is a model made of [`Layer`]s. A sparse model works on the compact
//! slice that a [`Compactor`] finds, of parameters that live in a [`Table`] with their optimizer.

mod alexnet;
mod batch;
mod crew;
mod descent;
mod graph;
pub mod kernels;
mod keys;
pub mod layers;
mod layout;
mod lenet;
mod linear;
mod model;
mod network;
mod optimizer;
mod ranking;
mod row;
mod schedule;
mod seed;
mod softmax;
mod sparse_model;
mod step_event;
mod table;
mod tally;

pub use alexnet::AlexNet;
pub use batch::{Batch, Inputs, Rows, SharedPatches};
pub use descent::{Descent, InPlace};
pub use graph::OpNode;
pub use kernels::OutputMode;
pub use keys::Compactor;
pub use layers::{Layer, LayerKind, Shape, Windows, softmax_cross_entropy};
pub use layout::{Group, Layout, Tensor};
pub use lenet::{LENET_INPUT, lenet};
pub use linear::{Logistic, LogisticLoss, SparseLinear};
pub use model::Model;
pub use network::{LayerCost, Network, NetworkError};
pub use optimizer::{
    AdaGrad, Adam, Ftrl, GroupSettings, MAX_STATES, Momentum, Optimizer, OptimizerSpec,
    OptimizerState, ParamUpdate, Sgd,
};
pub use row::Row;
pub use schedule::Schedule;
pub use seed::fill_uniform;
pub use softmax::Softmax;
pub use sparse_model::{LossSlope, ScoreLoss, SparseModel};
pub use step_event::{LayerShape, StepEvent};
pub use table::{RowDescent, Table};
pub use tally::{Score, Tally};
