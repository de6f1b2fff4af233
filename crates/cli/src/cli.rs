//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use paceline_place::PlaceFlags;

#[cfg(feature = "bench")]
use crate::bench_args::BenchCommand;
use crate::data_args::DataCommand;
use crate::deploy_args::DeployCommand;
use crate::job_args::JobArgs;
use crate::predict_args::{EvaluateArgs, ExportArgs, PredictArgs};

/// Trains models by stochastic gradient descent on one machine or many, and reports where the
/// time went.
#[derive(Debug, Parser)]
#[command(
    name = "paceline",
    version,
    after_help = "Try it:  paceline train\n\n\
        Exit codes: 0 success; 1 failure while running; 2 error in the job, the data or the \
        command line; 128 and above worth a retry (130 Ctrl-C, 143 terminated)."
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// A command of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train the model of a job file (default: the built-in job, which needs no download)
    #[command(after_help = "Examples:\n  \
        paceline train\n  \
        paceline train job.toml --set train.batch=100 --set 'train.stop={test_loss=0.35}'\n  \
        paceline train --set data.kind=mnist --set train.optimizer.kind=adam \
        --run-dir runs/adam\n  \
        paceline train --set checkpoint.every_steps=1000 --run-dir runs/safe\n  \
        paceline train --resume runs/safe\n  \
        paceline train --watch\n\n\
        The run directory holds job.toml, summary.json, model.safetensors and TensorBoard events \
        (tensorboard --logdir runs). Ctrl-C ends the run cleanly; a second Ctrl-C ends it at \
        once.")]
    Train(TrainArgs),
    /// Join a run under way as an additional worker
    #[command(after_help = "Examples:\n  \
        paceline train --set cluster.slots=4 --run-dir runs/grown\n  \
        paceline worker --join runs/grown\n  \
        paceline worker --join ps0.example:2222 --token-file secret\n\n\
        Every step is divided into cluster.slots slots, and each worker fills one or more of them. \
        A worker that joins gets a free slot, or one from the worker with the most. If every \
        worker has only one, the new worker waits as a spare and takes the slot of the first \
        worker that leaves or dies (with cluster.on_worker_loss = \"wait\"). The job comes from \
        the server; its data must be on this machine, at the same path.\n\n\
        SIGTERM or Ctrl-C makes any worker except worker 0 leave cleanly: its slots go to the \
        other workers, and it ends with code 0. Each epoch still uses every example once, and \
        sync ends with the same bits, however many workers join and leave.")]
    Worker(WorkerArgs),
    /// Run every combination of the values in a job's `[sweep]` section, one run after another
    #[command(after_help = "Examples:\n  \
        paceline sweep job.toml --dry-run\n  \
        paceline sweep job.toml --repeats 3 --sweep-dir sweeps/first\n  \
        paceline sweep --continue sweeps/first\n\n\
        The sweep directory holds a run directory for each cell and, at the end, report.html, \
        report.csv and report.md. Ctrl-C ends the current run cleanly; the same command, or \
        --continue, resumes the sweep. JOB.toml may be a directory: the sweeps of all job files \
        in it are run.")]
    #[command(mut_arg("file", |file| {
        file.help("Job file with a [sweep] section, or a directory of such files")
    }))]
    Sweep(SweepArgs),
    /// Report the results of a sweep, or of any runs, as a page, a table and a text
    #[command(after_help = "Examples:\n  \
        paceline report sweeps/first\n  \
        paceline report sweeps/all --index experiments/README.md\n\n\
        Writes report.html, report.csv and report.md, and replaces earlier ones.")]
    Report(ReportArgs),
    /// Show a run, or all runs in a directory, on a web page, live or afterwards
    #[command(after_help = "Examples:\n  \
        paceline watch runs\n  \
        paceline watch runs/adam --listen 127.0.0.1:8080\n\n\
        The page only reads files: it neither slows nor changes a run. Ctrl-C ends it.")]
    Watch(WatchArgs),
    /// Print the job as it would be run: every key, its value and the value's origin
    #[command(after_help = "Examples:\n  \
        paceline explain --set model.kind=lenet\n  \
        paceline explain job.toml > resolved.toml\n  \
        paceline explain --layers --set model.kind=lenet > lenet.toml\n\n\
        The output is a job file.")]
    Explain(ExplainArgs),
    /// Predict the classes of rows or pictures with a trained model
    #[command(after_help = "Examples:\n  \
        paceline predict runs/clicks day-8.svm -o answers.csv\n  \
        paceline predict runs/clicks day-8.svm.gz --show class --on-bad skip -o answers.jsonl\n  \
        tail -f clicks.log | paceline predict runs/clicks -\n  \
        paceline predict runs/pets photos/ --top 3\n  \
        paceline predict runs/clicks --test --show scores\n\n\
        MODEL says what it takes: a table, LIBSVM text, Criteo's logs, TFRecords, IDX images or \
        pictures. \
        Labels may be missing. Answers come in the order of the input; a line from standard input \
        is answered when it arrives. OUT appears complete or not at all. \
        docs/predict.md describes the columns.")]
    Predict(PredictArgs),
    /// Test a trained model again, on its job's test set or on any labelled files
    #[command(after_help = "Examples:\n  \
        paceline evaluate runs/adam\n  \
        paceline evaluate runs/clicks day-8.svm --threshold 0.2\n  \
        paceline evaluate model.safetensors job.toml --json\n\n\
        Reports log loss, accuracy, AUC, precision and recall, the confusion matrix, and \
        calibration by decile. Without an input, JOB.toml defaults to the job.toml beside the \
        model, and if there is none, to the built-in job. The evaluation of a RUN is kept in its \
        evaluation.json, which replaces an earlier one, and appears on its page.")]
    Evaluate(EvaluateArgs),
    /// Write a trained model as an ONNX file, for other programs
    #[command(after_help = "Example:\n  \
        paceline export runs/adam -o model.onnx\n\n\
        The graph has what ONNX can express of the model's input, such as the scaling of pixels. \
        The command says what the graph takes, and what is left to the caller.")]
    Export(ExportArgs),
    /// Print what other systems need to run a job
    #[command(after_help = "Example:\n  \
        paceline deploy kubernetes job.toml --workers 8 --servers 2 > manifests.yaml\n  \
        kubectl apply -f manifests.yaml")]
    Deploy {
        /// The system.
        #[command(subcommand)]
        command: DeployCommand,
    },
    /// List, fetch or generate the data sets that jobs can name
    Data {
        /// The command.
        #[command(subcommand)]
        command: DataCommand,
    },
    /// Make certificates for the tasks of a cluster
    Keys {
        /// The command.
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// List or verify the checkpoints of a run
    Checkpoint {
        /// The command.
        #[command(subcommand)]
        command: CheckpointCommand,
    },
    /// Summarise or merge the timeline of a run
    #[command(
        after_help = "A run has a timeline, trace.json, if observe.trace names its steps:\n  \
        paceline train --set 'observe.trace={from=100, steps=10}'\n\n\
        https://ui.perfetto.dev and chrome://tracing display it."
    )]
    Trace {
        /// The command.
        #[command(subcommand)]
        command: TraceCommand,
    },
    /// Benchmark this machine
    #[cfg(feature = "bench")]
    Bench {
        /// The benchmark.
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Benchmark this machine
    #[cfg(not(feature = "bench"))]
    #[command(hide = true)]
    Bench {
        /// The benchmark and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Arguments of `explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// The job.
    #[command(flatten)]
    pub job: JobArgs,
    /// Print a built-in network as its list of layers, ready to be changed
    #[arg(long)]
    pub layers: bool,
    /// This process's place among others.
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// A process's place among others that were started with it, where the environment does not say it.
#[derive(Args, Clone, Debug, Default)]
pub struct PlaceArgs {
    /// Run all tasks on this machine, whatever a scheduler's variables say
    #[arg(long, conflicts_with_all = ["rank", "size", "meet"])]
    pub local: bool,
    /// Number of this process among those of the run, from 0
    #[arg(long, value_name = "N", requires = "size")]
    pub rank: Option<usize>,
    /// Number of processes of the run
    #[arg(long, value_name = "N", requires = "rank")]
    pub size: Option<usize>,
    /// Address at which the processes of the run meet rank 0
    #[arg(long, value_name = "HOST:PORT")]
    pub meet: Option<String>,
}

impl PlaceArgs {
    /// The place as the command line states it.
    pub fn flags(&self) -> PlaceFlags {
        let Self { local, rank, size, meet } = self.clone();
        PlaceFlags { local, rank, size, meet }
    }
}

/// Arguments of `train`.
#[derive(Args, Clone, Debug)]
pub struct TrainArgs {
    /// The job.
    #[command(flatten)]
    pub job: JobArgs,
    /// Directory for the run [default: a new directory under runs/]
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Resume the run in this directory from its newest complete checkpoint; the job defaults to
    /// the run's own
    #[arg(long, value_name = "RUN", conflicts_with = "run_dir")]
    pub resume: Option<PathBuf>,
    /// Resume from the checkpoint of this step
    #[arg(long, value_name = "STEP", hide = true, requires = "resume")]
    pub checkpoint: Option<u64>,
    /// Print only errors and, at the end, the path of the run
    #[arg(long, short)]
    pub quiet: bool,
    /// This process's place among others.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Show the run on a web page while it trains, and afterwards until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// The page's address and token.
    #[command(flatten)]
    pub page: PageArgs,
    /// Stop when standard input says so or ends; for the runs of a sweep
    #[arg(long, hide = true)]
    pub tied: bool,
}

/// Arguments of `worker`.
#[derive(Args, Clone, Debug)]
pub struct WorkerArgs {
    /// Address of a server of the run, or directory of a local run
    #[arg(long, value_name = "ADDRESS")]
    pub join: String,
    /// File with the secret that all tasks share (cluster.token_file)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate of the run's authority, if its connections are encrypted (cluster.tls)
    #[arg(long, value_name = "FILE", requires_all = ["cert", "key"])]
    pub ca: Option<PathBuf>,
    /// Certificate of this worker, which states its name
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    pub cert: Option<PathBuf>,
    /// Key of the certificate
    #[arg(long, value_name = "FILE", requires_all = ["ca", "cert"])]
    pub key: Option<PathBuf>,
    /// Directory for this worker's folder [default: the run's directory if it is on this machine,
    /// else a new directory under runs/]
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// File or directory of this machine that the run's job may use, with all below it; may be
    /// repeated. Without it, the paths of a run at an address are confirmed in the terminal
    #[arg(long, value_name = "PATH")]
    pub allow: Vec<PathBuf>,
}

/// The address a page is served at, and its token.
#[derive(Args, Clone, Debug, Default)]
pub struct PageArgs {
    /// Address of the page [default: 127.0.0.1:6160, or any free port if that is taken]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// File with a secret that the page requires; needed to serve it beyond this machine
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Arguments of `watch`.
#[derive(Args, Clone, Debug)]
pub struct WatchArgs {
    /// Directory of a run, or a directory that contains runs
    #[arg(value_name = "RUN|DIR", default_value = "runs")]
    pub dir: PathBuf,
    /// The page's address and token.
    #[command(flatten)]
    pub page: PageArgs,
}

/// Arguments of `sweep`.
#[derive(Args, Clone, Debug)]
pub struct SweepArgs {
    /// The job.
    #[command(flatten)]
    pub job: JobArgs,
    /// Directory of the sweep, new or begun [default: a new directory under sweeps/]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub sweep_dir: Option<PathBuf>,
    /// Resume a sweep that was stopped
    #[arg(long = "continue", value_name = "DIR", conflicts_with_all = ["file", "settings"])]
    pub resume: Option<PathBuf>,
    /// Run failed cells again
    #[arg(long)]
    pub retry_failed: bool,
    /// Runs per cell; overrides the job
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub repeats: Option<u64>,
    /// Shorten the runs with the settings of [sweep.quick]
    #[arg(long)]
    pub quick: bool,
    /// List the runs without running them
    #[arg(long)]
    pub dry_run: bool,
    /// Print only errors: no progress and no table
    #[arg(long, short)]
    pub quiet: bool,
}

/// Arguments of `report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// Directory of a sweep, of a run, or that contains runs
    pub dir: PathBuf,
    /// Directory for the report [default: DIR]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Instead, write an index of all sweeps in DIR to this Markdown file, with published figures
    /// and findings beside the measured ones; INTRODUCTION.md beside FILE is its beginning
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    pub index: Option<PathBuf>,
}

/// Commands for certificates.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make an authority, and keys and certificates for the tasks of each host
    #[command(after_help = "The host with number N gets certificates for worker N, server N and \
        evaluator N; a host that is named twice gets both numbers. A later call with the same \
        directory uses its authority:\n  \
        paceline keys make keys --hosts a,b,c\n  \
        paceline keys make keys --hosts d --first 3")]
    Make {
        /// The directory, new or of an earlier call
        dir: PathBuf,
        /// The hosts, in the order of their tasks
        #[arg(long, value_name = "HOST", value_delimiter = ',', required = true)]
        hosts: Vec<String>,
        /// The number of the first host's tasks
        #[arg(long, value_name = "N", default_value_t = 0)]
        first: usize,
        /// Days until the certificates expire
        #[arg(long, value_name = "N", default_value_t = 365)]
        days: u32,
    },
}

/// Commands for checkpoints.
#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// List the checkpoints, the newest first
    List {
        /// The run directory
        run: PathBuf,
    },
    /// Read every byte of the checkpoints and report which are sound; fails if one is damaged
    Verify {
        /// The run directory
        run: PathBuf,
    },
}

/// Commands for timelines.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Print the time of each operation, the longest first
    Summary {
        /// The run directory, or a trace.json
        run: PathBuf,
    },
    /// Merge the tasks' timelines in the run directory into trace.json again
    Merge {
        /// The run directory, with the folders of tasks on other machines copied into it
        run: PathBuf,
    },
}
