//! Reads the command line. Help and errors are broken between words at the terminal's width.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use paceline_terminal::{message_width, output_width, wrap_help};

/// The most columns of help: longer lines are hard to read.
const MAX_WIDTH: usize = 100;

/// The command line of this process; after help or an error, the code to end with.
pub fn parse_command_line() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        show(&error);
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

fn show(error: &clap::Error) {
    let is_error = error.use_stderr();
    let width = if is_error { message_width() } else { output_width() };
    let Some(width) = width else {
        // A file gets the text as it is. A stream that cannot be written leaves the exit code.
        let _ = error.print();
        return;
    };
    let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let text = error.render();
    let text = if has_colour { text.ansi().to_string() } else { text.to_string() };
    let text = wrap_help(&text, "paceline", width.min(MAX_WIDTH));
    let _ = if is_error {
        io::stderr().write_all(text.as_bytes())
    } else {
        io::stdout().write_all(text.as_bytes())
    };
}

#[cfg(test)]
mod tests;
