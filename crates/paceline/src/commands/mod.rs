//! What each command does, in terms of the rest.

mod data;
mod evaluate;

use std::io::{self, Write};

use crate::Failure;
use crate::bench;
use crate::chief::StopReason;
use crate::cli::{Bench, Command, Data, Job, Train};
use crate::interrupt::Interrupt;
use crate::job::RawJob;
use crate::table::closing_table;
use crate::train::{Options, train};

/// Does what the command line says.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Train(args) => run_train(args),
        Command::Explain(args) => explain(&args),
        Command::Evaluate(args) => evaluate::evaluate(&args),
        Command::Data { command: Data::List } => data::list(),
        Command::Data { command: Data::Get { set, mirror } } => data::get(set.into(), mirror),
        Command::Bench { command: Bench::Step } => print(&bench::step()),
    }
}

fn run_train(args: Train) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()
        .map_err(|error| Failure::Training(format!("cannot listen for signals: {error}")))?;
    let options = Options { run_dir: args.run_dir, quiet: args.quiet };
    let finished = train(&raw_job(&args.job)?, &options, interrupt)?;
    if !args.quiet {
        print(&closing_table(&finished.summary, finished.run.path()))?;
    }
    match finished.reason {
        StopReason::Interrupted { signal } => Err(Failure::Interrupted { signal }),
        _ => Ok(()),
    }
}

fn explain(args: &Job) -> Result<(), Failure> {
    let job = raw_job(args)?;
    job.check()?;
    print(&job.explain())
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
