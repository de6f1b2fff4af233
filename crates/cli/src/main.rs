//! The `paceline` program.

use std::process::ExitCode;

use clap::Parser;
use paceline_cli::cli::Cli;
use paceline_cli::commands;

fn main() -> ExitCode {
    match commands::run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code())
        }
    }
}
