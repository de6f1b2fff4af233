//! From a directory to what was found: the runs of a sweep, or whatever runs lie in it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cell::{Cell, label};
use crate::claim::{Claim, Judgement};
use crate::machine::Machine;
use crate::plan::{self, Outcome, Plan};
use crate::run::Run;

/// How far below a directory runs are looked for.
const MOST_DEPTH: usize = 4;

/// Everything that a report is made of.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// What the sweep or the directory is called.
    pub name: String,
    /// The plan of the sweep, if it is one.
    pub plan: Option<Plan>,
    /// Every combination of settings, in the order they were run.
    pub cells: Vec<Cell>,
    /// Cells that failed, and why.
    pub failures: Vec<(String, String)>,
    /// Planned runs that have not been made yet.
    pub missing: usize,
    /// How long all that were made took, from the start of each process to its end.
    pub wall_seconds: f64,
}

impl Findings {
    /// Reads the directory of a sweep, of a run, or of runs.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let mut findings = match Plan::read(dir)? {
            Some(plan) => Self::of_sweep(dir, plan),
            None => Self::of_runs(dir)?,
        };
        label(&mut findings.cells);
        Ok(findings)
    }

    /// How many complete runs there are.
    pub fn runs(&self) -> usize {
        self.cells.iter().map(|cell| cell.runs.len()).sum()
    }

    /// The cells that have at least one complete run.
    pub fn complete(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| !cell.runs.is_empty())
    }

    /// What others found, each with whether it holds here.
    pub fn judged(&self) -> Vec<(&Claim, Judgement)> {
        let claims = self.plan.iter().flat_map(|plan| &plan.claims);
        claims.map(|claim| (claim, claim.judge(self))).collect()
    }

    /// What the runs were made on, if that is known.
    pub fn machine(&self) -> Option<&Machine> {
        self.plan.as_ref().map(|plan| &plan.machine)
    }

    fn of_sweep(dir: &Path, plan: Plan) -> Self {
        let log = plan::read_log(dir);
        let wall_seconds = log.iter().map(|ended| ended.wall_seconds).sum();
        let mut findings = Self { name: plan.name.clone(), wall_seconds, ..Self::default() };
        for planned in &plan.cells {
            let at = findings.cells.iter().position(|cell| cell.settings == planned.settings);
            let at = at.unwrap_or_else(|| {
                findings.cells.push(Cell {
                    settings: planned.settings.clone(),
                    references: planned.references.clone(),
                    ..Cell::default()
                });
                findings.cells.len() - 1
            });
            let cell = &mut findings.cells[at];
            let ended = plan::last(&log, &planned.id);
            match ended.map(|ended| (ended.outcome, Run::read(&dir.join(&ended.run)))) {
                Some((Outcome::Done, Some(run))) => cell.runs.push(run),
                Some((Outcome::Interrupted, _)) | None => findings.missing += 1,
                Some((Outcome::Failed | Outcome::Done, _)) => {
                    cell.failed += 1;
                    let why = ended.map_or("", |ended| &ended.why);
                    let why = if why.is_empty() { "its run directory cannot be read" } else { why };
                    findings.failures.push((planned.id.clone(), why.to_owned()));
                }
            }
        }
        findings.plan = Some(plan);
        findings
    }

    fn of_runs(dir: &Path) -> io::Result<Self> {
        let mut paths = Vec::new();
        find_runs(dir, MOST_DEPTH, &mut paths)?;
        paths.sort();
        let runs: Vec<Run> = paths.iter().filter_map(|path| Run::read(path)).collect();
        let keys = varying(&runs);
        let mut cells: Vec<Cell> = Vec::new();
        for run in runs {
            let value = |key: &String| Some((key.clone(), run.job.get(key)?.clone()));
            let settings: Vec<_> = keys.iter().filter_map(value).collect();
            match cells.iter_mut().find(|cell| cell.settings == settings) {
                Some(cell) => cell.runs.push(run),
                None => cells.push(Cell { settings, runs: vec![run], ..Cell::default() }),
            }
        }
        let name = fs::canonicalize(dir)?;
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, cells, ..Self::default() })
    }
}

/// Keys of which not all runs have the same value. Runs that differ in their seed are repeats.
fn varying(runs: &[Run]) -> Vec<String> {
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

fn find_runs(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if dir.join("summary.json").is_file() {
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
    use crate::plan::{Ended, Log};

    fn write_run(dir: &Path, batch: u64, seed: u64) {
        fs::create_dir_all(dir).unwrap();
        let job = format!("seed = {seed}\n[train]\nbatch = {batch}\n");
        fs::write(dir.join("job.toml"), job).unwrap();
        let summary =
            format!(r#"{{"mode": "single", "workers": 1, "batch": {batch}, "seconds": 2}}"#);
        fs::write(dir.join("summary.json"), summary).unwrap();
    }

    #[test]
    fn runs_of_a_directory_are_told_apart_by_what_differs() {
        let dir = tempfile::tempdir().unwrap();
        for (name, batch, seed) in [("a", 10, 1), ("deep/b", 10, 2), ("c", 30, 1)] {
            write_run(&dir.path().join(name), batch, seed);
        }
        let findings = Findings::read(dir.path()).unwrap();
        let cells: Vec<_> =
            findings.cells.iter().map(|cell| (cell.label.as_str(), cell.runs.len())).collect();
        assert_eq!(cells, [("batch 10", 2), ("batch 30", 1)]);
    }

    #[test]
    fn a_sweep_knows_what_failed_and_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let cell = |id: &str, batch: u64| plan::Cell {
            id: id.into(),
            settings: vec![("train.batch".into(), batch.to_string())],
            ..plan::Cell::default()
        };
        let cells = vec![cell("1", 10), cell("2", 30), cell("3", 60), cell("4", 10)];
        let plan = Plan { name: "s".into(), cells, ..Plan::default() };
        fs::write(dir.path().join(plan::PLAN), serde_json::to_vec(&plan).unwrap()).unwrap();
        write_run(&dir.path().join("runs/1"), 10, 1);
        let mut log = Log::open(dir.path()).unwrap().unwrap();
        for (id, outcome, run, why) in [
            ("1", Outcome::Done, "runs/1", ""),
            ("2", Outcome::Failed, "runs/2", "diverged"),
            ("4", Outcome::Interrupted, "runs/4", ""),
        ] {
            let ended = Ended {
                cell: id.into(),
                outcome,
                run: run.into(),
                why: why.into(),
                ..Ended::default()
            };
            log.add(&ended).unwrap();
        }
        let findings = Findings::read(dir.path()).unwrap();
        assert_eq!((findings.cells.len(), findings.runs(), findings.missing), (3, 1, 2));
        assert_eq!(findings.failures, [("2".to_owned(), "diverged".to_owned())]);
    }
}
