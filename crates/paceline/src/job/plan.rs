//! The checked form of a job, which the rest of the program trusts.

use std::path::PathBuf;

use paceline_model::OptimizerSpec;

/// A job that has been checked: every value is in range and every needed key is there.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the run is called.
    pub name: String,
    /// What every random choice is drawn from.
    pub seed: u64,
    /// What is trained.
    pub model: ModelKind,
    /// What it is trained and tested on.
    pub data: DataPlan,
    /// Examples a worker takes a step.
    pub batch: usize,
    /// When training ends: at the first of these.
    pub stop: Stop,
    /// How often and on how much the model is tested.
    pub evaluate: Evaluate,
    /// How gradients become updates.
    pub optimizer: OptimizerSpec,
    /// How workers share the parameters.
    pub mode: Mode,
    /// Steps from one train loss in TensorBoard to the next.
    pub observe_every: u64,
}

/// Which model is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// Softmax regression.
    Softmax,
}

impl ModelKind {
    /// Its name in job files.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Softmax => "softmax",
        }
    }
}

/// How workers share the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One worker that holds them itself.
    Single,
}

impl Mode {
    /// Its name in job files.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Single => "single",
        }
    }
}

/// Which data, and in what order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPlan {
    /// Which data set.
    pub kind: DataKind,
    /// Whether every epoch has an order of its own.
    pub shuffle: bool,
}

/// A data set and what it needs to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// Generated handwritten-like digits.
    Digits {
        /// How many to train on.
        train_examples: usize,
        /// How many to test on.
        test_examples: usize,
    },
    /// IDX files of MNIST.
    Mnist {
        /// Their directory, if not the cache.
        path: Option<PathBuf>,
    },
    /// IDX files of Fashion-MNIST.
    FashionMnist {
        /// Their directory, if not the cache.
        path: Option<PathBuf>,
    },
}

impl DataKind {
    /// Its name in job files.
    pub fn name(&self) -> &'static str {
        match self {
            DataKind::Digits { .. } => "digits",
            DataKind::Mnist { .. } => "mnist",
            DataKind::FashionMnist { .. } => "fashion-mnist",
        }
    }
}

/// When training ends: at the first that is met.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stop {
    /// After so many passes over the data.
    pub epochs: Option<u64>,
    /// After so many global steps.
    pub steps: Option<u64>,
    /// After so many seconds of training.
    pub seconds: Option<f64>,
    /// When a test finds a loss this low.
    pub test_loss: Option<f64>,
}

/// How often and on how much the model is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluate {
    /// Global steps from one test to the next.
    pub every: u64,
    /// How many of the test examples, from the first; all if not given.
    pub examples: Option<usize>,
}
