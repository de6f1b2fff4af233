//! Writes lines from a thread of its own, so that a message never blocks the thread that sends it.
//!
//! A pipe that is not read, a terminal that is stopped or a slow disk blocks the thread and nothing
//! else. The queue is bounded: lines that find no room are counted, and their number is written
//! when there is room again. A line that repeats the one before it is counted too.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The most bytes of lines that wait.
const MAX_QUEUED_BYTES: usize = 256 << 10;

/// For how long equal lines are counted before their number is written.
const REPEAT_PERIOD: Duration = Duration::from_secs(10);

/// Where lines go.
pub(crate) trait LineSink: Send + 'static {
    /// Writes a line and the end of it. A failure loses the line.
    fn write_line(&mut self, line: &str) -> io::Result<()>;
}

/// A queue of lines, and the thread that writes them.
#[derive(Clone)]
pub(crate) struct LineWriter {
    shared: Arc<SharedQueue>,
}

struct SharedQueue {
    state: Mutex<QueueState>,
    /// A line is there, or all are written.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    lines: VecDeque<String>,
    queued_bytes: usize,
    /// Lines that found no room.
    left_out: u64,
    /// The text of the last line, without its time.
    last: String,
    /// How often it came again, and since when that is counted.
    repeats: u64,
    repeats_since: Option<Instant>,
    /// Whether the thread writes a line now.
    is_writing: bool,
    /// Whether no more lines come.
    is_closed: bool,
    /// Whether there is no thread, so that lines are lost.
    is_dead: bool,
}

impl LineWriter {
    /// Starts a thread of this name that writes to `sink`.
    pub(crate) fn start(name: &str, sink: impl LineSink) -> Self {
        let shared = Arc::new(SharedQueue { state: Mutex::default(), changed: Condvar::new() });
        let theirs = shared.clone();
        let write = move || theirs.write_all(sink);
        let started = thread::Builder::new().name(name.to_owned()).spawn(write);
        shared.lock().is_dead = started.is_err();
        Self { shared }
    }

    /// Adds a line. `time` comes before the text, and is ignored when the line is compared with the
    /// one before.
    pub(crate) fn push(&self, time: &str, text: &str) {
        let mut state = self.shared.lock();
        if state.is_dead {
            return;
        }
        if state.repeats_since.is_some_and(|since| since.elapsed() < REPEAT_PERIOD)
            && state.last == text
        {
            state.repeats += 1;
            return;
        }
        state.end_repeats();
        state.enqueue(format!("{time}{text}"));
        text.clone_into(&mut state.last);
        state.repeats_since = Some(Instant::now());
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until all lines are written, for at most this long.
    pub(crate) fn flush(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut state = self.shared.lock();
        state.end_repeats();
        self.shared.changed.notify_all();
        while !state.is_idle() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the thread once all lines are written.
    pub(crate) fn close(&self) {
        let mut state = self.shared.lock();
        state.end_repeats();
        state.is_closed = true;
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl QueueState {
    fn is_idle(&self) -> bool {
        self.is_dead || self.lines.is_empty() && !self.is_writing && self.left_out == 0
    }

    fn enqueue(&mut self, line: String) {
        if self.queued_bytes + line.len() > MAX_QUEUED_BYTES {
            self.left_out += 1;
            return;
        }
        self.queued_bytes += line.len();
        self.lines.push_back(line);
    }

    /// Says how often the last line came again, if it did.
    fn end_repeats(&mut self) {
        match std::mem::take(&mut self.repeats) {
            0 => {}
            1 => self.enqueue("the last message was repeated once".into()),
            times => self.enqueue(format!("the last message was repeated {times} times")),
        }
        self.repeats_since = None;
    }

    /// The next line to write.
    fn next(&mut self) -> Option<String> {
        if let Some(line) = self.lines.pop_front() {
            self.queued_bytes -= line.len();
            return Some(line);
        }
        match std::mem::take(&mut self.left_out) {
            0 => None,
            count => Some(format!("{count} messages were left out, because they came too fast")),
        }
    }

    /// When repeats must be written, if there are some.
    fn repeats_due(&self) -> Option<Duration> {
        let since = self.repeats_since.filter(|_| self.repeats > 0)?;
        Some(REPEAT_PERIOD.saturating_sub(since.elapsed()))
    }
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines until the queue is closed.
    fn write_all(&self, mut sink: impl LineSink) {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.next() {
                state.is_writing = true;
                drop(state);
                // What cannot be written is lost: it must not end a healthy run.
                let _ = sink.write_line(&line);
                state = self.lock();
                state.is_writing = false;
                continue;
            }
            self.changed.notify_all();
            if state.is_closed {
                state.is_dead = true;
                return;
            }
            state = match state.repeats_due() {
                Some(due) if due.is_zero() => {
                    state.end_repeats();
                    state
                }
                Some(due) => {
                    let waited = self.changed.wait_timeout(state, due);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// A text whose control characters are written out, so that a message of another process cannot
/// move a terminal's cursor, colour it or reverse what is read. Line ends stay.
pub(crate) fn escaped(text: &str) -> String {
    let is_hostile = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_hostile) {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hostile(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Hands lines on, each only when the test allows it.
    struct SlowSink {
        allowed: Receiver<()>,
        written: Sender<String>,
    }

    impl LineSink for SlowSink {
        fn write_line(&mut self, line: &str) -> io::Result<()> {
            let _ = self.allowed.recv();
            let _ = self.written.send(line.to_owned());
            Ok(())
        }
    }

    fn slow_writer() -> (LineWriter, Sender<()>, Receiver<String>) {
        let ((allow, allowed), (written, lines)) = (channel(), channel());
        (LineWriter::start("test", SlowSink { allowed, written }), allow, lines)
    }

    #[test]
    fn a_blocked_sink_blocks_no_message_and_what_is_left_out_is_counted() {
        let (writer, allow, lines) = slow_writer();
        let long = "x".repeat(1 << 10);
        for number in 0..10_000 {
            writer.push("", &format!("{number} {long}"));
        }
        writer.flush(Duration::from_millis(1));
        assert!(writer.shared.lock().queued_bytes <= MAX_QUEUED_BYTES);
        drop(allow);
        writer.flush(Duration::from_secs(60));
        let lines: Vec<_> = lines.try_iter().collect();
        assert!((200..300).contains(&lines.len()), "{} lines", lines.len());
        let last = lines.last().unwrap();
        let count: usize = last.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(count + lines.len() - 1, 10_000, "{last}");
    }

    #[test]
    fn repeated_lines_are_counted() {
        let (writer, allow, lines) = slow_writer();
        drop(allow);
        for number in 0..5 {
            writer.push(&format!("{number} "), "same");
        }
        writer.push("5 ", "other");
        writer.flush(Duration::from_secs(60));
        let lines: Vec<_> = lines.try_iter().collect();
        assert_eq!(lines, ["0 same", "the last message was repeated 4 times", "5 other"]);
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(escaped("plain\nlines, ünïcode"), "plain\nlines, ünïcode");
        assert_eq!(escaped("\x1b[31mred\r\u{202e}"), "\\u{1b}[31mred\\r\\u{202e}");
    }
}
