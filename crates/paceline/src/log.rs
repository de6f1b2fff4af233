//! What a task has to say: everything into its own `log.txt`, what matters to people also onto
//! standard error, with the task's name before it.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::Failure;
use crate::cluster::Task;
use crate::progress::write_line;
use crate::run::RunDir;

/// Bytes that a process writes into its log; more than this is noise that nobody reads.
const MAX_BYTES: u64 = 4 << 20;

/// The log of one task.
#[derive(Debug)]
pub struct Log {
    task: Task,
    file: File,
    started: Instant,
    written_bytes: AtomicU64,
}

impl Log {
    /// Opens the task's log, in its folder: a new one, or the one of the process before it.
    pub fn create(run: &RunDir, task: Task) -> Result<Self, Failure> {
        let folder = run.task(&task.to_string());
        std::fs::create_dir_all(&folder).map_err(Failure::at("make the folder", &folder))?;
        let path = folder.join("log.txt");
        let file = File::options().append(true).create(true).open(&path);
        let file = file.map_err(Failure::at("make the log", &path))?;
        Ok(Self { task, file, started: Instant::now(), written_bytes: AtomicU64::new(0) })
    }

    /// For the record.
    pub fn info(&self, text: &str) {
        let mut line = format!("{:9.3} {text}\n", self.started.elapsed().as_secs_f64());
        let before = self.written_bytes.fetch_add(line.len() as u64, Ordering::Relaxed);
        if before > MAX_BYTES {
            return;
        }
        if before + line.len() as u64 > MAX_BYTES {
            line = "the log is full\n".into();
        }
        // A log that cannot be written must not end a run that goes well.
        let _ = (&self.file).write_all(line.as_bytes());
    }

    /// For the record, and for whoever is looking.
    pub fn warn(&self, text: &str) {
        self.info(text);
        write_line(&format!("{}: {text}", self.task));
    }
}
