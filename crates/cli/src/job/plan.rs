//! The checked form of a job, which the rest of the program trusts.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use paceline_data::{OnBad, SparseSpec};
use paceline_engine::{
    CheckpointSettings, EvaluateSettings, Mode, OnWorkerLoss, Stop, Threads, Timeouts,
    TrainSettings,
};
use paceline_model::OptimizerSpec;
use paceline_observe::trace::TraceWindow;
use paceline_place::EmulateSettings;

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
    pub evaluate: EvaluateSettings,
    /// How gradients become updates.
    pub optimizer: OptimizerSpec,
    /// How many tasks there are, and how they share the parameters.
    pub cluster: ClusterPlan,
    /// How often a checkpoint is taken, if at all.
    pub checkpoint: Option<CheckpointSettings>,
    /// Steps from one train loss in TensorBoard to the next.
    pub observe_every: u64,
    /// How often is looked at what task and machine use, if at all.
    pub observe_sample: Option<Duration>,
    /// Where tasks tell of themselves, if they do.
    pub observe_http: Option<String>,
    /// The steps that a timeline is recorded of, if one is.
    pub observe_trace: Option<TraceWindow>,
}

/// The smallest batch of softmax regression that is worth sharing between threads.
const SOFTMAX_SHARED: usize = 256;

impl Plan {
    /// Threads of a training loop, on a machine with this many worker processes.
    pub fn threads(&self, processes: usize) -> Threads {
        if let Some(threads) = self.threads {
            return Threads::Fixed(threads);
        }
        // Emulated hosts share the machine's cores, unless each has its own.
        let processes = match &self.cluster.emulate {
            Some(emulated) if emulated.cpus.is_none() => self.cluster.workers,
            _ => processes,
        };
        match self.model {
            ModelKind::Logistic { .. } => Threads::Fixed(1),
            ModelKind::Softmax if self.batch < SOFTMAX_SHARED => Threads::Fixed(1),
            ModelKind::Softmax | ModelKind::LeNet | ModelKind::AlexNet { .. } => {
                Threads::Share { processes }
            }
        }
    }

    /// Threads of a test of a dense model during which nothing else runs.
    pub fn test_threads(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(cores)
    }

    /// What all tasks of the run agree on. `job_digest` identifies the job.
    pub fn settings(&self, job_digest: [u8; 32]) -> TrainSettings {
        TrainSettings {
            seed: self.seed,
            batch: self.batch,
            optimizer: self.optimizer.clone(),
            mode: self.cluster.mode,
            stop: self.stop,
            evaluate: self.evaluate,
            checkpoint: self.checkpoint,
            on_worker_loss: self.cluster.on_worker_loss,
            waits_for_servers: self.cluster.waits_for_servers,
            timeouts: Timeouts {
                start: self.cluster.start_timeout,
                stall: self.cluster.stall_timeout,
                rejoin: self.cluster.rejoin_timeout,
            },
            trace: self.observe_trace,
            job_digest,
        }
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
    pub emulate: Option<EmulateSettings>,
}

impl ClusterPlan {
    /// How many slots there are with so many workers.
    pub fn slots(&self, workers: usize) -> usize {
        self.slots.unwrap_or(workers)
    }
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
