//! Progress bars: their terminal, which is two columns narrower than it is, and lines that fit it.
//!
//! The terminal writes `^C` behind the bar when the user interrupts. In a line without room for it
//! the `^C` goes to the next line, where the bar cannot be erased any more.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressDrawTarget, TermLike};

use crate::text_table::shown_name;
use crate::width::message_width;

/// The columns of `^C`.
const INTERRUPT_COLUMNS: usize = 2;
/// How often a bar is drawn at most, as indicatif does by itself.
const DRAWS_PER_SECOND: u8 = 20;

/// The columns of standard error that a bar and its text may take.
pub fn bar_width() -> usize {
    message_width().unwrap_or(80).saturating_sub(INTERRUPT_COLUMNS)
}

/// Where bars are drawn: on standard error, which must be a terminal.
pub fn bar_target() -> ProgressDrawTarget {
    ProgressDrawTarget::term_like_with_hz(Box::<BarTerminal>::default(), DRAWS_PER_SECOND)
}

/// Collects what is drawn, so that each drawing is written at once.
#[derive(Debug, Default)]
struct BarTerminal(Mutex<String>);

impl BarTerminal {
    /// Moves the cursor `n` places into a direction: `A` up, `B` down, `C` right, `D` left.
    fn move_cursor(&self, n: usize, direction: char) -> io::Result<()> {
        if n == 0 { Ok(()) } else { self.write_str(&format!("\x1b[{n}{direction}")) }
    }
}

impl TermLike for BarTerminal {
    fn width(&self) -> u16 {
        u16::try_from(bar_width()).unwrap_or(u16::MAX)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(&format!("{text}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.write_str("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let drawn = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        io::stderr().write_all(drawn.as_bytes())
    }
}

/// A text cut to the width of a bar without `used` columns: a line that is replaced must
/// not wrap.
pub fn fit_bar(text: &str, used: usize) -> String {
    let (text, width) = (shown_name(text), bar_width().saturating_sub(used));
    if text.chars().count() <= width {
        return text;
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// What a task waits for, in this many columns: the names are cut, and not the time at the
/// end.
pub fn fit_wait(text: &str, width: usize) -> String {
    let text = &shown_name(text);
    let (awaited, time) = text.rsplit_once(" (").unwrap_or((text, ""));
    let left = width.saturating_sub(time.chars().count() + 3);
    if text.chars().count() <= width || time.is_empty() || left == 0 {
        return fit_bar(text, 0);
    }
    let names: String = awaited.chars().take(left).collect();
    format!("{names}… ({time}")
}

/// A line without the first of its details in parentheses, as many as do not fit this many columns.
/// The last one, the time left, stays.
pub fn without_details(line: &str, width: usize) -> String {
    // Names of files are in it.
    let mut line = shown_name(line);
    while line.chars().count() > width
        && let Some((start, details)) = line.rsplit_once(" (")
        && let Some((_, rest)) = details.split_once(", ")
    {
        line = format!("{start} ({rest}");
    }
    line
}

/// Formats seconds for people: `8 s`, `3:05`, `2:00:00`.
pub fn clock_time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 3_600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_wait_stays_when_names_are_cut() {
        let text = "waiting for worker:0, worker:1, worker:2 (3 s of 60 s)";
        assert_eq!(fit_wait(text, 58), text);
        let short = fit_wait(text, 39);
        assert_eq!(short, "waiting for worker:0, wo… (3 s of 60 s)");
        assert_eq!(short.chars().count(), 39);
    }

    #[test]
    fn names_in_a_bar_move_no_cursor() {
        let name = "reading a\x1b[2K\rb.svm";
        for shown in [fit_bar(name, 0), fit_wait(name, 70), without_details(name, 70)] {
            assert_eq!(shown, r"reading a\u{1b}[2K\rb.svm");
        }
    }

    #[test]
    fn details_that_do_not_fit_are_left_out() {
        let line = "reading rows.svm: 25 % (1,200,000 rows, 1,200,000 a second, 3 s left)";
        assert_eq!(without_details(line, 69), line);
        let shorter = "reading rows.svm: 25 % (1,200,000 a second, 3 s left)";
        assert_eq!(without_details(line, 58), shorter);
        assert_eq!(without_details(line, 40), "reading rows.svm: 25 % (3 s left)");
        assert_eq!(without_details("reading rows.svm: 0 %", 10), "reading rows.svm: 0 %");
    }

    #[test]
    fn seconds_are_written_with_their_unit_or_as_a_clock() {
        assert_eq!([7.6, 185.0, 7_200.0].map(clock_time), ["8 s", "3:05", "2:00:00"]);
    }
}
