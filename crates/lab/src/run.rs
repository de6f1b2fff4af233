//! Reads a run directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use paceline_record::StoredSummary;
use paceline_record::names::{evaluator_folder, files, tags};

use crate::curve::Curve;
use crate::event_file::{ScalarPoint, Scalars, read_scalars};
use crate::event_folders::{event_files_in, folders_of_coordinator};
use crate::job_keys::{default_keys, parse_job};
use crate::regular_file::whole_text;
use crate::resources::{ResourceCurve, read_resources};
use crate::sparse_curves::read_sparse;

/// Most points of a curve; a report's chart cannot show more.
const MAX_POINTS: usize = 150;

/// What reports use of a complete run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Name of the run directory.
    pub name: String,
    /// The seed, as the job writes it.
    pub seed: String,
    /// Every key of the job, dotted, with its value.
    pub job: BTreeMap<String, String>,
    /// The keys whose values are defaults.
    pub defaults: BTreeSet<String>,
    /// The run's summary.
    pub summary: StoredSummary,
    /// Test figures by name (`loss`, `accuracy`), over global steps.
    pub by_step: BTreeMap<String, Curve>,
    /// Test figures by name, over seconds since the first scalar was recorded.
    pub by_time: BTreeMap<String, Curve>,
    /// How worker 0 used its machine; empty if resources were not sampled.
    pub resources: Vec<ResourceCurve>,
    /// The keys and entries of a sparse model; empty if resources were not sampled.
    pub sparse: Vec<ResourceCurve>,
}

impl Run {
    /// Reads a run directory; returns none if it holds no complete run.
    pub fn read(path: &Path) -> Option<Self> {
        let summary = StoredSummary::parse(&whole_text(&path.join(files::SUMMARY))?)?;
        let text = whole_text(&path.join(files::JOB)).unwrap_or_default();
        let job = parse_job(&text);
        let mut run = Self {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            seed: job.get("seed").cloned().unwrap_or_default(),
            job,
            defaults: default_keys(&text),
            summary,
            ..Self::default()
        };
        for file in event_files(path) {
            run.add_curves(read_scalars(&file, |tag| tag.starts_with(tags::TEST_PREFIX)));
        }
        let is_emulated = run.job.contains_key("cluster.emulate.hosts");
        let folders = folders_of_coordinator(path);
        let mut found = folders.iter().map(|folder| read_resources(folder, is_emulated));
        run.resources = found.find(|curves| !curves.is_empty()).unwrap_or_default();
        run.sparse = read_sparse(path);
        for curve in run.resources.iter_mut().chain(&mut run.sparse) {
            curve.points = thinned(std::mem::take(&mut curve.points));
        }
        Some(run)
    }

    fn add_curves(&mut self, scalars: Scalars) {
        let start = scalars.start_seconds.unwrap_or_default();
        for (tag, points) in scalars.points {
            let name = tag.trim_start_matches(tags::TEST_PREFIX).to_owned();
            let value = |point: &ScalarPoint| f64::from(point.value);
            let finite = points.iter().filter(|point| point.value.is_finite());
            let by_step = finite.clone().map(|point| (point.step as f64, value(point)));
            let by_time = finite.map(|point| (point.wall_seconds - start, value(point)));
            self.by_step.insert(name.clone(), thinned(by_step.collect()));
            self.by_time.insert(name, thinned(by_time.collect()));
        }
    }

    /// The batch as the job counts it: examples of all workers together if it sets
    /// `train.global_batch`, else examples of one worker.
    pub fn batch(&self) -> u64 {
        let all = self.job.get("train.global_batch").and_then(|text| text.parse().ok());
        all.unwrap_or(self.summary.batch as u64)
    }
}

/// The event files of the tasks that test: the coordinator, or an evaluator.
fn event_files(run: &Path) -> Vec<PathBuf> {
    let mut folders = folders_of_coordinator(run).to_vec();
    folders.push(run.join(evaluator_folder(0)));
    let mut found: Vec<PathBuf> =
        folders.iter().flat_map(|folder| event_files_in(folder)).collect();
    found.sort();
    found
}

/// Drops points evenly until at most [`MAX_POINTS`] remain; keeps the first and the last.
fn thinned(curve: Curve) -> Curve {
    if curve.len() <= MAX_POINTS {
        return curve;
    }
    let last = curve.len() - 1;
    (0..MAX_POINTS).map(|i| curve[i * last / (MAX_POINTS - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_curve_keeps_its_ends() {
        let curve: Curve = (0..10_000).map(|i| (f64::from(i), 0.0)).collect();
        let thin = thinned(curve.clone());
        assert_eq!(thin.len(), MAX_POINTS);
        assert_eq!((thin[0], thin[MAX_POINTS - 1]), (curve[0], curve[9_999]));
        assert_eq!(thinned(curve[..3].to_vec()), curve[..3]);
    }

    #[test]
    fn a_directory_without_a_summary_is_not_a_complete_run() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Run::read(dir.path()).is_none());
    }
}
