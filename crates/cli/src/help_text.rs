//! Reads the command line. Help and errors are broken between words at the terminal's width.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use paceline_terminal::{columns_of, message_width, output_width, wrap};

/// The most columns of help: longer lines are hard to read.
const MAX_WIDTH: usize = 100;
/// The narrowest description beside an option.
const LEAST_DESCRIPTION: usize = 24;
/// Stands for a space at which no line ends.
const JOINT: char = '\u{a0}';
/// The indent of a description that goes below its option.
const BELOW: usize = 10;

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
    let text = wrap_help(&text, width.min(MAX_WIDTH));
    let _ = if is_error {
        io::stderr().write_all(text.as_bytes())
    } else {
        io::stdout().write_all(text.as_bytes())
    };
}

/// Breaks each line of a help text.
fn wrap_help(text: &str, width: usize) -> String {
    text.lines().map(|line| wrap_line(line, width) + "\n").collect()
}

fn wrap_line(line: &str, width: usize) -> String {
    if columns_of(line) <= width {
        return line.to_owned();
    }
    let indent = columns_of(line) - columns_of(line.trim_start_matches(' '));
    if line.trim_start().starts_with("paceline ") {
        // A command that continues on the next line, ready to be copied.
        let broken = wrap(&join_options(line), width.saturating_sub(2), &" ".repeat(indent + 4));
        return broken.replace('\n', " \\\n").replace(JOINT, " ");
    }
    let Some(at) = description_start(line) else {
        return wrap(line, width, &" ".repeat(indent));
    };
    let (option, description) = line.split_at(at);
    let column = columns_of(option);
    if column + LEAST_DESCRIPTION <= width {
        let description = wrap(description, width - column, "");
        return format!("{option}{}", description.replace('\n', &newline(column)));
    }
    let below = wrap(description, width.saturating_sub(BELOW), "");
    let below = below.replace('\n', &newline(BELOW));
    format!("{}{}{below}", option.trim_end(), newline(BELOW))
}

/// A command whose options stay with their values.
fn join_options(command: &str) -> String {
    let mut words = command.split(' ');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let last = text.rsplit(' ').next().unwrap_or_default();
        let is_value = last.starts_with("--") && !last.contains(JOINT) && !word.starts_with("--");
        format!("{text}{}{word}", if is_value { JOINT } else { ' ' })
    })
}

fn newline(indent: usize) -> String {
    format!("\n{}", " ".repeat(indent))
}

/// Where the description of an option or a command begins: after its name and two spaces.
fn description_start(line: &str) -> Option<usize> {
    let name = line.len() - line.trim_start_matches(' ').len();
    let gap = name + line[name..].find("  ")?;
    (name > 0).then(|| line.len() - line[gap..].trim_start_matches(' ').len())
}

#[cfg(test)]
mod tests;
