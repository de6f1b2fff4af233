//! The `paceline` program.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use paceline_cli::cli::Cli;
use paceline_cli::commands;

fn main() -> ExitCode {
    match commands::run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.to_string().replace('\n', "\nerror: ");
            // One write, because other tasks write to the same stream. If it fails, only the exit
            // code is left.
            let _ = std::io::stderr().write_all(format!("error: {text}\n").as_bytes());
            ExitCode::from(failure.exit_code())
        }
    }
}
