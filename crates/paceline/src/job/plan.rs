//! The checked form of a job, which the rest of the program trusts.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use paceline_data::{OnBad, SparseSpec};
use paceline_model::OptimizerSpec;
use paceline_observe::trace::TraceWindow;

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
    /// Threads that a worker computes with, if the job says.
    pub threads: Option<usize>,
    /// When training ends: at the first of these.
    pub stop: Stop,
    /// How often and on how much the model is tested.
    pub evaluate: Evaluate,
    /// How gradients become updates.
    pub optimizer: OptimizerSpec,
    /// How many tasks there are, and how they share the parameters.
    pub cluster: ClusterPlan,
    /// How often a checkpoint is taken, if at all.
    pub checkpoint: Option<CheckpointPlan>,
    /// Steps from one train loss in TensorBoard to the next.
    pub observe_every: u64,
    /// How often is looked at what task and machine use, if at all.
    pub observe_sample: Option<Duration>,
    /// Where tasks tell of themselves, if they do.
    pub observe_http: Option<String>,
    /// The steps that a timeline is recorded of, if one is.
    pub observe_trace: Option<TraceWindow>,
}

/// Examples of a batch of softmax regression that are worth sharing out to threads.
const SOFTMAX_SHARED: usize = 256;

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl Plan {
    /// Threads that a worker computes with, beside so many others on this machine.
    pub fn threads_here(&self, workers: usize) -> usize {
        // Emulated hosts share the machine's cores, unless each has its own.
        let workers = match &self.cluster.emulate {
            Some(emulated) if emulated.cpus.is_none() => self.cluster.workers,
            _ => workers,
        };
        let by_itself = match self.model {
            ModelKind::Logistic { .. } => 1,
            ModelKind::Softmax if self.batch < SOFTMAX_SHARED => 1,
            ModelKind::Softmax | ModelKind::LeNet | ModelKind::AlexNet { .. } => {
                (cores() / workers).max(1)
            }
        };
        self.threads.unwrap_or(by_itself)
    }

    /// Threads that a test of a dense model is made with which nothing else goes on beside.
    pub fn test_threads(&self) -> usize {
        self.threads.unwrap_or_else(cores)
    }
}

/// Which model is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ModelKind {
    /// Softmax regression.
    Softmax,
    /// Logistic regression over sparse rows.
    Logistic {
        /// Whether every parameter moves at every step, and not only those that a batch touches.
        dense: bool,
    },
    /// LeNet-5 for small grey images.
    LeNet,
    /// AlexNet for colour pictures.
    AlexNet {
        /// Share of the values that its dropout leaves out.
        dropout: f32,
    },
}

impl ModelKind {
    /// Its name in job files.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Softmax => "softmax",
            ModelKind::Logistic { .. } => "logistic",
            ModelKind::LeNet => "lenet",
            ModelKind::AlexNet { .. } => "alexnet",
        }
    }

    /// Whether only the parameters that a batch touches move.
    pub fn is_sparse(self) -> bool {
        self == ModelKind::Logistic { dense: false }
    }
}

/// How many tasks there are, how they share the parameters, and how long they wait.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterPlan {
    /// How workers share the parameters.
    pub mode: Mode,
    /// How many workers there are.
    pub workers: usize,
    /// How many slots the plan has, if not one for each worker.
    pub slots: Option<usize>,
    /// How many servers there are.
    pub servers: usize,
    /// What happens when a worker is lost.
    pub on_worker_loss: OnWorkerLoss,
    /// Whether a lost server is waited for, which then comes back with a checkpoint.
    pub waits_for_servers: bool,
    /// How often the local launcher starts a task again that was lost, in all.
    pub restarts: usize,
    /// How long a lost task's place is kept for a process that takes it over.
    pub rejoin_timeout: Duration,
    /// How long tasks wait for each other at the start.
    pub start_timeout: Duration,
    /// How long a step may wait for somebody.
    pub stall_timeout: Duration,
    /// The file with the secret that all tasks share.
    pub token_file: Option<PathBuf>,
    /// The hosts that the local launcher emulates, if it does.
    pub emulate: Option<EmulatePlan>,
}

/// Hosts that are none: networks of their own on one machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmulatePlan {
    /// How many there are.
    pub hosts: usize,
    /// What each one's link carries each way, if that is limited.
    pub link_bits_per_s: Option<u64>,
    /// How long a packet takes to leave its host.
    pub delay_ms: f64,
    /// Whether servers have hosts to themselves.
    pub servers_apart: bool,
    /// Cores' time that each host may use, if that is limited.
    pub cpus: Option<f64>,
}

impl ClusterPlan {
    /// How many slots there are with so many workers.
    pub fn slots(&self, workers: usize) -> usize {
        self.slots.unwrap_or(workers)
    }
}

/// How workers share the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One worker that holds them itself.
    Single,
    /// Servers apply a gradient when it arrives.
    Async,
    /// Servers apply the mean of one gradient from each worker.
    Sync {
        /// How many gradients a step takes, if not all workers'; the rest are backups.
        quorum: Option<usize>,
    },
    /// As `Async`, but no worker runs too far ahead.
    Bounded {
        /// How many steps ahead of the slowest a worker may be.
        staleness: u64,
    },
    /// Every worker holds a replica, and gradients are all-reduced between them.
    Mirrored,
}

impl Mode {
    /// Its name in job files.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Single => "single",
            Mode::Async => "async",
            Mode::Sync { .. } => "sync",
            Mode::Bounded { .. } => "bounded",
            Mode::Mirrored => "mirrored",
        }
    }

    /// Whether all workers make every step together.
    pub fn is_together(self) -> bool {
        matches!(self, Mode::Sync { .. } | Mode::Mirrored)
    }
}

/// What happens when a worker is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnWorkerLoss {
    /// The run ends with an error that names it.
    Fail,
    /// The others go on without it.
    Continue,
    /// Its place is kept for a process that takes it over.
    Wait,
}

/// How often a checkpoint is taken: at the first of these that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckpointPlan {
    /// Global steps from one to the next.
    pub every_steps: Option<u64>,
    /// Seconds from one to the next.
    pub every_seconds: Option<f64>,
    /// How many are kept.
    pub keep: usize,
}

/// Which data, and in what order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPlan {
    /// Which data set.
    pub kind: DataKind,
    /// Whether every epoch has an order of its own.
    pub shuffle: bool,
    /// Of sparse rows, how many are shuffled among each other.
    pub shuffle_buffer: usize,
    /// What becomes of examples that cannot be read.
    pub on_bad: OnBad,
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
    /// Sparse rows, from files or generated.
    Rows(SparseSpec),
    /// Generated colour pictures.
    FakeImages {
        /// Pixels of a side.
        size: usize,
        /// Classes to tell apart.
        classes: usize,
        /// How many to train on.
        train_examples: usize,
        /// How many to test on.
        test_examples: usize,
    },
    /// JPEG and PNG files in folders, or named by a list.
    Pictures {
        /// The folder or the list.
        path: PathBuf,
        /// Pixels of a side, after scaling and cropping.
        size: usize,
        /// How many are held out to test on, if there is no part for that.
        hold_out: Option<usize>,
    },
}

impl DataKind {
    /// Its name in job files.
    pub fn name(&self) -> &'static str {
        match self {
            DataKind::Digits { .. } => "digits",
            DataKind::Mnist { .. } => "mnist",
            DataKind::FashionMnist { .. } => "fashion-mnist",
            DataKind::Rows(spec) => spec.kind.name(),
            DataKind::FakeImages { .. } => "fake-images",
            DataKind::Pictures { .. } => "images",
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
