//! A sweep's directory: what was planned, and what has become of it.
//!
//! ```text
//! sweep.json          the plan: every cell, in the order in which they are run
//! cells.jsonl         a line for every cell that has ended, however it did
//! jobs/<cell>.toml    each cell's job, complete
//! runs/<cell>/        its run directory; a second attempt has another
//! logs/<cell>.txt     what it said on standard error, if anything
//! ```
//!
//! The plan never changes and the log only grows, so a sweep that was stopped, or killed, goes
//! on from what is there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::claim::Claim;
use crate::machine::Machine;

/// The plan's file.
pub const PLAN: &str = "sweep.json";
/// The log's file.
pub const LOG: &str = "cells.jsonl";

/// What a sweep will run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Plan {
    /// What the job is called.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// When it began, in seconds since 1970.
    pub started_seconds: u64,
    /// Whether the runs are shortened.
    pub quick: bool,
    /// The command that began it.
    pub command: String,
    /// The job file, as it was written.
    pub job: String,
    /// What it runs on.
    pub machine: Machine,
    /// What others found, to be held against the runs.
    pub claims: Vec<Claim>,
    /// The runs, in their order.
    pub cells: Vec<Cell>,
}

/// One run of a sweep.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Cell {
    /// Its name, and that of its files.
    pub id: String,
    /// The keys that the sweep sets, with their values.
    pub settings: Vec<(String, String)>,
    /// What it draws from.
    pub seed: u64,
    /// Which repeat of its settings it is, from 0.
    pub repeat: u64,
    /// What others measured with these settings.
    pub references: Vec<Reference>,
}

/// A figure that somebody else measured.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Reference {
    /// Its name, as in `summary.json`.
    pub figure: String,
    /// Its value, in the same unit.
    pub value: f64,
    /// Whose it is.
    pub from: String,
}

/// How a cell ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Its run is complete.
    Done,
    /// It failed, for a reason of its own.
    Failed,
    /// The sweep was stopped in the middle of it: it is run again.
    #[default]
    Interrupted,
}

/// A line of the log.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Ended {
    /// Which cell.
    pub cell: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Its run directory, within the sweep's.
    pub run: String,
    /// How long it took, from starting the process to its end.
    pub wall_seconds: f64,
    /// Why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Plan {
    /// The plan of a sweep's directory; none if there is none.
    pub fn read(dir: &Path) -> io::Result<Option<Self>> {
        match fs::read(dir.join(PLAN)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether another plan is for the same runs.
    pub fn has_the_cells_of(&self, other: &Plan) -> bool {
        let key = |cell: &Cell| (cell.id.clone(), cell.settings.clone(), cell.seed);
        self.cells.iter().map(key).eq(other.cells.iter().map(key))
    }
}

/// The log of a sweep that is running: it belongs to one process at a time.
#[derive(Debug)]
pub struct Log {
    file: File,
}

impl Log {
    /// Opens the log to add to it; none if another process has it.
    pub fn open(dir: &Path) -> io::Result<Option<Self>> {
        let path = dir.join(LOG);
        let mut file = OpenOptions::new().create(true).append(true).read(true).open(&path)?;
        if let Err(error) = file.try_lock() {
            return match error {
                fs::TryLockError::WouldBlock => Ok(None),
                fs::TryLockError::Error(error) => Err(error),
            };
        }
        // A process that was killed may have left half a line.
        if fs::read(&path)?.last().is_some_and(|&byte| byte != b'\n') {
            file.write_all(b"\n")?;
        }
        Ok(Some(Self { file }))
    }

    /// Adds a line.
    pub fn add(&mut self, ended: &Ended) -> io::Result<()> {
        let mut line = serde_json::to_vec(ended)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }
}

/// Every line of a sweep's log that can be read, in its order.
pub fn read_log(dir: &Path) -> Vec<Ended> {
    let text = fs::read(dir.join(LOG)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// How a cell ended last, if it has.
pub fn last<'a>(log: &'a [Ended], cell: &str) -> Option<&'a Ended> {
    log.iter().rev().find(|ended| ended.cell == cell)
}

/// A name for a cell's next run directory that nobody has taken, within the sweep's.
pub fn next_run(dir: &Path, cell: &str) -> PathBuf {
    let mut names = (1u32..).map(|attempt| match attempt {
        1 => Path::new("runs").join(cell),
        n => Path::new("runs").join(format!("{cell}.{n}")),
    });
    let free = names.find(|name| !dir.join(name).exists());
    free.unwrap_or_else(|| unreachable!("some number is free"))
}

/// A name for a cell: its number, and its settings as far as they fit into a file's name.
pub fn cell_id(number: usize, settings: &[(String, String)], repeat: Option<u64>) -> String {
    const MOST: usize = 60;
    let words = settings
        .iter()
        .map(|(key, value)| format!("_{}-{value}", key.rsplit('.').next().unwrap_or_default()));
    let fit = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let words: String = words.collect::<String>().chars().map(fit).take(MOST).collect();
    let repeat = repeat.map_or(String::new(), |repeat| format!("_r{}", repeat + 1));
    format!("{number:03}{words}{repeat}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(cell: &str, outcome: Outcome) -> Ended {
        Ended { cell: cell.into(), outcome, ..Ended::default() }
    }

    #[test]
    fn a_log_goes_on_after_half_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path()).unwrap().unwrap();
        log.add(&ended("a", Outcome::Interrupted)).unwrap();
        log.file.write_all(b"{\"cell\": \"b").unwrap();
        drop(log);
        let mut log = Log::open(dir.path()).unwrap().unwrap();
        log.add(&ended("a", Outcome::Done)).unwrap();
        let lines = read_log(dir.path());
        assert_eq!(lines.len(), 2);
        assert_eq!(last(&lines, "a").unwrap().outcome, Outcome::Done);
        assert!(last(&lines, "b").is_none());
    }

    #[test]
    fn a_log_belongs_to_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let first = Log::open(dir.path()).unwrap();
        assert!(first.is_some() && Log::open(dir.path()).unwrap().is_none());
        drop(first);
        assert!(Log::open(dir.path()).unwrap().is_some());
    }

    #[test]
    fn names_of_cells_fit_into_a_file_system() {
        let settings = [("train.batch", "10"), ("train.stop", "{ epochs = 2 }")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(cell_id(7, &settings, None), "007_batch-10_stop---epochs---2--");
        let long = [("data.path".to_owned(), "/ä".repeat(200))];
        assert!(
            cell_id(1234, &long, Some(2)).is_ascii() && cell_id(1234, &long, Some(2)).len() < 80
        );
        assert!(cell_id(1, &[], Some(0)).ends_with("_r1"));
    }

    #[test]
    fn a_second_attempt_has_a_directory_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(next_run(dir.path(), "a"), Path::new("runs/a"));
        fs::create_dir_all(dir.path().join("runs/a")).unwrap();
        assert_eq!(next_run(dir.path(), "a"), Path::new("runs/a.2"));
    }
}
