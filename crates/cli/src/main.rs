//! The `paceline` program.

use std::process::ExitCode;

use paceline_cli::help_text::parse_command_line;
use paceline_cli::{Failure, commands};
use paceline_record::flush_lines;

fn main() -> ExitCode {
    paceline_filemap::report_with(|text| Failure::Training(text.to_owned()).report());
    let cli = match parse_command_line() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match commands::run(cli.command) {
        Ok(()) => {
            flush_lines();
            ExitCode::SUCCESS
        }
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code())
        }
    }
}
