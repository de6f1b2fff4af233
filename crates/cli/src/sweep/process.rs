//! One run of a sweep, in a process of its own.
//!
//! The process is tied by its standard input: "stop" there ends its run in good order, and so
//! does the end of the stream, should the sweep be killed. Ctrl-C in a terminal reaches both.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use paceline_lab::sweep_plan::{self, PlannedRun, RunEnd, RunOutcome};

use super::note;
use crate::Failure;
use crate::interrupt::Interrupt;

/// How often the process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Of what a run said when it failed, so much is noted.
const MOST_WHY_CHARS: usize = 2_000;

/// Where a cell's job is.
pub(super) fn job_file(dir: &Path, cell: &PlannedRun) -> PathBuf {
    dir.join("jobs").join(format!("{}.toml", cell.id))
}

/// Makes a cell's run, and says how it ended.
pub(super) fn run_cell(
    dir: &Path,
    cell: &PlannedRun,
    interrupt: &Interrupt,
) -> Result<RunEnd, Failure> {
    let run = sweep_plan::next_run_dir(dir, &cell.id);
    let logs = dir.join("logs");
    fs::create_dir_all(&logs).map_err(Failure::at("make the directory", &logs))?;
    let log = logs.join(format!("{}.txt", run.file_name().unwrap_or_default().to_string_lossy()));
    let said = File::create(&log).map_err(Failure::at("make the log", &log))?;
    let cannot = |source| Failure::Files { what: "cannot start a run".into(), source };
    let begun = Instant::now();
    let mut child = Command::new(std::env::current_exe().map_err(cannot)?)
        .arg("train")
        .arg(job_file(dir, cell))
        .arg("--run-dir")
        .arg(dir.join(&run))
        .args(["--quiet", "--tied"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .map_err(cannot)?;
    let status = wait(&mut child, interrupt).map_err(cannot)?;
    let seconds = begun.elapsed().as_secs_f64();
    let said = fs::read(&log).unwrap_or_default();
    if said.is_empty() {
        let _ = fs::remove_file(&log);
    }
    let (outcome, why) = match status.success() {
        true => (RunOutcome::Done, String::new()),
        false if interrupt.signal().is_some() => (RunOutcome::Interrupted, String::new()),
        false => (RunOutcome::Failed, why(status, &String::from_utf8_lossy(&said))),
    };
    Ok(note(cell, outcome, &run, seconds, why))
}

/// Waits for the end, and passes on the wish to stop.
fn wait(child: &mut Child, interrupt: &Interrupt) -> std::io::Result<ExitStatus> {
    // Taken out so that waiting does not close it, which would end the run.
    let mut leash = child.stdin.take();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some(signal) = interrupt.signal()
            && let Some(mut leash) = leash.take()
        {
            let _ = writeln!(leash, "stop {signal}");
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Why a run failed: the errors it spoke of, or else how its process ended.
fn why(status: ExitStatus, said: &str) -> String {
    let errors: Vec<&str> =
        said.lines().filter_map(|line| Some(line.split_once("error: ")?.1)).collect();
    let text = match errors.is_empty() {
        true => format!("it ended with {status}"),
        false => errors.join("; "),
    };
    text.chars().take(MOST_WHY_CHARS).collect()
}
