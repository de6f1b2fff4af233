//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use paceline_data::{KnownDataset, sparse};

use crate::bench::{Layers, Peer};

/// Trains models by stochastic gradient descent on one machine or many, and says where the
/// time went.
#[derive(Debug, Parser)]
#[command(
    name = "paceline",
    version,
    after_help = "Try it:  paceline train\n\n\
        Exit codes: 0 done; 1 failed while running; 2 the job, the data or the command line is \
        wrong; 128 and more worth a retry (130 Ctrl-C, 143 terminated)."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train what a job file says (without one: the built-in job, which needs no download)
    #[command(after_help = "Examples:\n  \
        paceline train\n  \
        paceline train job.toml --set train.batch=100 --set 'train.stop={test_loss=0.35}'\n  \
        paceline train --set data.kind=mnist --set train.optimizer.kind=adam --run-dir runs/adam\n  \
        paceline train --set checkpoint.every_steps=1000 --run-dir runs/safe\n  \
        paceline train --resume runs/safe\n  \
        paceline train --watch\n\n\
        The run directory has job.toml, summary.json, model.safetensors and TensorBoard events \
        (tensorboard --logdir runs). Ctrl-C ends the run in good order; twice, at once.")]
    Train(Train),
    /// Join a run that goes on, as one more worker
    #[command(after_help = "Examples:\n  \
        paceline train --set cluster.slots=4 --run-dir runs/grown\n  \
        paceline worker --join runs/grown\n  \
        paceline worker --join ps0.example:2222 --token-file secret\n\n\
        A run is cut into cluster.slots shares, which its workers fill, one or more each. Who joins \
        gets a share that nobody fills, or one of the worker that has the most; if everybody has \
        only one it waits as a spare, and takes over from the first that leaves or dies (with \
        cluster.on_worker_loss = \"wait\"). The job comes from the server; its data must be on this \
        machine, at the same path.\n\n\
        SIGTERM or Ctrl-C to a worker, but the first, makes it leave in good order: its shares go to \
        the others, and it ends with code 0. Every example still comes once an epoch, and sync ends \
        with the same bits, however many workers came and went.")]
    Worker(Worker),
    /// Run every combination of values that a job's `[sweep]` lists, one run after another
    #[command(after_help = "Examples:\n  \
        paceline sweep job.toml --dry-run\n  \
        paceline sweep job.toml --repeats 3 --sweep-dir sweeps/first\n  \
        paceline sweep --continue sweeps/first\n\n\
        The sweep directory has a run directory for each cell and, at the end, report.html, \
        report.csv and report.md. Ctrl-C ends the run it is at in good order; the same command, or \
        --continue, goes on from there. JOB.toml may be a directory: all job files in it are swept.")]
    Sweep(Sweep),
    /// Make a page, a table and a text of what the runs of a sweep, or any runs, say
    #[command(
        after_help = "Example:\n  paceline report sweeps/first\n  paceline report sweeps/all --index experiments/README.md\n\n\
        Writes report.html, report.csv and report.md, anew each time."
    )]
    Report(Report),
    /// Show a run, or all runs of a directory, on a page in the browser, live or afterwards
    #[command(after_help = "Examples:\n  \
        paceline watch runs\n  \
        paceline watch runs/adam --listen 127.0.0.1:8080\n\n\
        The page only reads files: it neither slows nor changes a run. It is there until Ctrl-C.")]
    Watch(Watch),
    /// Print the job as it would be run: every key, its value and where that is from
    Explain(Job),
    /// Test a trained model again
    #[command(after_help = "Without JOB.toml it is the job.toml beside the model, and without \
        that the built-in job.\n\n\
        Examples:\n  \
        paceline evaluate runs/adam\n  \
        paceline evaluate model.safetensors job.toml --json")]
    Evaluate(Evaluate),
    /// Look at, fetch or make the data sets that jobs can name
    Data {
        /// What to do.
        #[command(subcommand)]
        command: Data,
    },
    /// Look at the checkpoints of a run
    Checkpoint {
        /// What to do.
        #[command(subcommand)]
        command: Checkpoint,
    },
    /// Look at the timeline of a run
    #[command(after_help = "A run has one, trace.json, if observe.trace says of which steps:\n  \
        paceline train --set 'observe.trace={from=100, steps=10}'\n\n\
        https://ui.perfetto.dev and chrome://tracing show it.")]
    Trace {
        /// What to do.
        #[command(subcommand)]
        command: Trace,
    },
    /// Measure this machine
    Bench {
        /// What to measure.
        #[command(subcommand)]
        command: Bench,
    },
}

/// Which job.
#[derive(Args, Clone, Debug, Default)]
pub struct Job {
    /// The job file; the built-in job unless given
    #[arg(value_name = "JOB.toml")]
    pub file: Option<PathBuf>,
    /// Set a key of the job; the value is TOML, a bare word is text
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
}

/// Arguments of `train`.
#[derive(Args, Clone, Debug)]
pub struct Train {
    /// Which job.
    #[command(flatten)]
    pub job: Job,
    /// Where to put the run; a new directory under runs/ unless given
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Go on with the run in this directory from its newest complete checkpoint; the job is the
    /// run's own unless given
    #[arg(long, value_name = "RUN", conflicts_with = "run_dir")]
    pub resume: Option<PathBuf>,
    /// Go on from the checkpoint of this step
    #[arg(long, value_name = "STEP", hide = true, requires = "resume")]
    pub checkpoint: Option<u64>,
    /// No progress, no table: only errors
    #[arg(long, short)]
    pub quiet: bool,
    /// Show the run on a page in the browser while it trains, and then until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// Where the page is.
    #[command(flatten)]
    pub page: Page,
    /// Standard input says when to stop, and its end does too: a run of a sweep
    #[arg(long, hide = true)]
    pub tied: bool,
}

/// Arguments of `worker`.
#[derive(Args, Clone, Debug)]
pub struct Worker {
    /// The address of a server of the run, or the directory of a local run
    #[arg(long, value_name = "ADDRESS")]
    pub join: String,
    /// The file with the secret that all tasks share (cluster.token_file)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Where to make this worker's folder; in the run's directory if that is on this machine, else
    /// in a new one under runs/
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
}

/// Where a page is served, and to whom.
#[derive(Args, Clone, Debug, Default)]
pub struct Page {
    /// Where to serve the page; 127.0.0.1:6160 unless given, or any free port if that is taken
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// A file with a secret that the page asks for; needed to serve it beyond this machine
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Arguments of `watch`.
#[derive(Args, Clone, Debug)]
pub struct Watch {
    /// A run's directory, or one that runs lie in
    #[arg(value_name = "RUN|DIR", default_value = "runs")]
    pub dir: PathBuf,
    /// Where the page is.
    #[command(flatten)]
    pub page: Page,
}

/// Arguments of `sweep`.
#[derive(Args, Clone, Debug)]
pub struct Sweep {
    /// Which job.
    #[command(flatten)]
    pub job: Job,
    /// Where to put the sweep, or where it was begun; a new directory under sweeps/ unless given
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub sweep_dir: Option<PathBuf>,
    /// Go on with a sweep that was stopped
    #[arg(long = "continue", value_name = "DIR", conflicts_with_all = ["file", "settings"])]
    pub resume: Option<PathBuf>,
    /// Run the cells that have failed again
    #[arg(long)]
    pub retry_failed: bool,
    /// How often each cell is run, in place of what the job says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub repeats: Option<u64>,
    /// Shorten the runs by what [sweep.quick] says
    #[arg(long)]
    pub quick: bool,
    /// Only list the runs
    #[arg(long)]
    pub dry_run: bool,
    /// No progress, no table: only errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Arguments of `report`.
#[derive(Args, Clone, Debug)]
pub struct Report {
    /// A sweep's directory, a run's, or one that runs lie in
    pub dir: PathBuf,
    /// Where to write the report; into DIR unless given
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Write a list of all sweeps that lie in DIR, with others' figures and findings beside
    /// ours, into this Markdown file instead
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    pub index: Option<PathBuf>,
}

/// Arguments of `evaluate`.
#[derive(Args, Clone, Debug)]
pub struct Evaluate {
    /// A model.safetensors, or the run directory it is in
    pub model: PathBuf,
    /// Which job.
    #[command(flatten)]
    pub job: Job,
    /// Print the figures as JSON, unrounded
    #[arg(long)]
    pub json: bool,
}

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
pub enum Checkpoint {
    /// Show which there are, the newest first
    List {
        /// The run directory
        run: PathBuf,
    },
    /// Read every byte of them and say which are sound; fails if one is damaged
    Verify {
        /// The run directory
        run: PathBuf,
    },
}

/// What to do with timelines.
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Print what each operation took, the longest first
    Summary {
        /// The run directory, or a trace.json
        run: PathBuf,
    },
    /// Put the parts that tasks left in the run directory together to trace.json again
    Merge {
        /// The run directory, with the folders of tasks on other machines copied into it
        run: PathBuf,
    },
}

/// What to do with data sets.
#[derive(Debug, Subcommand)]
pub enum Data {
    /// Show which data sets are there, and where
    List,
    /// Fetch a data set into the cache
    Get {
        /// Which one
        set: Set,
        /// Fetch from here instead of the public mirrors; the files' names are appended.
        /// May be given more than once
        #[arg(long, value_name = "URL")]
        mirror: Vec<String>,
    },
    /// Write generated data to a file
    Make {
        /// Which data
        #[command(subcommand)]
        what: Make,
    },
}

/// Which data to generate.
#[derive(Debug, Subcommand)]
pub enum Make {
    /// Clicks such as Criteo's logs have: 39 features a row, a few of them in nearly every row
    #[command(after_help = "Example:\n  \
        paceline data make clicks --rows 1000000 --format libsvm clicks.svm\n\n\
        Row i depends on --features, --seed and i alone. --test makes other rows of the same \
        world, to test on.")]
    Clicks(MakeClicks),
}

/// Arguments of `data make clicks`.
#[derive(Args, Clone, Debug)]
pub struct MakeClicks {
    /// The file to write; it must not be there yet
    pub file: PathBuf,
    /// How many rows
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    pub rows: u64,
    /// How many features there are in all
    #[arg(long, default_value_t = 33_762_578, value_parser = clap::value_parser!(u32).range(64..))]
    pub features: u32,
    /// What the rows are drawn from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How rows are written
    #[arg(long)]
    pub format: RowFormat,
    /// Pack the file
    #[arg(long)]
    pub gzip: bool,
    /// Make the rows to test on
    #[arg(long)]
    pub test: bool,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RowFormat {
    /// LIBSVM text
    Libsvm,
    /// TFRecords of tf.train.Example
    Tfrecord,
    /// Tab-separated counts and categories, as Criteo's logs
    Criteo,
}

impl From<RowFormat> for sparse::SparseFormat {
    fn from(format: RowFormat) -> Self {
        match format {
            RowFormat::Libsvm => sparse::SparseFormat::Libsvm,
            RowFormat::Tfrecord => sparse::SparseFormat::TfRecord,
            RowFormat::Criteo => sparse::SparseFormat::Criteo,
        }
    }
}

/// A data set that can be fetched.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Set {
    /// Handwritten digits
    Mnist,
    /// Pieces of clothing, in the same form
    FashionMnist,
}

impl From<Set> for KnownDataset {
    fn from(set: Set) -> Self {
        match set {
            Set::Mnist => KnownDataset::Mnist,
            Set::FashionMnist => KnownDataset::FashionMnist,
        }
    }
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Steps/s of softmax regression on one thread, beside the bare matrix products
    Step,
    /// Rows/s of sparse logistic regression with the features of a click log, part by part
    Sparse,
    /// A step of LeNet-5 or AlexNet, layer by layer, beside the bare matrix products
    Layers(Layers),
    /// How fast gradients and parameters move between processes, beside bare sockets
    Net,
    /// What sampling resources costs: steps/s with it and without, in turn
    Observe,
    /// How fast rows of click data are read: every format, and the cache
    Parse,
    /// How fast workers without servers make one update out of everybody's gradients
    Allreduce,
    /// One process of another bench
    #[command(hide = true)]
    Peer {
        /// Which one
        peer: Peer,
        /// Where the server is
        #[arg(long)]
        address: String,
        /// How many numbers go each way
        #[arg(long)]
        floats: usize,
        /// How long to go on
        #[arg(long)]
        seconds: f64,
    },
}
