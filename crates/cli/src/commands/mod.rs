//! What each command does, in terms of the rest.

mod checkpoint;
mod data;
mod evaluate;
mod report;
mod sweep;
mod trace;
mod watch;

use std::io::{self, Write};
use std::sync::Arc;

use paceline_engine::Mode;
use paceline_place::{Cluster, LauncherChannel};

use crate::Failure;
use crate::bench;
use crate::cli::{Bench, Checkpoint, Command, Data, Job, Make, Trace, Train, Worker};
use crate::interrupt::Interrupt;
use crate::job::{ClusterPlan, Plan, RawJob};
use crate::join::{JoinOptions, join};
use crate::table::{closing_table, columns};
use crate::train::train;
use crate::train_options::TrainOptions;
use crate::watch::PageProcess;

/// Does what the command line says.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Train(args) => run_train(args),
        Command::Worker(args) => run_worker(args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Report(args) => report::report(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::Explain(args) => explain(&args),
        Command::Evaluate(args) => evaluate::evaluate(&args),
        Command::Data { command: Data::List } => data::list(),
        Command::Data { command: Data::Get { set, mirror } } => data::get(set.into(), mirror),
        Command::Data { command: Data::Make { what: Make::Clicks(args) } } => data::make(&args),
        Command::Checkpoint { command: Checkpoint::List { run } } => checkpoint::list(&run),
        Command::Checkpoint { command: Checkpoint::Verify { run } } => checkpoint::verify(&run),
        Command::Trace { command: Trace::Summary { run } } => trace::summary(&run),
        Command::Trace { command: Trace::Merge { run } } => trace::put_together(&run),
        Command::Bench { command } => run_bench(command),
    }
}

fn run_train(args: Train) -> Result<(), Failure> {
    let deaf = |error| Failure::Training(format!("cannot listen for signals: {error}"));
    let channel = LauncherChannel::open().map_err(deaf)?;
    // A task that was launched is told to stop by its launcher, which gets the signals.
    let interrupt = if channel.is_some() { Interrupt::only_note() } else { Interrupt::listen() };
    let interrupt = interrupt.map_err(deaf)?;
    if args.tied {
        sweep::obey_standard_input(&interrupt);
    }
    // A run that goes on has its job in its directory.
    let own = || Some(args.resume.as_ref()?.join("job.toml"));
    let job = Job { file: args.job.file.clone().or_else(own), ..args.job };
    if !args.watch && (args.page.listen.is_some() || args.page.token_file.is_some()) {
        return Err(Failure::Usage("--listen and --token-file are for the page of --watch".into()));
    }
    let Train { run_dir, resume, checkpoint, quiet, .. } = args;
    let job = raw_job(&job)?;
    let watching = args.watch.then(|| PageProcess::prepare(&args.page)).transpose()?.map(Arc::new);
    let watch = watching.clone();
    let options = TrainOptions { run_dir, resume, checkpoint, quiet, watch, bare: false };
    let finished = train(&job, &options, &interrupt, channel.as_ref())?;
    let Some(finished) = finished else { return Ok(()) };
    if !quiet {
        print(&closing_table(&finished.summary, &finished.run))?;
    }
    if let Some(signal) = finished.signal {
        return Err(Failure::Interrupted { signal });
    }
    watching.iter().for_each(|watching| watch::linger(watching, &interrupt));
    Ok(())
}

fn run_worker(args: Worker) -> Result<(), Failure> {
    let deaf = |error| Failure::Training(format!("cannot listen for signals: {error}"));
    let interrupt = Interrupt::listen().map_err(deaf)?;
    let Worker { join: target, token_file, run_dir } = args;
    join(&JoinOptions { target, token_file, run_dir }, &interrupt)
}

fn run_bench(command: Bench) -> Result<(), Failure> {
    match command {
        Bench::Step => print(&bench::step()),
        Bench::Sparse => print(&bench::sparse(&Interrupt::default())?),
        Bench::Layers(args) => print(&bench::layers(&args)?),
        Bench::Net => print(&bench::net(&Interrupt::default())?),
        Bench::Observe => print(&bench::observe(&Interrupt::default())?),
        Bench::Parse => print(&bench::parse()?),
        Bench::Allreduce => print(&bench::allreduce()?),
        Bench::Peer { peer, address, floats, seconds } => {
            bench::run_peer(&bench::Terms { peer, address, floats, seconds })
        }
    }
}

fn explain(args: &Job) -> Result<(), Failure> {
    let job = raw_job(args)?;
    let plan = job.check()?;
    print(&job.explain())?;
    print(&tasks(&plan, Cluster::from_env()?.as_ref()))
}

/// The slots that a worker fills first, in words.
fn slots_of(home: usize, plan: &Plan, workers: usize) -> String {
    let slots = (home..plan.cluster.slots(workers)).step_by(workers.max(1));
    let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
    if slots.is_empty() { "spare".into() } else { slots.join(", ") }
}

/// The tasks of a run: who is where, read from what, and what does not fit together.
fn tasks(plan: &Plan, cluster: Option<&Cluster>) -> String {
    let Some(cluster) = cluster else {
        let ClusterPlan { workers, servers, .. } = plan.cluster;
        return match plan.cluster.mode {
            Mode::Single => "\n# tasks: this process alone\n".into(),
            Mode::Mirrored => format!(
                "\n# tasks: {workers} workers, which `paceline train` starts here (TF_CONFIG is \
                 not set)\n"
            ),
            _ => format!(
                "\n# tasks: {workers} workers and {servers} servers, which `paceline train` starts \
                 here (TF_CONFIG is not set){}\n",
                match plan.cluster.slots {
                    Some(slots) => format!("; workers fill {slots} slots"),
                    None => String::new(),
                }
            ),
        };
    };
    let mut rows = vec![["# task", "slot", "address", ""].map(String::from).to_vec()];
    for (task, address) in &cluster.addresses {
        let at = Cluster { task: *task, ..cluster.clone() };
        let slot = at.slot().map_or("-".into(), |home| slots_of(home, plan, cluster.slots()));
        let here = if *task == cluster.task { "this process" } else { "" };
        rows.push(vec![format!("# {task}"), slot, address.clone(), here.into()]);
    }
    let mut text = format!("\n# tasks, from TF_CONFIG\n{}", columns(&rows));
    let servers = (plan.cluster.mode != Mode::Mirrored).then_some(plan.cluster.servers);
    let differences = cluster.differences(plan.cluster.workers, servers);
    for remark in cluster.remarks.iter().chain(&differences) {
        text.push_str(&format!("# {remark}\n"));
    }
    text
}

/// The raw job that the arguments name.
fn raw_job(args: &Job) -> Result<RawJob, Failure> {
    let mut job = match &args.file {
        Some(path) => RawJob::read(path)?,
        None => RawJob::built_in(),
    };
    args.settings.iter().for_each(|setting| job.set(setting));
    Ok(job)
}

/// Prints to standard output; a reader who has seen enough is no error.
fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Files { what: "cannot write to standard output".into(), source: error })
        }
        _ => Ok(()),
    }
}
