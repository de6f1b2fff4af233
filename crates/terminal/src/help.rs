//! Help texts of command lines, broken between words.

use crate::width::{columns_of, wrap};

/// The narrowest description beside an option.
const LEAST_DESCRIPTION: usize = 24;
/// Stands for a space at which no line ends.
const JOINT: char = '\u{a0}';
/// The indent of a description that goes below its option.
const BELOW: usize = 10;

/// Breaks each line of a help text at `width` columns. A command of `program` continues on the
/// next line, ready to be copied.
///
/// ```
/// let help = "  --rank <N>  Number of this process\n\nExample:\n  tool run --rank 1 --size 3\n";
/// let expected = "  --rank <N>\n          Number of this\n          process\n\nExample:\n  \
///                 tool run --rank 1 \\\n      --size 3\n";
/// assert_eq!(paceline_terminal::wrap_help(help, "tool", 26), expected);
/// ```
pub fn wrap_help(text: &str, program: &str, width: usize) -> String {
    text.lines().map(|line| wrap_line(line, program, width) + "\n").collect()
}

fn wrap_line(line: &str, program: &str, width: usize) -> String {
    if columns_of(line) <= width {
        return line.to_owned();
    }
    let indent = columns_of(line) - columns_of(line.trim_start_matches(' '));
    let command = line.trim_start().strip_prefix(program);
    if command.is_some_and(|arguments| arguments.starts_with(' ')) {
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
