//! The log of a task: every message goes into its `log.txt`, warnings also to standard error.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::error::RunFileError;
use crate::names::files;
use crate::run_dir::RunDir;

/// The most bytes that one process writes into its log.
const MAX_BYTES: u64 = 4 << 20;

/// The log of one task.
#[derive(Debug)]
pub struct TaskLog {
    task: String,
    file: File,
    started: Instant,
    written_bytes: AtomicU64,
}

impl TaskLog {
    /// Opens the log in the task's folder. A task that restarts appends to its log.
    pub fn create(run: &RunDir, task: impl Display) -> Result<Self, RunFileError> {
        let task = task.to_string();
        let folder = run.task(&task);
        std::fs::create_dir_all(&folder).map_err(RunFileError::at("make the folder", &folder))?;
        let path = folder.join(files::LOG);
        let file = File::options().append(true).create(true).open(&path);
        let file = file.map_err(RunFileError::at("make the log", &path))?;
        Ok(Self { task, file, started: Instant::now(), written_bytes: AtomicU64::new(0) })
    }

    /// The task's name.
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Writes a line into the file, with the seconds since the log was opened.
    pub fn info(&self, text: &str) {
        let mut line = format!("{:9.3} {text}\n", self.started.elapsed().as_secs_f64());
        let before = self.written_bytes.fetch_add(line.len() as u64, Ordering::Relaxed);
        if before > MAX_BYTES {
            return;
        }
        if before + line.len() as u64 > MAX_BYTES {
            line = "the log is full\n".into();
        }
        // A log that cannot be written must not end a healthy run.
        let _ = (&self.file).write_all(line.as_bytes());
    }

    /// Writes a line into the file and, after the task's name, to standard error.
    pub fn warn(&self, text: &str) {
        self.info(text);
        write_line(&format!("{}: {text}", self.task));
    }
}

/// Writes a line to standard error. A failure is ignored: a closed standard error must not end a
/// run.
pub fn write_line(text: &str) {
    // One write, because the tasks of a run share standard error.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
