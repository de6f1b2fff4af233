//! Models, layouts, optimizers and metrics: the arithmetic of training.
//!
//! This crate computes: it opens no file or socket and reads no clock, so its models and
//! optimizers run anywhere, on a worker, on a server or in a program of your own. It starts threads
//! for arithmetic alone, and results do not depend on their number.
//!
//! ```
//! use paceline_model::{Adam, Batch, Model, OptimizerState, OutputMode, Softmax, Tally};
//!
//! // Three examples of two values each, and their classes.
//! let (inputs, labels) = ([1.0, 0.0, 0.0, 1.0, 1.0, 1.0], [0, 1, 1]);
//! let batch = Batch::dense(&inputs, &labels);
//!
//! let mut model = Softmax::new(2, 2);
//! let mut params = vec![0.0; model.layout().len()];
//! let mut grad = vec![0.0; params.len()];
//! model.initialise(1, &mut params);
//! let mut optimizer = OptimizerState::new(Adam::new(0.1), model.layout(), 0..params.len());
//! for step in 0..100 {
//!     let share = 1.0 / batch.len() as f32;
//!     model.gradient(&params, batch, share, OutputMode::Overwrite, &mut grad);
//!     optimizer.apply(step, 0, &mut params, &grad);
//! }
//!
//! let mut tally = Tally::default();
//! model.evaluate(&params, batch, &mut tally);
//! assert_eq!(tally.accuracy(), 1.0);
//! ```
//!
//! # Words
//!
//! - A [`Model`] turns parameters and a [`Batch`] into a loss and a gradient. Implement it for a
//!   model of your own; [`Network`] is one made of [`Layer`]s, and a [`DenseLayer`] is a part of a
//!   hand-written one.
//! - A [`Layout`] names the tensors inside the flat slice of parameters.
//! - An [`Optimizer`] turns gradients into updates. An [`OptimizerSpec`] pairs it with learning
//!   rates and decay, and an [`OptimizerState`] holds what it remembers for a range of parameters.
//! - A [`SparseModel`] has many parameters, and an example touches few of them. They live in a
//!   [`Table`] with the state of their optimizer. The model sees a *compact slice* of them, whose
//!   keys a [`Compactor`] finds. [`SparseLinear`] makes such a model of a [`ScoreLoss`].
//! - A [`Tally`] counts how well a model does.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod alexnet;
mod batch;
mod dense_layer;
mod descent;
mod graph;
mod initial;
pub mod kernels;
mod layered;
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
mod score_feed;
mod seed;
mod softmax;
mod sparse_model;
mod step_event;
mod table;
mod tally;
mod thread_pool;

pub use alexnet::AlexNet;
pub use batch::{Batch, Inputs, Rows, SharedPatches};
pub use dense_layer::DenseLayer;
pub use descent::{Descent, InPlace};
pub use graph::{OpNode, softmax_graph};
pub use initial::initial_vector;
pub use kernels::{AlignedBuffer, Compactor, OutputMode};
pub use layered::{
    FactorSizes, FactorUpdate, LayerFactors, LayerPiece, LayerSink, Layered, PieceParams,
    WeightedFactors,
};
pub use layers::{
    DropoutMask, Layer, LayerKind, Shape, Windows, softmax_cross_entropy, weighted_cross_entropy,
};
pub use layout::{Group, Layout, Tensor};
pub use lenet::{lenet, lenet_layers};
pub use linear::{Logistic, LogisticLoss, SparseLinear};
pub use model::{Model, StopCheck};
pub use network::{Architecture, Initialisation, LayerCost, Network, NetworkError, memory_text};
pub use optimizer::{
    AdaGrad, Adam, Ftrl, GroupSettings, MAX_STATES, Momentum, Optimizer, OptimizerSpec,
    OptimizerState, ParamUpdate, Sgd,
};
pub use paceline_kernels::{KeyPart, KeyPlaces, KeyRun, RowLayout};
pub use row::Row;
pub use schedule::Schedule;
pub use score_feed::{ScoreFeed, ScoreObserver};
pub use seed::fill_uniform;
pub use softmax::{HELPER_THREADS, Softmax};
pub use sparse_model::{EntryBirth, LossSlope, ScoreLoss, SparseModel};
pub use step_event::{LayerShape, StepEvent};
pub use table::{
    BlockColumns, EntryColumn, EntryPolicy, EntryTable, KeysAhead, ParamTable, RowDescent,
    StoredEntries, Table, TableMemory,
};
pub use tally::{Score, Tally};
pub use thread_pool::POOL_THREADS;
