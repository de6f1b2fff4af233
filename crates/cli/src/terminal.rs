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

/// TOML for standard output: if that is a terminal, long comments continue on lines of their own.
pub(crate) fn wrap_comments(text: &str) -> String {
    let Some(width) = output_width() else { return text.to_owned() };
    text.lines().map(|line| wrap_comment(line, width) + "\n").collect()
}

/// The narrowest comment beside a setting.
const LEAST_COMMENT: usize = 24;

fn wrap_comment(line: &str, width: usize) -> String {
    let Some(at) = comment_start(line).filter(|_| line.chars().count() > width) else {
        return line.to_owned();
    };
    let (setting, comment) = (&line[..at], line[at..].trim_start_matches(['#', ' ']));
    let column = setting.chars().count();
    if column == 0 || column + LEAST_COMMENT <= width {
        let indent = format!("\n{}# ", " ".repeat(column));
        let comment = wrap(comment, width - column - 2, "").replace('\n', &indent);
        return format!("{setting}# {comment}");
    }
    let comment = wrap(comment, width.saturating_sub(6), "").replace('\n', "\n    # ");
    format!("{}\n    # {comment}", setting.trim_end())
}

/// Where the comment of a line begins: at the first `#` outside quotes.
fn comment_start(line: &str) -> Option<usize> {
    let mut is_quoted = false;
    line.char_indices().find_map(|(at, c)| {
        is_quoted ^= c == '"';
        (c == '#' && !is_quoted).then_some(at)
    })
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

    #[test]
    fn long_comments_continue_on_lines_of_their_own() {
        let line = "rate = 0.1      # default: good for most models";
        assert_eq!(wrap_comment(line, 80), line);
        let narrow = "rate = 0.1      # default: good for most\n                # models";
        assert_eq!(wrap_comment(line, 40), narrow);
        let below = "rate = 0.1\n    # default: good for most\n    # models";
        assert_eq!(wrap_comment(line, 30), below);
        assert_eq!(
            wrap_comment("# threads: 2 in each worker", 20),
            "# threads: 2 in each\n# worker"
        );
        let quoted = "path = \"/a#b/c\" # --set data.path=/a#b/c";
        assert_eq!(
            wrap_comment(quoted, 20),
            "path = \"/a#b/c\"\n    # --set\n    # data.path=/a#b/c"
        );
    }
}
