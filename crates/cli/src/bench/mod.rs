//! `paceline bench`, with the feature `bench`. This crate measures whole runs, `paceline-bench` the
//! parts.

mod net;
mod observe;
mod sparse;

use paceline_bench::{BenchError, BenchProcessArgs};

use crate::Failure;
use crate::bench_args::BenchCommand;
use crate::interrupt::Interrupt;

/// Runs a benchmark; returns what it prints, or nothing for a process of another one.
pub(crate) fn run_bench(command: BenchCommand) -> Result<Option<String>, Failure> {
    let interrupt = Interrupt::default();
    let results = match command {
        BenchCommand::Step => paceline_bench::step(),
        BenchCommand::Sparse => sparse::sparse(&interrupt)?,
        BenchCommand::Layers(args) => paceline_bench::layers(&args)?,
        BenchCommand::Net => net::net(&interrupt)?,
        BenchCommand::Observe => observe::observe(&interrupt)?,
        BenchCommand::Parse => paceline_bench::parse()?,
        BenchCommand::Allreduce => paceline_bench::allreduce()?,
        BenchCommand::Peer { peer, address, floats, seconds } => {
            paceline_bench::run_peer(&BenchProcessArgs { peer, address, floats, seconds })?;
            return Ok(None);
        }
    };
    Ok(Some(results))
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Data(error) => Failure::Data(error),
            BenchError::Network(why) => Failure::Training(why),
            BenchError::Io { what, source } => Failure::Files { what, source },
        }
    }
}
