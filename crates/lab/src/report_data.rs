//! Reads what a report is made of: the runs of a sweep, or all runs below a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use paceline_record::names::files;

use crate::cell::{Cell, assign_labels, is_main_key};
use crate::event_folders::folders_of_coordinator;
use crate::machine_info::MachineInfo;
use crate::run::Run;
use crate::sweep_plan::{self, RunOutcome, SweepPlan};

/// How many levels below a directory runs are searched for.
const MAX_DEPTH: usize = 4;

/// Everything that a report is made of.
#[derive(Clone, Debug, Default)]
pub struct ReportData {
    /// Name of the sweep or directory.
    pub name: String,
    /// The sweep's plan; none if the directory holds runs without one.
    pub plan: Option<SweepPlan>,
    /// Every combination of settings, in the order of execution.
    pub cells: Vec<Cell>,
    /// Runs of a sweep that failed, or runs of a directory that have no results.
    pub failures: Vec<RunFailure>,
    /// Number of planned runs that are still to be made.
    pub missing: usize,
    /// Sum over all runs of the seconds from the start of the process to its end.
    pub wall_seconds: f64,
}

/// A run that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFailure {
    /// The run's id in the plan.
    pub id: String,
    /// Why it failed.
    pub why: String,
}

impl ReportData {
    /// Reads the directory of a sweep, of a run, or of runs.
    ///
    /// # Errors
    /// If the directory or the sweep's plan cannot be read.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let mut data = match SweepPlan::read(dir)? {
            Some(plan) => Self::of_sweep(dir, plan),
            None => Self::of_runs(dir)?,
        };
        assign_labels(&mut data.cells);
        Ok(data)
    }

    /// Number of complete runs.
    pub fn run_count(&self) -> usize {
        self.cells.iter().map(|cell| cell.runs.len()).sum()
    }

    /// The title of the list of failures.
    pub(crate) fn failures_title(&self) -> &'static str {
        if self.plan.is_some() { "Failed runs" } else { "Runs without results" }
    }

    /// Cells with at least one complete run.
    pub fn complete_cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| !cell.runs.is_empty())
    }

    /// The machine that executed the sweep.
    pub fn machine(&self) -> Option<&MachineInfo> {
        self.plan.as_ref().map(|plan| &plan.machine)
    }

    fn of_sweep(dir: &Path, plan: SweepPlan) -> Self {
        let log = sweep_plan::read_log(dir);
        let wall_seconds = log.iter().map(|end| end.wall_seconds).sum();
        let mut data = Self { name: plan.name.clone(), wall_seconds, ..Self::default() };
        for planned in &plan.runs {
            let known = data.cells.iter().position(|cell| cell.settings == planned.settings);
            let index = known.unwrap_or_else(|| {
                data.cells.push(Cell {
                    settings: planned.settings.clone(),
                    references: planned.references.clone(),
                    ..Cell::default()
                });
                data.cells.len() - 1
            });
            let cell = &mut data.cells[index];
            let end = sweep_plan::last_end(&log, &planned.id);
            match end.map(|end| (end.outcome, Run::read(&dir.join(&end.dir)))) {
                Some((RunOutcome::Done, Some(run))) => cell.runs.push(run),
                Some((RunOutcome::Interrupted, _)) | None => data.missing += 1,
                Some((RunOutcome::Failed | RunOutcome::Done, _)) => {
                    cell.failed += 1;
                    let why = end.map_or("", |end| &end.why);
                    let why = if why.is_empty() { "its run directory cannot be read" } else { why };
                    data.failures.push(RunFailure { id: planned.id.clone(), why: why.to_owned() });
                }
            }
        }
        data.plan = Some(plan);
        data
    }

    fn of_runs(dir: &Path) -> io::Result<Self> {
        let mut paths = Vec::new();
        find_runs(dir, MAX_DEPTH, &mut paths)?;
        paths.sort();
        let (mut runs, mut failures) = (Vec::new(), Vec::new());
        for path in &paths {
            match Run::read(path) {
                Some(run) => runs.push(run),
                None => failures.push(RunFailure::unreadable(dir, path)),
            }
        }
        let keys = varying_keys(&runs);
        let shown = set_keys(&runs);
        let mut cells: Vec<Cell> = Vec::new();
        for run in runs {
            let value = |key: &String| Some((key.clone(), run.job.get(key)?.clone()));
            let settings: Vec<_> = keys.iter().filter_map(value).collect();
            match cells.iter_mut().find(|cell| cell.settings == settings) {
                Some(cell) => cell.runs.push(run),
                None => cells.push(Cell { settings, runs: vec![run], ..Cell::default() }),
            }
        }
        for cell in &mut cells {
            cell.settings.retain(|(key, _)| is_main_key(key) || shown.contains(key));
        }
        let name = fs::canonicalize(dir)?;
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, cells, failures, ..Self::default() })
    }
}

impl RunFailure {
    /// A run below `dir` that no report can use.
    fn unreadable(dir: &Path, run: &Path) -> Self {
        let why = if run.join(files::SUMMARY).is_file() {
            "its summary.json is damaged"
        } else {
            "it has no summary.json: it is still training, was killed or diverged"
        };
        let id = run.strip_prefix(dir).ok().filter(|id| !id.as_os_str().is_empty());
        Self { id: id.unwrap_or(run).display().to_string(), why: why.into() }
    }
}

/// The keys that any run sets: the values of the others follow from them.
fn set_keys(runs: &[Run]) -> BTreeSet<String> {
    let set = |run: &Run| -> Vec<String> {
        run.job.keys().filter(|key| !run.defaults.contains(*key)).cloned().collect()
    };
    runs.iter().flat_map(set).collect()
}

/// The keys whose values differ between runs. Runs that differ only in their seed are repeats.
fn varying_keys(runs: &[Run]) -> Vec<String> {
    let mut values: BTreeMap<&str, Vec<Option<&String>>> = BTreeMap::new();
    for key in runs.iter().flat_map(|run| run.job.keys()) {
        values.entry(key).or_insert_with(|| runs.iter().map(|run| run.job.get(key)).collect());
    }
    let varies = |(key, values): (&str, Vec<Option<&String>>)| {
        let same = values.windows(2).all(|pair| pair[0] == pair[1]);
        (!same && key != "seed" && key != "name").then(|| key.to_owned())
    };
    values.into_iter().filter_map(varies).collect()
}

/// Whether a run has ended in this directory, or begun.
fn is_run(dir: &Path) -> bool {
    let has_begun = || folders_of_coordinator(dir).iter().any(|folder| folder.is_dir());
    dir.join(files::SUMMARY).is_file() || (dir.join(files::JOB).is_file() && has_begun())
}

fn find_runs(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if is_run(dir) {
        found.push(dir.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if depth > 0 && path.is_dir() {
            find_runs(&path, depth - 1, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep_plan::{PLAN_FILE, PlannedRun, RunEnd, SweepLog};

    fn write_run(dir: &Path, batch: u64, seed: u64) {
        fs::create_dir_all(dir).unwrap();
        let job = format!("seed = {seed}\n[train]\nbatch = {batch}\n");
        fs::write(dir.join("job.toml"), job).unwrap();
        let summary =
            format!(r#"{{"mode": "single", "workers": 1, "batch": {batch}, "seconds": 2}}"#);
        fs::write(dir.join("summary.json"), summary).unwrap();
    }

    #[test]
    fn keys_that_no_run_sets_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        for (name, kind, rate) in [("a", "sgd", 0.1), ("b", "adam", 0.001)] {
            write_run(&dir.path().join(name), 10, 1);
            let job = format!(
                "seed = 1 # default\n[train]\nbatch = 10 # default\n[train.optimizer]\n\
                 kind = \"{kind}\" # --set train.optimizer.kind={kind}\n\
                 rate = {rate} # default: train.optimizer.kind is {kind}\n"
            );
            fs::write(dir.path().join(name).join("job.toml"), job).unwrap();
        }
        let data = ReportData::read(dir.path()).unwrap();
        let settings: Vec<_> = data.cells.iter().map(|cell| cell.settings.clone()).collect();
        let kind = |kind: &str| vec![("train.optimizer.kind".to_owned(), kind.to_owned())];
        assert_eq!(settings, [kind("sgd"), kind("adam")]);
    }

    #[test]
    fn runs_of_a_directory_are_told_apart_by_what_differs() {
        let dir = tempfile::tempdir().unwrap();
        for (name, batch, seed) in [("a", 10, 1), ("deep/b", 10, 2), ("c", 30, 1)] {
            write_run(&dir.path().join(name), batch, seed);
        }
        let data = ReportData::read(dir.path()).unwrap();
        let cells: Vec<_> =
            data.cells.iter().map(|cell| (cell.label.as_str(), cell.runs.len())).collect();
        assert_eq!(cells, [("batch 10", 2), ("batch 30", 1)]);
    }

    #[test]
    fn runs_of_a_directory_that_cannot_be_read_are_named() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "deep/damaged", "killed"] {
            write_run(&dir.path().join(name), 10, 1);
        }
        fs::write(dir.path().join("deep/damaged/summary.json"), "{").unwrap();
        fs::remove_file(dir.path().join("killed/summary.json")).unwrap();
        fs::create_dir(dir.path().join("killed/worker_0")).unwrap();
        // A job beside runs is none.
        fs::write(dir.path().join("job.toml"), "").unwrap();
        let data = ReportData::read(dir.path()).unwrap();
        assert_eq!(data.run_count(), 1);
        let failures: Vec<_> =
            data.failures.iter().map(|one| (one.id.as_str(), one.why.as_str())).collect();
        let killed = "it has no summary.json: it is still training, was killed or diverged";
        assert_eq!(failures, [("deep/damaged", "its summary.json is damaged"), ("killed", killed)]);
    }

    #[test]
    fn a_sweep_knows_what_failed_and_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let run = |id: &str, batch: u64| PlannedRun {
            id: id.into(),
            settings: vec![("train.batch".into(), batch.to_string())],
            ..PlannedRun::default()
        };
        let runs = vec![run("1", 10), run("2", 30), run("3", 60), run("4", 10)];
        let plan = SweepPlan { name: "s".into(), runs, ..SweepPlan::default() };
        fs::write(dir.path().join(PLAN_FILE), serde_json::to_vec(&plan).unwrap()).unwrap();
        write_run(&dir.path().join("runs/1"), 10, 1);
        let mut log = SweepLog::open(dir.path()).unwrap().unwrap();
        for (id, outcome, run_dir, why) in [
            ("1", RunOutcome::Done, "runs/1", ""),
            ("2", RunOutcome::Failed, "runs/2", "diverged"),
            ("4", RunOutcome::Interrupted, "runs/4", ""),
        ] {
            let end = RunEnd {
                id: id.into(),
                outcome,
                dir: run_dir.into(),
                why: why.into(),
                ..RunEnd::default()
            };
            log.append(&end).unwrap();
        }
        let data = ReportData::read(dir.path()).unwrap();
        assert_eq!((data.cells.len(), data.run_count(), data.missing), (3, 1, 2));
        assert_eq!(data.failures, [RunFailure { id: "2".into(), why: "diverged".into() }]);
    }
}
