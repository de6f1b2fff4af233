//! Trains your models by stochastic gradient descent: in a process, over parameter servers, or by
//! all-reduce.
//!
//! ```
//! use paceline::prelude::*;
//!
//! # let scratch = tempfile::tempdir()?;
//! # let path = scratch.path().join("mine");
//! let report = Session::new(Softmax::new(784, 10), Digits::generate(600, 1))
//!     .optimizer(Sgd::new(0.1))
//!     .batch(30)
//!     .stop(Stop::epochs(3).or(Stop::test_loss(0.2)))
//!     .share(Sharing::servers(1).workers(2).mode(Mode::Async))
//!     .record(RunDir::create(&path)?)
//!     .run()?;
//! println!("{:.2} % after {} steps", 100.0 * report.accuracy, report.steps);
//! println!("verdict: {}", report.verdict);
//! assert!(path.join("model.safetensors").is_file());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A model of your own
//!
//! Implement [`Model`](prelude::Model): the layout of its parameters, the gradient of a block of
//! examples, and a test. A model holds no parameters; they live where the sharing mode keeps them.
//! A network is shorter with [`DenseLayer`](prelude::DenseLayer)s; this model has no layers.
//!
//! ```
//! use paceline::prelude::*;
//!
//! /// Linear scores with a squared hinge loss, for two classes.
//! #[derive(Clone)]
//! struct Hinge {
//!     layout: Layout,
//! }
//!
//! impl Hinge {
//!     fn new(inputs: usize) -> Self {
//!         let mut layout = Layout::new();
//!         layout.push("weight", &[inputs], Group::Weights);
//!         Self { layout }
//!     }
//! }
//!
//! /// One minus the margin, or zero; and the label as a sign.
//! fn excess(params: &[f32], values: &[f32], label: u32) -> (f32, f32) {
//!     let sign = if label == 0 { -1.0 } else { 1.0 };
//!     let score: f32 = params.iter().zip(values).map(|(p, v)| p * v).sum();
//!     ((1.0 - sign * score).max(0.0), sign)
//! }
//!
//! impl Model for Hinge {
//!     fn layout(&self) -> &Layout {
//!         &self.layout
//!     }
//!
//!     fn inputs(&self) -> usize {
//!         self.layout.len()
//!     }
//!
//!     fn initialise(&self, _seed: u64, params: &mut [f32]) {
//!         params.fill(0.0);
//!     }
//!
//!     fn gradient(
//!         &mut self,
//!         params: &[f32],
//!         block: Batch<'_>,
//!         share: f32,
//!         mode: OutputMode,
//!         grad: &mut [f32],
//!     ) -> f32 {
//!         mode.prepare(grad);
//!         let mut loss = 0.0;
//!         let rows = block.values().chunks_exact(params.len());
//!         for (values, &label) in rows.zip(block.labels) {
//!             let (excess, sign) = excess(params, values, label);
//!             loss += excess * excess;
//!             for (g, v) in grad.iter_mut().zip(values) {
//!                 *g -= share * 2.0 * excess * sign * v;
//!             }
//!         }
//!         loss * share
//!     }
//!
//!     fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
//!         let rows = block.values().chunks_exact(params.len());
//!         for (values, &label) in rows.zip(block.labels) {
//!             let (excess, sign) = excess(params, values, label);
//!             tally.count_two_class(sign * (1.0 - excess), label, excess * excess);
//!         }
//!     }
//! }
//!
//! let rows = (0..200).map(|i| {
//!     let x = (i % 20) as f32 / 10.0 - 0.95;
//!     ([x, 1.0], u32::from(x > 0.0))
//! });
//! let data = InMemoryExamples::from_rows(rows)?.hold_out(40, 1)?;
//! let report = Session::new(Hinge::new(2), data)
//!     .optimizer(Momentum::new(0.02, 0.9))
//!     .stop(Stop::epochs(20))
//!     .share(Sharing::mesh(2))
//!     .run()?;
//! assert!(report.accuracy > 0.9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The crates behind it
//!
//! [`model`] holds the arithmetic, [`data`] the readers, [`engine`] what trains, [`observe`] what
//! is measured, and [`record`] what a run leaves behind. Each opens with an example.

// The examples of the READMEs and the guide are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(doctest, doc = include_str!("../../../README.md"))]
#![cfg_attr(doctest, doc = include_str!("../../../docs/library.md"))]

mod run_recording;

pub use paceline_arrays as arrays;
pub use paceline_data as data;
pub use paceline_engine as engine;
pub use paceline_model as model;
pub use paceline_observe as observe;
pub use paceline_record as record;

pub use run_recording::RecordRun;

/// Everything a training program usually needs.
///
/// The examples of these items import the crates behind them, such as `paceline_model`: in your
/// program, write `paceline::prelude` instead.
pub mod prelude {
    pub use crate::RecordRun;
    pub use paceline_arrays::Pictures;
    pub use paceline_data::{
        DataError, Digits, Examples, Images, InMemoryExamples, SelectedExamples, SparseRows,
        TrainTest,
    };
    pub use paceline_engine::{
        CheckpointSettings, FactorChoice, Mode, ModelSizing, OnDivergence, Session, SessionReport,
        Sharing, Shuffle, StartModel, Stop, TestMetric, TrainError, WireFormat,
    };
    pub use paceline_model::{
        AdaGrad, Adam, AlexNet, Architecture, Batch, DenseLayer, Ftrl, Group, Initialisation,
        Layer, LayerKind, Layout, Logistic, LogisticLoss, LossSlope, Model, Momentum, Network,
        NetworkError, Optimizer, OptimizerSpec, OutputMode, ParamUpdate, Row, Schedule, Score,
        ScoreLoss, Sgd, Shape, Softmax, SparseLinear, SparseModel, Tally, Windows, fill_uniform,
        lenet, softmax_cross_entropy, weighted_cross_entropy,
    };
    pub use paceline_observe::{
        ProgressReport, Recorder, RunStart, StepRecord, TensorRecord, TestRecord,
    };
    pub use paceline_record::{RunDir, RunFileError};
}
