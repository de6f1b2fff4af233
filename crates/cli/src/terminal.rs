//! The width of the terminal, and texts that fit it.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

/// The fewest columns that a layout is made for.
const MIN_WIDTH: usize = 40;

/// The columns of the terminal that standard output is; `None` if it is none.
pub(crate) fn output_width() -> Option<usize> {
    width_of(&io::stdout())
}

/// The columns of the terminal that standard error is; `None` if it is none.
pub(crate) fn message_width() -> Option<usize> {
    width_of(&io::stderr())
}

fn width_of(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    // Some terminals do not know their size.
    (size.ws_col > 0).then(|| usize::from(size.ws_col).max(MIN_WIDTH))
}

/// A message for standard error: broken between words if that is a terminal, with later lines
/// indented. A file gets the message as it is.
pub(crate) fn wrap_message(text: &str) -> String {
    let Some(width) = message_width() else { return text.to_owned() };
    wrap(text, width, "  ")
}

/// A text for standard output, broken between words if that is a terminal.
pub(crate) fn wrap_output(text: &str) -> String {
    output_width().map_or(text.to_owned(), |width| wrap(text, width, "  "))
}

/// Breaks a text between words into lines of at most `width` columns. All lines but the first
/// begin with `indent`. A word that is longer than a line stays whole.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let has_words = line.len() > if lines.is_empty() { 0 } else { indent.len() };
        if has_words && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
        } else if has_words {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(wrap("one two three", 100, "  "), "one two three");
        assert_eq!(wrap("one two three four", 9, "  "), "one two\n  three\n  four");
        assert_eq!(wrap("a-very-long-word b", 5, "  "), "a-very-long-word\n  b");
    }
}
