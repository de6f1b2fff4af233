//! The width of the terminal, and texts that fit it.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

/// The fewest columns that a layout is made for.
const MIN_WIDTH: usize = 40;

/// The columns of the terminal that standard output goes to; `None` if it is not a terminal.
pub fn output_width() -> Option<usize> {
    width_of(&io::stdout())
}

/// The columns of the terminal that standard error goes to; `None` if it is not a terminal.
pub fn message_width() -> Option<usize> {
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
pub fn wrap_message(text: &str) -> String {
    let Some(width) = message_width() else { return text.to_owned() };
    let lines: Vec<_> = text.lines().map(|line| wrap(line, width, "  ")).collect();
    lines.join("\n")
}

/// A text for standard output, broken between words if that is a terminal.
/// Lines after the first begin with `indent`.
pub fn wrap_output(text: &str, indent: &str) -> String {
    output_width().map_or(text.to_owned(), |width| wrap(text, width, indent))
}

/// TOML for standard output: if that is a terminal, long comments continue on lines of their own.
pub fn wrap_comments(text: &str) -> String {
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
    let longest = comment.split_whitespace().map(columns_of).max().unwrap_or(0);
    if column == 0 || column + LEAST_COMMENT.max(longest + 2) <= width {
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
/// begin with `indent`. A number stays with its unit, and a command in quotes in one line if it
/// fits. A word that is longer than a line stays whole. Spaces at the beginning stay.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let room = width.saturating_sub(indent.len());
    let trimmed = text.trim_start_matches(' ');
    let mut line = text[..text.len() - trimmed.len()].to_owned();
    let mut lines: Vec<String> = Vec::new();
    for word in words(trimmed, room) {
        let has_words = !line.trim().is_empty();
        if has_words && columns_of(&line) + 1 + columns_of(word) > width {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
        } else if has_words {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}

/// Units that stay with their number.
const UNITS: [&str; 10] = ["%", "s", "ms", "us", "kB", "MB", "GB", "GFLOP", "Mbit/s", "MB/s"];

/// The words of a text, each with what must not be separated from it.
fn words(text: &str, room: usize) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    let mut rest = text;
    loop {
        let end = quoted_end(rest, room).or_else(|| rest.find(' ')).unwrap_or(rest.len());
        let word = &rest[..end];
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ';', '.', ':', ')']));
        match words.last_mut().filter(|last| last.ends_with(|c: char| c.is_ascii_digit())) {
            Some(last) if is_unit => {
                let begin = text.len() - rest.len() - 1 - last.len();
                *last = &text[begin..text.len() - rest.len() + end];
            }
            _ => words.push(word),
        }
        if end == rest.len() {
            return words;
        }
        rest = &rest[end + 1..];
    }
}

/// Where the first word of a text ends if it is a quotation of several words that fits a line.
fn quoted_end(text: &str, room: usize) -> Option<usize> {
    let quote = text.chars().next().filter(|first| "'`".contains(*first))?;
    let closing = 1 + text[1..].find(quote)?;
    let end = text[closing..].find(' ').map_or(text.len(), |space| closing + space);
    (columns_of(&text[..end]) <= room).then_some(end)
}

/// The columns that a text takes: its characters, without the sequences that change colours.
pub fn columns_of(text: &str) -> usize {
    let mut columns = 0;
    let mut is_escape = false;
    for c in text.chars() {
        match c {
            '\x1b' => is_escape = true,
            'm' if is_escape => is_escape = false,
            _ => columns += usize::from(!is_escape),
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(wrap("one two three", 100, "  "), "one two three");
        assert_eq!(wrap("one two three four", 9, "  "), "one two\n  three\n  four");
        assert_eq!(wrap("a-very-long-word b", 5, "  "), "a-very-long-word\n  b");
        assert_eq!(wrap("  one two", 100, "  "), "  one two");
        assert_eq!(wrap("  one two", 6, "    "), "  one\n    two");
    }

    #[test]
    fn numbers_stay_with_their_units_and_commands_in_one_line() {
        assert_eq!(wrap("accuracy 93.20 %, loss 1", 15, "  "), "accuracy\n  93.20 %, loss\n  1");
        assert_eq!(
            wrap("runs it with '--set a={b=1, c=2}'.", 28, ""),
            "runs it with\n'--set a={b=1, c=2}'."
        );
        assert_eq!(wrap("the others' time 'a b", 14, ""), "the others'\ntime 'a b");
        assert_eq!(wrap("'a b c' d", 4, ""), "'a b\nc' d");
        assert_eq!(wrap("it took 5 s", 9, ""), "it took\n5 s");
    }

    #[test]
    fn colours_take_no_columns() {
        assert_eq!(columns_of("\x1b[1m\x1b[4mUsage:\x1b[0m x"), 8);
        assert_eq!(wrap("\x1b[1mone\x1b[0m two", 7, ""), "\x1b[1mone\x1b[0m two");
    }

    #[test]
    fn long_comments_continue_on_lines_of_their_own() {
        let line = "rate = 0.1      # default: good for most models";
        assert_eq!(wrap_comment(line, 80), line);
        let narrow = "rate = 0.1      # default: good for most\n                # models";
        assert_eq!(wrap_comment(line, 40), narrow);
        let below = "rate = 0.1\n    # default: good for most\n    # models";
        assert_eq!(wrap_comment(line, 30), below);
        // A word that does not fit beside the setting stays whole below it.
        let path = "path = \"/data/p.csv\"  # --set data.path=/data/p.csv";
        let below = "path = \"/data/p.csv\"\n    # --set data.path=/data/p.csv";
        assert_eq!(wrap_comment(path, 44), below);
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
