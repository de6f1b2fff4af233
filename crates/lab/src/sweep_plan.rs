//! The directory of a sweep: the plan, and a log of the runs that have ended.
//!
//! ```text
//! sweep.json          the plan: every run, in the order of execution
//! cells.jsonl         one line for each run that has ended, whatever its outcome
//! jobs/<id>.toml      each run's complete job
//! runs/<id>/          its run directory; a second attempt gets another one
//! logs/<id>.txt       what the run wrote to standard error, if anything
//! ```
//!
//! The plan never changes and the log only grows, so a sweep that was stopped or killed continues
//! from its directory alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::finding::{CellSettings, Finding};
use crate::machine_info::MachineInfo;
use crate::regular_file::read_whole;

/// Name of the file that holds the plan.
pub const PLAN_FILE: &str = "sweep.json";
/// Name of the file that holds the log.
pub const LOG_FILE: &str = "cells.jsonl";

/// The runs of a sweep, and what they are compared with.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SweepPlan {
    /// The job's name.
    pub name: String,
    /// Version of the program that made the plan.
    pub version: String,
    /// Start of the sweep, in seconds since 1970.
    pub started_seconds: u64,
    /// Whether `--quick` shortens the runs.
    pub quick: bool,
    /// The command line that started the sweep.
    pub command: String,
    /// Text of the job file.
    pub job: String,
    /// The machine that executes the runs.
    pub machine: MachineInfo,
    /// Published findings to compare with the runs.
    #[serde(rename = "claims")]
    pub findings: Vec<Finding>,
    /// The runs, in the order of execution.
    #[serde(rename = "cells")]
    pub runs: Vec<PlannedRun>,
}

/// One run of a sweep.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct PlannedRun {
    /// Names the run and its files.
    pub id: String,
    /// The keys that the sweep sets, with their values.
    pub settings: CellSettings,
    /// Seed of the run.
    pub seed: u64,
    /// Which repeat of its settings this is, from 0.
    pub repeat: u64,
    /// Published figures for these settings.
    pub references: Vec<ReferenceFigure>,
}

/// A published figure.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ReferenceFigure {
    /// Its name, as in `summary.json`.
    pub figure: String,
    /// Its value, in the unit of `summary.json`.
    pub value: f64,
    /// The publication it comes from.
    pub from: String,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// The run is complete.
    Done,
    /// The run failed; it is repeated only on request.
    Failed,
    /// The sweep was stopped during the run; the run is repeated.
    #[default]
    Interrupted,
}

/// A line of the log.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct RunEnd {
    /// The [id](PlannedRun::id) of the run.
    #[serde(rename = "cell")]
    pub id: String,
    /// How the run ended.
    pub outcome: RunOutcome,
    /// The run directory, relative to the sweep's.
    #[serde(rename = "run")]
    pub dir: String,
    /// Seconds from starting the process to its end.
    pub wall_seconds: f64,
    /// Why the run failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl SweepPlan {
    /// Reads the plan of a sweep's directory; returns none if the directory has no plan.
    pub fn read(dir: &Path) -> io::Result<Option<Self>> {
        match read_whole(&dir.join(PLAN_FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether both plans execute the same runs in the same order.
    pub fn has_same_runs(&self, other: &SweepPlan) -> bool {
        let key = |run: &PlannedRun| (run.id.clone(), run.settings.clone(), run.seed);
        self.runs.iter().map(key).eq(other.runs.iter().map(key))
    }
}

/// The log of a sweep, open for writing. One process at a time can hold it.
#[derive(Debug)]
pub struct SweepLog {
    file: File,
}

impl SweepLog {
    /// Opens and locks the log; returns none if another process holds the lock.
    pub fn open(dir: &Path) -> io::Result<Option<Self>> {
        let path = dir.join(LOG_FILE);
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

    /// Appends a line and waits until it is on disk.
    pub fn append(&mut self, end: &RunEnd) -> io::Result<()> {
        let mut line = serde_json::to_vec(end)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }
}

/// Reads every line of a sweep's log that can be parsed, in file order.
pub fn read_log(dir: &Path) -> Vec<RunEnd> {
    let text = read_whole(&dir.join(LOG_FILE)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the last log entry of a run, if it has ended at all.
pub fn last_end<'a>(log: &'a [RunEnd], id: &str) -> Option<&'a RunEnd> {
    log.iter().rev().find(|end| end.id == id)
}

/// Returns an unused directory for the next attempt at a run, relative to the sweep's.
pub fn next_run_dir(dir: &Path, id: &str) -> PathBuf {
    let mut names = (1u32..).map(|attempt| match attempt {
        1 => Path::new("runs").join(id),
        n => Path::new("runs").join(format!("{id}.{n}")),
    });
    let free = names.find(|name| !dir.join(name).exists());
    free.unwrap_or_else(|| unreachable!("some number is free"))
}

/// Returns the id of a planned run: its number, and its settings in characters that every file
/// system allows, cut to 60.
pub fn run_id(number: usize, settings: &[(String, String)], repeat: Option<u64>) -> String {
    const MAX_CHARS: usize = 60;
    let words = settings
        .iter()
        .map(|(key, value)| format!("_{}-{value}", key.rsplit('.').next().unwrap_or_default()));
    let portable = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let words: String = words.collect::<String>().chars().map(portable).take(MAX_CHARS).collect();
    let repeat = repeat.map_or(String::new(), |repeat| format!("_r{}", repeat + 1));
    format!("{number:03}{words}{repeat}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(id: &str, outcome: RunOutcome) -> RunEnd {
        RunEnd { id: id.into(), outcome, ..RunEnd::default() }
    }

    #[test]
    fn a_log_continues_after_half_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = SweepLog::open(dir.path()).unwrap().unwrap();
        log.append(&end("a", RunOutcome::Interrupted)).unwrap();
        log.file.write_all(b"{\"cell\": \"b").unwrap();
        drop(log);
        let mut log = SweepLog::open(dir.path()).unwrap().unwrap();
        log.append(&end("a", RunOutcome::Done)).unwrap();
        let lines = read_log(dir.path());
        assert_eq!(lines.len(), 2);
        assert_eq!(last_end(&lines, "a").unwrap().outcome, RunOutcome::Done);
        assert!(last_end(&lines, "b").is_none());
    }

    #[test]
    fn one_process_at_a_time_holds_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let first = SweepLog::open(dir.path()).unwrap();
        assert!(first.is_some() && SweepLog::open(dir.path()).unwrap().is_none());
        drop(first);
        assert!(SweepLog::open(dir.path()).unwrap().is_some());
    }

    #[test]
    fn run_ids_are_portable_file_names() {
        let settings = [("train.batch", "10"), ("train.stop", "{ epochs = 2 }")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(run_id(7, &settings, None), "007_batch-10_stop---epochs---2--");
        let long = [("data.path".to_owned(), "/ä".repeat(200))];
        assert!(run_id(1234, &long, Some(2)).is_ascii() && run_id(1234, &long, Some(2)).len() < 80);
        assert!(run_id(1, &[], Some(0)).ends_with("_r1"));
    }

    #[test]
    fn a_second_attempt_gets_a_new_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(next_run_dir(dir.path(), "a"), Path::new("runs/a"));
        fs::create_dir_all(dir.path().join("runs/a")).unwrap();
        assert_eq!(next_run_dir(dir.path(), "a"), Path::new("runs/a.2"));
    }
}
