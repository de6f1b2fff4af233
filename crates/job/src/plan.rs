//! The checked form of a job, which the rest of the program trusts.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use paceline_arrays::{NumpySpec, RecordSpec};
use paceline_data::{HoldOut, OnBad, SparseSpec};
use paceline_depot::GatherTime;
use paceline_engine::{
    BestSettings, CheckpointSettings, EvaluateSettings, FactorChoice, JobIdentity, Mode,
    OnDivergence, OnWorkerLoss, Stop, TestHooks, Threads, Timeouts, TrainSettings, WireFormat,
};
use paceline_model::{EntryPolicy, OptimizerSpec};
use paceline_observe::trace::TraceWindow;
use paceline_place::EmulateSettings;
use paceline_record::SampleSpacing;
use paceline_table::TableSpec;

use super::factor_plan::FactorPlan;
use super::network_plan::NetworkPlan;

/// A checked job: every value is in range and every required key is set.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the run.
    pub name: String,
    /// The seed of every random choice.
    pub seed: u64,
    /// The model to train.
    pub model: ModelKind,
    /// The data for training and tests.
    pub data: DataPlan,
    /// Examples per step of a worker.
    pub batch: usize,
    /// Threads per worker, if the job sets them.
    pub threads: Option<usize>,
    /// Training ends when the first of these conditions is met.
    pub stop: Stop,
    /// Which test is the best one, and whether its parameters are kept.
    pub best: BestSettings,
    /// How often the model is tested, and on how many examples.
    pub evaluate: EvaluateSettings,
    /// What happens when the loss is far above where it started.
    pub on_divergence: OnDivergence,
    /// The optimizer and its settings.
    pub optimizer: OptimizerSpec,
    /// The trained model that training starts from: its file, or its run directory.
    pub start: Option<PathBuf>,
    /// The weight of each class; empty if all are 1.
    pub class_weights: Arc<[f32]>,
    /// The number of tasks, and how they share the parameters.
    pub cluster: ClusterPlan,
    /// How often a checkpoint is written; never if `None`.
    pub checkpoint: Option<CheckpointSettings>,
    /// Where checkpoints and results are copied to: a directory, or `s3://BUCKET/PREFIX`.
    pub checkpoint_to: Option<String>,
    /// Steps between train losses in TensorBoard; they are thinned if `None`.
    pub observe_every: Option<u64>,
    /// When tasks send their files to worker 0, if they share no directory with it.
    pub observe_gather: GatherTime,
    /// Global steps between histograms of the tensors; there are none if `None`.
    pub observe_histograms: Option<u64>,
    /// The interval of resource samples; none are taken if `None`.
    pub observe_sample: Option<SampleSpacing>,
    /// The address at which tasks serve metrics, if they do.
    pub observe_http: Option<String>,
    /// The steps of the timeline, if one is recorded.
    pub observe_trace: Option<TraceWindow>,
}

/// The smallest batch of softmax regression for which several threads are faster than one.
const SOFTMAX_SHARED: usize = 256;

impl Plan {
    /// Threads of a training loop, on a machine with this many worker processes.
    pub fn threads(&self, processes: usize) -> Threads {
        if let Some(threads) = self.threads {
            return Threads::Fixed(threads);
        }
        // Emulated hosts share the machine's cores, unless each has a limit of its own.
        let processes = match &self.cluster.emulate {
            Some(emulated) if emulated.cpus.is_none() => self.cluster.workers,
            _ => processes,
        };
        match self.model {
            ModelKind::Logistic { .. } | ModelKind::Factors(_) => Threads::Fixed(1),
            ModelKind::Softmax if self.batch < SOFTMAX_SHARED => Threads::Fixed(1),
            ModelKind::Softmax | ModelKind::Network(_) => Threads::Share { processes },
        }
    }

    /// Threads for a test of a dense model that runs alone.
    pub fn test_threads(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(cores)
    }

    /// The settings of the run's tasks. `job` identifies the job.
    pub fn settings(&self, job: JobIdentity, test_hooks: TestHooks) -> TrainSettings {
        TrainSettings {
            seed: self.seed,
            batch: self.batch,
            optimizer: self.optimizer.clone(),
            // The program opens the file, which the plan names.
            start: None,
            class_weights: self.class_weights.clone(),
            entries: self.model.factors().map_or(EntryPolicy::default(), |its| its.entries),
            table_memory: self.cluster.memory,
            mode: self.cluster.mode,
            wire: self.cluster.wire,
            stop: self.stop,
            best: self.best,
            evaluate: self.evaluate,
            checkpoint: self.checkpoint,
            on_divergence: self.on_divergence,
            on_worker_loss: self.cluster.on_worker_loss,
            waits_for_servers: self.cluster.waits_for_servers,
            timeouts: Timeouts {
                start: self.cluster.start_timeout,
                stall: self.cluster.stall_timeout,
                rejoin: self.cluster.rejoin_timeout,
            },
            factors: self.cluster.factors,
            link_bits_per_s: self.cluster.emulate.as_ref().and_then(|hosts| hosts.link_bits_per_s),
            worker_cores: self.cluster.emulate.as_ref().and_then(|hosts| hosts.cpus),
            trace: self.observe_trace,
            job,
            test_hooks,
        }
    }
}

/// A model that a job can name.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelKind {
    /// Softmax regression.
    Softmax,
    /// Logistic regression over sparse rows.
    Logistic {
        /// Whether every step updates every parameter, not only those that a batch touches.
        dense: bool,
    },
    /// A model over sparse rows that has vectors of features.
    Factors(FactorPlan),
    /// A network: LeNet-5, AlexNet, or layers of the job file.
    Network(NetworkPlan),
}

impl ModelKind {
    /// The name in job files.
    pub fn name(&self) -> &'static str {
        match self {
            ModelKind::Softmax => "softmax",
            ModelKind::Logistic { .. } => "logistic",
            ModelKind::Factors(factors) => factors.name,
            ModelKind::Network(network) => network.name,
        }
    }

    /// Whether a step updates only the parameters that a batch touches.
    pub fn is_sparse(&self) -> bool {
        matches!(self, ModelKind::Logistic { dense: false } | ModelKind::Factors(_))
    }

    /// Whether the model takes sparse rows.
    pub fn takes_rows(&self) -> bool {
        matches!(self, ModelKind::Logistic { .. } | ModelKind::Factors(_))
    }

    /// Whether the model has one score, which tells two classes apart.
    pub fn has_one_score(&self) -> bool {
        self.takes_rows() && self.name() != FactorPlan::SOFTMAX
    }

    /// The vectors of features, if the model has them.
    pub fn factors(&self) -> Option<&FactorPlan> {
        if let ModelKind::Factors(factors) = self { Some(factors) } else { None }
    }
}

/// The number of tasks, how they share the parameters, and how long they wait.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterPlan {
    /// How workers share the parameters.
    pub mode: Mode,
    /// How gradients and parameters travel.
    pub wire: WireFormat,
    /// The number of workers.
    pub workers: usize,
    /// The number of slots, if it is not one per worker.
    pub slots: Option<usize>,
    /// The number of servers.
    pub servers: usize,
    /// Whether servers have ranks of their own where a scheduler starts the processes.
    pub dedicated_servers: bool,
    /// What a lost worker means for the run.
    pub on_worker_loss: OnWorkerLoss,
    /// Whether the run waits for a lost server to return with a checkpoint.
    pub waits_for_servers: bool,
    /// The total number of times the local launcher restarts lost tasks.
    pub restarts: usize,
    /// How long the run waits for a lost task to be replaced.
    pub rejoin_timeout: Duration,
    /// How long tasks wait for each other at the start.
    pub start_timeout: Duration,
    /// How long a step may wait for another task.
    pub stall_timeout: Duration,
    /// The port at which worker 0 keeps the files of tasks that share no directory with it; `None`
    /// if all tasks share one.
    pub files_port: Option<u16>,
    /// The file with the secret that all tasks share.
    pub token_file: Option<PathBuf>,
    /// How connections between tasks are encrypted, if they are.
    pub tls: Option<TlsPlan>,
    /// The most memory of a sparse model's table in each task, in bytes.
    pub memory: Option<u64>,
    /// In `mirrored`: which gradients travel as factors.
    pub factors: FactorChoice,
    /// The hosts that the local launcher emulates, if any.
    pub emulate: Option<EmulateSettings>,
}

/// How connections between tasks are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsPlan {
    /// With certificates that the local launcher makes for the run.
    Run,
    /// With certificates in files. In the paths of the last two, `{task}` stands for the task.
    Files {
        /// The certificate of the authority that signed the tasks' certificates.
        ca: PathBuf,
        /// A task's certificate.
        cert: PathBuf,
        /// Its key.
        key: PathBuf,
    },
}

impl ClusterPlan {
    /// The number of slots of a run with this number of workers.
    pub fn slots(&self, workers: usize) -> usize {
        self.slots.unwrap_or(workers)
    }
}

/// The data, and its order.
#[derive(Clone, Debug, PartialEq)]
pub struct DataPlan {
    /// The data set.
    pub kind: DataKind,
    /// Whether every epoch uses a new order.
    pub shuffle: bool,
    /// The size of the window within which sparse rows are shuffled, in rows.
    pub shuffle_buffer: usize,
    /// What an unreadable example means for the run.
    pub on_bad: OnBad,
    /// The share of the examples held out for tests, if the job sets it.
    pub test_share: Option<f64>,
    /// The examples that tests during training use, if not those of the test set.
    pub validation: Option<ValidationPlan>,
    /// The share of the training rows of class 0 that is kept, if not all are.
    pub negatives: Option<f64>,
}

/// The examples that tests during training use.
#[derive(Clone, Debug, PartialEq)]
pub enum ValidationPlan {
    /// A share of the training data.
    Share(f64),
    /// Rows of their own.
    Rows(PathBuf),
}

/// A data set, with what is needed to read or generate it.
#[derive(Clone, Debug, PartialEq)]
pub enum DataKind {
    /// Generated handwritten-like digits.
    Digits {
        /// Training examples.
        train_examples: usize,
        /// Test examples.
        test_examples: usize,
    },
    /// IDX files of MNIST.
    Mnist {
        /// The directory of the files; the cache if `None`.
        path: Option<PathBuf>,
    },
    /// IDX files of Fashion-MNIST.
    FashionMnist {
        /// The directory of the files; the cache if `None`.
        path: Option<PathBuf>,
    },
    /// Sparse rows, from files or generated.
    Rows(SparseSpec),
    /// A table, whose rows feed sparse and dense models.
    Table(TableSpec),
    /// LIBSVM rows of several classes, as vectors for a dense model.
    DenseRows(SparseSpec),
    /// Arrays in numpy's files.
    Numpy(NumpySpec),
    /// Records with numbers or pictures.
    Records(RecordSpec),
    /// Generated colour pictures.
    FakeImages {
        /// Width and height in pixels.
        size: usize,
        /// Number of classes.
        classes: usize,
        /// Training examples.
        train_examples: usize,
        /// Test examples.
        test_examples: usize,
    },
    /// JPEG and PNG files in folders, or named by a list.
    Pictures {
        /// The folder or the list.
        path: PathBuf,
        /// Width and height in pixels, after scaling and cropping.
        size: usize,
        /// Number of examples held out for tests, if there is no test set.
        hold_out: Option<usize>,
        /// Which examples are held out.
        split: HoldOut,
    },
}

impl DataKind {
    /// The name in job files.
    pub fn name(&self) -> &'static str {
        match self {
            DataKind::Digits { .. } => "digits",
            DataKind::Mnist { .. } => "mnist",
            DataKind::FashionMnist { .. } => "fashion-mnist",
            DataKind::Rows(spec) | DataKind::DenseRows(spec) => spec.kind.name(),
            DataKind::Numpy(_) => "numpy",
            DataKind::Records(_) => "tfrecord",
            DataKind::Table(_) => "table",
            DataKind::FakeImages { .. } => "fake-images",
            DataKind::Pictures { .. } => "images",
        }
    }
}
