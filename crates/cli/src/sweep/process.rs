//! One run of a sweep, in a separate process.
//!
//! The process reads its standard input: "stop" ends its run cleanly, and so does the end of the
//! stream, if the sweep is killed. Ctrl-C in a terminal reaches both processes.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use paceline_lab::sweep_plan::{self, PlannedRun, RunEnd, RunOutcome};

use crate::Failure;
use crate::interrupt::Interrupt;

/// How often the process is checked.
const CHECK_EVERY: Duration = Duration::from_millis(5);
/// The longest error text that is recorded, in characters.
const MAX_WHY_CHARS: usize = 2_000;

/// The path of a cell's job.
pub(super) fn job_file(dir: &Path, cell: &PlannedRun) -> PathBuf {
    dir.join("jobs").join(format!("{}.toml", cell.id))
}

/// Makes a cell's run. Returns how it ended.
pub(super) fn run_cell(
    dir: &Path,
    cell: &PlannedRun,
    interrupt: &Interrupt,
) -> Result<RunEnd, Failure> {
    let run = sweep_plan::next_run_dir(dir, &cell.id);
    let logs = dir.join("logs");
    fs::create_dir_all(&logs).map_err(Failure::at("make the directory", &logs))?;
    let log = logs.join(format!("{}.txt", run.file_name().unwrap_or_default().to_string_lossy()));
    let errors = File::create(&log).map_err(Failure::at("make the log", &log))?;
    let cannot = |source| Failure::Files { what: "cannot start a run".into(), source };
    let begun = Instant::now();
    let mut child = Command::new(std::env::current_exe().map_err(cannot)?)
        .arg("train")
        .arg(job_file(dir, cell))
        .arg("--run-dir")
        .arg(dir.join(&run))
        .args(["--quiet", "--tied", "--local"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .map_err(cannot)?;
    let status = wait(&mut child, interrupt).map_err(cannot)?;
    let seconds = begun.elapsed().as_secs_f64();
    let errors = fs::read(&log).unwrap_or_default();
    if errors.is_empty() {
        let _ = fs::remove_file(&log);
    }
    let (outcome, why) = if status.success() {
        (RunOutcome::Done, String::new())
    } else if interrupt.signal().is_some() {
        (RunOutcome::Interrupted, String::new())
    } else {
        (RunOutcome::Failed, why(status, &String::from_utf8_lossy(&errors)))
    };
    Ok(RunEnd {
        id: cell.id.clone(),
        outcome,
        dir: run.to_string_lossy().into_owned(),
        wall_seconds: seconds,
        why,
    })
}

/// Waits for the end of the process, and passes a stop signal on.
fn wait(child: &mut Child, interrupt: &Interrupt) -> std::io::Result<ExitStatus> {
    // Kept open: closing it would end the run.
    let mut stdin = child.stdin.take();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some(signal) = interrupt.signal()
            && let Some(mut stdin) = stdin.take()
        {
            let _ = writeln!(stdin, "stop {signal}");
        }
        thread::sleep(CHECK_EVERY);
    }
}

/// Why a run failed: the errors it printed, or else how its process ended.
fn why(status: ExitStatus, stderr: &str) -> String {
    let errors: Vec<&str> =
        stderr.lines().filter_map(|line| Some(line.split_once("error: ")?.1)).collect();
    let text =
        if errors.is_empty() { format!("it ended with {status}") } else { errors.join("; ") };
    text.chars().take(MAX_WHY_CHARS).collect()
}
