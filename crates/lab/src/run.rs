//! One run directory, read again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::curve::Curve;
use crate::events::{self, ScalarPoint};
use crate::resources;
use crate::summary::Summary;

/// A curve is drawn with at most so many points: more cannot be told apart.
const MOST_POINTS: usize = 150;

/// What a complete run left behind, as far as reports use it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The directory's name.
    pub name: String,
    /// What it drew from.
    pub seed: String,
    /// Every key of its job, dotted, with its value.
    pub job: BTreeMap<String, String>,
    /// What it came to.
    pub summary: Summary,
    /// Test figures by name (`loss`, `accuracy`), over global steps.
    pub by_step: BTreeMap<String, Curve>,
    /// The same over seconds since the first step.
    pub by_time: BTreeMap<String, Curve>,
    /// What the chief's machine was doing, over seconds.
    pub resources: Vec<(&'static str, Curve)>,
}

impl Run {
    /// Reads a run directory; none if there is no complete run in it.
    pub fn read(path: &Path) -> Option<Self> {
        let summary = Summary::parse(&fs::read_to_string(path.join("summary.json")).ok()?)?;
        let job = fs::read_to_string(path.join("job.toml")).unwrap_or_default();
        let job = flat_job(&job);
        let mut run = Self {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            seed: job.get("seed").cloned().unwrap_or_default(),
            job,
            summary,
            ..Self::default()
        };
        for file in event_files(path) {
            run.add_curves(events::read(&file, |tag| tag.starts_with("test/")));
        }
        let folders = ["worker_0", "chief_0"].map(|folder| path.join(folder));
        let is_emulated = run.job.contains_key("cluster.emulate.hosts");
        run.resources = folders
            .iter()
            .map(|folder| resources::read(folder, is_emulated))
            .find(|c| !c.is_empty())
            .unwrap_or_default();
        for (_, curve) in &mut run.resources {
            *curve = thinned(std::mem::take(curve));
        }
        Some(run)
    }

    fn add_curves(&mut self, scalars: events::Scalars) {
        let begin = scalars.begin_seconds.unwrap_or_default();
        for (tag, points) in scalars.points {
            let name = tag.trim_start_matches("test/").to_owned();
            let value = |point: &ScalarPoint| f64::from(point.value);
            let finite = points.iter().filter(|point| point.value.is_finite());
            let by_step = finite.clone().map(|point| (point.step as f64, value(point)));
            let by_time = finite.map(|point| (point.wall_seconds - begin, value(point)));
            self.by_step.insert(name.clone(), thinned(by_step.collect()));
            self.by_time.insert(name, thinned(by_time.collect()));
        }
    }

    /// Examples that all workers take together a step where the job says so, else what one takes.
    pub fn batch(&self) -> u64 {
        let all = self.job.get("train.global_batch").and_then(|text| text.parse().ok());
        all.unwrap_or(self.summary.batch)
    }
}

/// The event files of the tasks that test: the chief's, or an evaluator's.
fn event_files(run: &Path) -> Vec<PathBuf> {
    let folders = ["worker_0", "chief_0", "evaluator_0"].map(|folder| run.join(folder));
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("tfevents"))
        .collect();
    files.sort();
    files
}

/// The keys of a resolved job, dotted, each with its value as people write it.
pub(crate) fn flat_job(text: &str) -> BTreeMap<String, String> {
    fn flatten(prefix: &str, table: &toml::Table, into: &mut BTreeMap<String, String>) {
        for (key, value) in table {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                toml::Value::Table(table) => flatten(&path, table, into),
                toml::Value::String(word) => drop(into.insert(path, word.clone())),
                other => drop(into.insert(path, other.to_string())),
            }
        }
    }
    let mut flat = BTreeMap::new();
    if let Ok(table) = text.parse::<toml::Table>() {
        flatten("", &table, &mut flat);
    }
    flat
}

/// A curve with fewer points, evenly left out; the first and the last always stay.
fn thinned(curve: Curve) -> Curve {
    if curve.len() <= MOST_POINTS {
        return curve;
    }
    let last = curve.len() - 1;
    (0..MOST_POINTS).map(|i| curve[i * last / (MOST_POINTS - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_its_ends() {
        let curve: Curve = (0..10_000).map(|i| (f64::from(i), 0.0)).collect();
        let thin = thinned(curve.clone());
        assert_eq!(thin.len(), MOST_POINTS);
        assert_eq!((thin[0], thin[MOST_POINTS - 1]), (curve[0], curve[9_999]));
        assert_eq!(thinned(curve[..3].to_vec()), curve[..3]);
    }

    #[test]
    fn a_job_is_read_flat() {
        let job =
            flat_job("seed = 3 # default\n[train.stop]\nepochs = 2\n[data]\nkind = \"mnist\"");
        let expected = [("data.kind", "mnist"), ("seed", "3"), ("train.stop.epochs", "2")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(job, BTreeMap::from(expected));
    }

    #[test]
    fn a_directory_without_a_summary_is_no_run() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Run::read(dir.path()).is_none());
    }
}
