//! What a task has to say: everything into its own `log.txt`, what matters to people also onto
//! standard error, with the task's name before it.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use crate::Failure;
use crate::cluster::Task;
use crate::progress::write_line;
use crate::run::RunDir;

/// The log of one task.
#[derive(Debug)]
pub struct Log {
    task: Task,
    file: File,
    started: Instant,
}

impl Log {
    /// Opens the task's log, in its folder: a new one, or the one of the process before it.
    pub fn create(run: &RunDir, task: Task) -> Result<Self, Failure> {
        let path = run.task(&task.to_string()).join("log.txt");
        let file = File::options().append(true).create(true).open(&path);
        let file = file.map_err(Failure::at("make the log", &path))?;
        Ok(Self { task, file, started: Instant::now() })
    }

    /// For the record.
    pub fn info(&self, text: &str) {
        // A log that cannot be written must not end a run that goes well.
        let _ = writeln!(&self.file, "{:9.3} {text}", self.started.elapsed().as_secs_f64());
    }

    /// For the record, and for whoever is looking.
    pub fn warn(&self, text: &str) {
        self.info(text);
        write_line(&format!("{}: {text}", self.task));
    }
}
