//! A sweep: many runs, one after another, so that they do not disturb each other.
//!
//! Each run is a separate process (`process.rs`): its resources are then its own, and a run that
//! crashes does not affect the others. The directory ([`paceline_lab::sweep_plan`]) always records
//! what is planned and what is done, so a sweep that was stopped can be resumed.

mod process;
mod progress;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use paceline_lab::MachineInfo;
use paceline_lab::sweep_plan::{self, PlannedRun, RunOutcome, SweepLog, SweepPlan};

use crate::Failure;
use crate::interrupt::Interrupt;
use crate::progress::write_line;
use paceline_job::{CellJob, RawJob};
use paceline_record::write_whole;
use paceline_terminal::clock_time;
use paceline_terminal::counted;
use progress::SweepProgress;

/// A sweep whose directory holds everything except its runs.
#[derive(Debug)]
pub struct PreparedSweep {
    dir: PathBuf,
    plan: SweepPlan,
}

/// The results of a sweep's runs, counted.
#[derive(Clone, Copy, Debug)]
pub struct SweepTally {
    /// All runs.
    pub all: usize,
    /// Complete runs.
    pub done: usize,
    /// Failed runs.
    pub failed: usize,
    /// Duration of this part of the sweep.
    pub seconds: f64,
}

impl SweepTally {
    /// The tally in words.
    pub fn text(&self) -> String {
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        format!(
            "{} of {}{failed}, {}",
            self.done,
            counted(self.all as u64, "run"),
            clock_time(self.seconds)
        )
    }
}

impl PreparedSweep {
    /// Plans the sweep of a job in a directory, or opens the one that is there, which must have the
    /// same runs.
    pub fn prepare(job: &RawJob, file: &Path, dir: &Path, quick: bool) -> Result<Self, Failure> {
        let cells = job.cells(quick)?;
        for place in job.idle_references(&cells) {
            write_line(&format!("{place}: no run has the settings of this reference"));
        }
        let plan = plan_of(job, file, quick, &cells)?;
        let known = SweepPlan::read(dir).map_err(Failure::at("read the plan of", dir))?;
        match known {
            Some(known) if known.has_same_runs(&plan) => {
                return Ok(Self { dir: dir.to_owned(), plan: known });
            }
            Some(_) => return Err(refused(dir, "it contains another sweep")),
            None => {}
        }
        let other = |entry: fs::DirEntry| !["jobs", "runs"].iter().any(|n| entry.file_name() == *n);
        if fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(other)) {
            return Err(refused(dir, "it is not empty"));
        }
        write_plan(dir, &plan, &cells)?;
        Ok(Self { dir: dir.to_owned(), plan })
    }

    /// Opens a sweep that was begun.
    pub fn open(dir: &Path) -> Result<Self, Failure> {
        match SweepPlan::read(dir).map_err(Failure::at("read the plan of", dir))? {
            Some(plan) => Ok(Self { dir: dir.to_owned(), plan }),
            None => Err(Failure::Usage(format!(
                "--continue {}: it contains no sweep: there is no {}",
                dir.display(),
                sweep_plan::PLAN_FILE
            ))),
        }
    }

    /// The sweep's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes every missing run, until all are done or a signal arrives. A failed run is logged, and
    /// the sweep continues. With `again`, failed runs are repeated.
    pub fn run(
        &self,
        again: bool,
        quiet: bool,
        interrupt: &Interrupt,
    ) -> Result<SweepTally, Failure> {
        let begun = Instant::now();
        let opened =
            SweepLog::open(&self.dir).map_err(Failure::at("open the log in", &self.dir))?;
        let Some(mut log) = opened else {
            return Err(refused(&self.dir, "another process runs this sweep"));
        };
        let ended = sweep_plan::read_log(&self.dir);
        let outcome =
            |cell: &PlannedRun| sweep_plan::last_end(&ended, &cell.id).map(|ended| ended.outcome);
        let is_over = |cell: &PlannedRun| match outcome(cell) {
            Some(RunOutcome::Done) => true,
            Some(RunOutcome::Failed) => !again,
            Some(RunOutcome::Interrupted) | None => false,
        };
        let count = |wanted| {
            let over = self.plan.runs.iter().filter(|cell| is_over(cell));
            over.filter(|cell| outcome(cell) == Some(wanted)).count()
        };
        let (mut done, mut failed) = (count(RunOutcome::Done), count(RunOutcome::Failed));
        let mut progress = SweepProgress::new(quiet, self.plan.runs.len(), done + failed);
        for cell in self.plan.runs.iter().filter(|cell| !is_over(cell)) {
            if interrupt.signal().is_some() {
                break;
            }
            progress.begin(cell);
            let ended = process::run_cell(&self.dir, cell, interrupt)?;
            log.append(&ended).map_err(Failure::at("write the log in", &self.dir))?;
            done += usize::from(ended.outcome == RunOutcome::Done);
            failed += usize::from(ended.outcome == RunOutcome::Failed);
            progress.end(cell, &ended, &self.dir);
        }
        progress.finish();
        let seconds = begun.elapsed().as_secs_f64();
        Ok(SweepTally { all: self.plan.runs.len(), done, failed, seconds })
    }
}

/// The runs of a job, a line each.
pub fn list(job: &RawJob, quick: bool) -> Result<String, Failure> {
    let cells = planned(&job.cells(quick)?);
    let lines: String = cells
        .iter()
        .map(|cell| format!("{} seed={}\n", progress::settings(cell), cell.seed))
        .collect();
    let many = if cells.len() == 1 { "" } else { "s" };
    Ok(format!("# {}: {} run{many}\n{lines}", job.name(), cells.len()))
}

fn refused(dir: &Path, why: &str) -> Failure {
    Failure::Usage(format!("{}: {why}; name a new directory", dir.display()))
}

fn planned(cells: &[CellJob]) -> Vec<PlannedRun> {
    let repeats = cells.iter().any(|cell| cell.repeat > 0);
    let cell = |(i, cell): (usize, &CellJob)| PlannedRun {
        id: sweep_plan::run_id(i + 1, &cell.settings, repeats.then_some(cell.repeat)),
        settings: cell.settings.clone(),
        seed: cell.seed,
        repeat: cell.repeat,
        references: cell.references.clone(),
    };
    cells.iter().enumerate().map(cell).collect()
}

fn plan_of(
    job: &RawJob,
    file: &Path,
    quick: bool,
    cells: &[CellJob],
) -> Result<SweepPlan, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let words = std::env::args().skip(1);
    Ok(SweepPlan {
        name: job.name(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_seconds: now.map_or(0, |since| since.as_secs()),
        quick,
        command: std::iter::once("paceline".to_owned()).chain(words).collect::<Vec<_>>().join(" "),
        job: fs::read_to_string(file).map_err(Failure::at("read", file))?,
        machine: MachineInfo::current(),
        findings: job.findings().to_vec(),
        runs: planned(cells),
    })
}

/// Writes every cell's job and then the plan: a directory with a plan is complete.
fn write_plan(dir: &Path, plan: &SweepPlan, cells: &[CellJob]) -> Result<(), Failure> {
    for name in ["jobs", "runs"] {
        let path = dir.join(name);
        fs::create_dir_all(&path).map_err(Failure::at("make the directory", &path))?;
    }
    for (planned, cell) in plan.runs.iter().zip(cells) {
        let path = process::job_file(dir, planned);
        fs::write(&path, cell.job.explain()).map_err(Failure::at("write", &path))?;
    }
    let mut json = serde_json::to_vec_pretty(plan)
        .map_err(|error| Failure::Training(format!("{}: {error}", sweep_plan::PLAN_FILE)))?;
    json.push(b'\n');
    Ok(write_whole(&dir.join(sweep_plan::PLAN_FILE), |temporary| fs::write(temporary, &json))?)
}
