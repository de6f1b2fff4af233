//! Reads the command line. Help and errors are broken between words at the terminal's width.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::Cli;
use paceline_job::key_for_word;
use paceline_terminal::{message_width, output_width, wrap_help};

/// The most columns of help: longer lines are hard to read.
const MAX_WIDTH: usize = 100;

/// The command line of this process; after help or an error, the code to end with.
pub fn parse_command_line() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        let error = with_key(error);
        show(&error);
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// An error about an unknown option, with the key of the job that was probably meant.
fn with_key(mut error: clap::Error) -> clap::Error {
    let option = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => option.clone(),
        _ => return error,
    };
    // The usage that the error shows tells which command it is of.
    let takes_keys = |usage: &ContextValue| usage.to_string().contains("JOB.toml");
    if !error.get(ContextKind::Usage).is_some_and(takes_keys) {
        return error;
    }
    // How to pass the option as a value helps with no file or directory.
    error.remove(ContextKind::Suggested);
    let tip = match option.strip_prefix("--") {
        Some(name) => {
            let key = key_for_word(name);
            key.map(|key| format!("a key of the job is set with --set {key}=VALUE"))
        }
        None => with_one_dash(&option, std::env::args())
            .map(|word| format!("an option of several letters begins with two dashes: -{word}")),
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

/// The argument of several letters that was read as the short option `-x` and others.
fn with_one_dash(option: &str, mut arguments: impl Iterator<Item = String>) -> Option<String> {
    arguments.find(|argument| argument.len() > option.len() && argument.starts_with(option))
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
