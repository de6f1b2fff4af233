//! The log of a task: every message goes into its `log.txt`, warnings also to standard error.
//!
//! Threads of their own write both (`line_writer`), so that a message costs the thread that sends
//! it a moment and never blocks it.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use paceline_filemap::append_regular;

use crate::error::RunFileError;
use crate::line_writer::{LineSink, LineWriter, escaped};
use crate::names::files;
use crate::run_dir::RunDir;

/// The length at which a log becomes the old one and a new one begins, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// How long the end of a log or of a process waits for what is still to be written.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// What writes to standard error.
static ERRORS: OnceLock<LineWriter> = OnceLock::new();

/// The log of one task.
pub struct TaskLog {
    task: String,
    writer: LineWriter,
    started: Instant,
}

impl std::fmt::Debug for TaskLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskLog").field("task", &self.task).finish_non_exhaustive()
    }
}

impl TaskLog {
    /// Opens the log in the task's folder. A task that restarts appends to its log.
    pub fn create(run: &RunDir, task: impl Display) -> Result<Self, RunFileError> {
        let task = task.to_string();
        let folder = run.task(&task);
        fs::create_dir_all(&folder).map_err(RunFileError::at("make the folder", &folder))?;
        let path = folder.join(files::LOG);
        let file = LogFile::open(&path).map_err(RunFileError::at("make the log", &path))?;
        Ok(Self { task, writer: LineWriter::start("log", file), started: Instant::now() })
    }

    /// The task's name.
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Writes a line into the file, with the seconds since the log was opened.
    pub fn info(&self, text: &str) {
        let time = format!("{:9.3} ", self.started.elapsed().as_secs_f64());
        // Further lines are indented, so that none looks like a message of its own.
        self.writer.push(&time, &escaped(text).replace('\n', "\n          "));
    }

    /// Writes a line into the file and, after the task's name, to standard error.
    pub fn warn(&self, text: &str) {
        self.info(text);
        write_line(&format!("{}: {text}", self.task));
    }

    /// Waits until everything is in the file, for at most a second.
    pub fn flush(&self) {
        self.writer.flush(FLUSH_LIMIT);
    }
}

impl Drop for TaskLog {
    fn drop(&mut self) {
        self.flush();
        self.writer.close();
    }
}

/// A log in a file. When it is full, it becomes the old one and a new one begins.
struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = append_regular(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes })
    }
}

impl LineSink for LogFile {
    fn write_line(&mut self, line: &str) -> io::Result<()> {
        if self.bytes >= MAX_BYTES {
            fs::rename(&self.path, self.path.with_file_name(files::OLD_LOG))?;
            *self = Self::open(&self.path)?;
        }
        self.bytes += line.len() as u64 + 1;
        self.file.write_all(format!("{line}\n").as_bytes())
    }
}

/// Standard error, which the tasks of a run share.
struct StandardError;

impl LineSink for StandardError {
    fn write_line(&mut self, line: &str) -> io::Result<()> {
        // One write, because others write to it too.
        io::stderr().write_all(format!("{line}\n").as_bytes())
    }
}

fn errors() -> &'static LineWriter {
    ERRORS.get_or_init(|| LineWriter::start("messages", StandardError))
}

/// Writes a line to standard error, soon. A failure is ignored: a closed standard error must not
/// end a run.
pub fn write_line(text: &str) {
    write_line_after("", text);
}

/// The same, with characters before the text that control a terminal.
pub fn write_line_after(control: &str, text: &str) {
    errors().push(control, &escaped(text));
}

/// Waits until the lines for standard error are written, for at most a second. Call it before the
/// process ends.
pub fn flush_lines() {
    if let Some(errors) = ERRORS.get() {
        errors.flush(FLUSH_LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_becomes_the_old_one_and_a_new_one_begins() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::prepare(dir.path()).unwrap();
        let long = "x".repeat(10_000);
        let log = TaskLog::create(&run, "ps:0").unwrap();
        for number in 0..1_000 {
            log.info(&format!("{number} {long}"));
            log.flush();
        }
        drop(log);
        let read = |name: &str| fs::read_to_string(run.task("ps:0").join(name)).unwrap();
        let (old, new) = (read(files::OLD_LOG), read(files::LOG));
        let most = MAX_BYTES as usize + 20_000;
        assert!(old.len() < most && new.len() < most);
        let number = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<u32>().unwrap();
        assert_eq!(number(new.lines().next_back().unwrap()), 999);
        assert_eq!(
            number(old.lines().next_back().unwrap()) + 1,
            number(new.lines().next().unwrap())
        );
    }

    #[test]
    fn a_message_cannot_look_like_two() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::prepare(dir.path()).unwrap();
        let log = TaskLog::create(&run, "ps:0").unwrap();
        log.info("one\n    0.001 forged\x1b[2J");
        drop(log);
        let text = fs::read_to_string(run.task("ps:0").join(files::LOG)).unwrap();
        assert!(text.lines().nth(1).unwrap().starts_with("          "), "{text}");
        assert!(text.contains("\\u{1b}[2J"), "{text}");
    }
}
