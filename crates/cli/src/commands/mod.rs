//! The commands of the program.

mod checkpoint;
mod data;
mod deploy;
mod evaluate;
mod explain_clicks;
mod explain_layers;
mod explain_table;
mod explain_tasks;
mod export;
mod keys;
mod output;
mod predict;
mod read_job;
mod report;
mod run_path;
mod sweep;
mod trace;
mod trained_model;
mod watch;

use std::sync::Arc;

use paceline_engine::{Mode, Threads};
use paceline_lab::closing_table::closing_table;
use paceline_place::{LauncherChannel, Placement};
use paceline_record::names::files;
use paceline_record::{flush_lines, unfinished_files};

use self::output::print;
use self::read_job::{choose_model, keep_defaults, read_job};
use self::run_path::{check_dir, check_run};
use crate::Failure;
use crate::cli::{CheckpointCommand, Command, ExplainArgs, TraceCommand, TrainArgs, WorkerArgs};
use crate::data_args::{DataCommand, MakeCommand};
use crate::interrupt::Interrupt;
use crate::job_args::JobArgs;
use crate::join::{JoinCertificate, JoinOptions, join, remove_join_file};
use crate::layer_table::layer_table;
use crate::placed::find_placement;
use crate::progress::write_line;
use crate::standard_input::save_standard_input;
use crate::train::train;
use crate::train_options::{TrainOptions, checkpoint_dir};
use crate::watch::PageProcess;
use paceline_job::Plan;
use paceline_terminal::{output_width, wrap_comments};

#[cfg(not(feature = "bench"))]
const NO_BENCHES: &str = "this program was built without the feature bench; build it again with \
                          `--features bench`";

/// Runs a command.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Train(args) => run_train(args),
        Command::Worker(args) => run_worker(args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Report(args) => report::report(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::Explain(args) => explain(&args),
        Command::Evaluate(args) => evaluate::evaluate(&args),
        Command::Predict(args) => predict::predict(&args),
        Command::Export(args) => export::export(&args),
        Command::Deploy { command } => deploy::deploy(command),
        Command::Keys { command } => keys::keys(command),
        Command::Data { command: DataCommand::List } => data::list(),
        Command::Data { command: DataCommand::Get { set, mirror } } => {
            data::get(set.into(), mirror)
        }
        Command::Data { command: DataCommand::Describe(args) } => data::describe(&args),
        Command::Data { command: DataCommand::Clean { dry_run, cache } } => {
            data::clean(cache, dry_run)
        }
        Command::Data { command: DataCommand::Make { what: MakeCommand::Clicks(args) } } => {
            data::make(&args)
        }
        Command::Checkpoint { command: CheckpointCommand::List { run } } => checkpoint::list(&run),
        Command::Checkpoint { command: CheckpointCommand::Verify { run } } => {
            checkpoint::verify(&run)
        }
        Command::Trace { command: TraceCommand::Summary { run } } => trace::summary(&run),
        Command::Trace { command: TraceCommand::Merge { run } } => trace::merge(&run),
        #[cfg(feature = "bench")]
        Command::Bench { command } => {
            crate::bench::run_bench(command)?.map_or(Ok(()), |results| print(&results))
        }
        #[cfg(not(feature = "bench"))]
        Command::Bench { .. } => Err(Failure::Usage(NO_BENCHES.into())),
    }
}

fn run_train(args: TrainArgs) -> Result<(), Failure> {
    let own_run = args.run_dir.clone().or_else(|| args.resume.clone());
    let channel = LauncherChannel::open(move || {
        own_run.iter().for_each(|run| {
            remove_join_file(run);
            unfinished_files(run).iter().for_each(|file| drop(std::fs::remove_file(file)));
        });
        flush_lines();
    });
    let channel = channel.map_err(Failure::signals)?;
    // A launched task only notes signals: its launcher receives them too, and asks it to stop.
    let interrupt =
        if channel.is_some() { Interrupt::record_sigterm() } else { Interrupt::listen() };
    let interrupt = interrupt?;
    if args.tied {
        sweep::stop_on_standard_input(&interrupt);
    }
    let has_file = args.job.file.is_some();
    let check = if has_file { check_dir } else { check_run };
    args.resume.iter().try_for_each(|run| check(run))?;
    // A run that is resumed has its job in its directory.
    let own = || Some(args.resume.as_ref()?.join(files::JOB));
    let job = JobArgs { file: args.job.file.clone().or_else(own), ..args.job };
    if !args.watch && (args.page.listen.is_some() || args.page.token_file.is_some()) {
        return Err(Failure::Usage("--listen and --token-file are for the page of --watch".into()));
    }
    let place = args.place.flags();
    let TrainArgs { run_dir, resume, checkpoint, quiet, .. } = args;
    let mut job = read_job(&job)?;
    if job.reads_standard_input() {
        save_standard_input(&mut job, &interrupt)?;
        choose_model(&mut job);
    }
    keep_defaults(&mut job, resume.as_ref().map(|run| run.join(files::JOB)).as_deref());
    let settings_warned = job.replaced_settings().filter(|_| !quiet && channel.is_none());
    settings_warned.for_each(|warning| write_line(&format!("warning: {warning}")));
    let page = args.watch.then(|| PageProcess::prepare(&args.page)).transpose()?.map(Arc::new);
    let watch = page.clone();
    let options = TrainOptions { run_dir, resume, checkpoint, quiet, place, watch, bare: false };
    let finished = train(&job, &options, &interrupt, channel.as_ref())?;
    let Some(finished) = finished else { return Ok(()) };
    if quiet {
        print(&format!("{}\n", finished.run.display()))?;
    } else {
        print(&closing_table(&finished.summary, &finished.run, output_width()))?;
    }
    // A signal may also have come after the last step, and cut the final test short.
    let late_signal = || interrupt.signal().filter(|_| finished.skipped_test());
    if let Some(signal) = finished.signal.or_else(late_signal) {
        if !quiet && !checkpoint_dir(&finished.run).steps().is_empty() {
            write_line(&format!("resume with: paceline train --resume {}", finished.run.display()));
        }
        return Err(Failure::Interrupted { signal });
    }
    page.iter().for_each(|page| watch::wait_for_end(page, &interrupt));
    Ok(())
}

fn run_worker(args: WorkerArgs) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let WorkerArgs { join: target, token_file, ca, cert, key, run_dir, allow: allowed } = args;
    let files = ca.zip(cert).zip(key);
    let tls = files.map(|((ca, cert), key)| JoinCertificate { ca, cert, key });
    join(&JoinOptions { target, token_file, tls, run_dir, allowed }, &interrupt)
}

fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let placement = find_placement(&args.place.flags())?;
    let job = read_job(&args.job)?.placed_in(&placement);
    let plan = job.check()?;
    let job = if args.layers { job.with_layers()? } else { job };
    let table = layer_table(&job, &plan)?;
    let tasks = explain_tasks::tasks(&plan, &placement)?;
    let (workers, here) = match &placement {
        Placement::Local => (plan.cluster.workers, plan.cluster.workers),
        Placement::Listed(cluster) => (cluster.slots(), cluster.workers_here()),
        Placement::Ranked(place) => (plan.cluster.workers, place.workers_here()),
    };
    let exchange = explain_layers::layers(&job, &plan, workers)?;
    print(&wrap_comments(&job.explain()))?;
    print(&table)?;
    print(&exchange)?;
    let (wire, memory) = (wire(&plan), explain_table::memory(&plan));
    let (threads, bounds) = (threads(&plan, here), explain_clicks::bounds(&plan));
    print(&wrap_comments(&format!("{tasks}{wire}{memory}{threads}{bounds}")))
}

/// The threads of each worker, with the reason for their number.
fn threads(plan: &Plan, workers_here: usize) -> String {
    let threads = plan.threads(workers_here);
    let count = threads.per_loop(1);
    let why = match (plan.threads, &plan.model, threads) {
        (Some(_), ..) => "train.threads",
        (None, model, _) if model.takes_rows() => {
            "default: several threads, without locks, do not repeat their bits"
        }
        (None, _, Threads::Share { .. }) if plan.cluster.mode == Mode::Single => {
            "default: all cores"
        }
        (None, _, Threads::Share { .. }) => "default: all cores, divided by the workers here",
        (None, _, Threads::Fixed(_)) => "default: more pay from a train.batch of 256 on",
    };
    let place = if plan.cluster.mode == Mode::Single { "" } else { " in each worker" };
    format!("# threads: {count}{place} ({why})\n")
}

/// What a step moves, if the servers hold a dense model.
fn wire(plan: &Plan) -> String {
    if plan.cluster.servers == 0 || plan.model.is_sparse() {
        return String::new();
    }
    let wire = plan.cluster.wire;
    format!(
        "# wire: {}, so a step of a worker moves {} bytes for each parameter in each direction\n",
        wire.name(),
        wire.number_bytes()
    )
}
