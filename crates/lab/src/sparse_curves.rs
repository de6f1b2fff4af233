//! Curves of a sparse model over time: the keys of a step, and the entries in memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use paceline_record::names::{has_role, roles, tags};

use crate::curve::Curve;
use crate::event_file::{ScalarPoint, read_scalars};
use crate::event_folders::{event_files_in, folders_of_coordinator};
use crate::resources::ResourceCurve;

/// A drawn curve: its title, its tag and its scale.
struct SparseTag {
    title: &'static str,
    tag: &'static str,
    scale: f64,
}

/// What a worker records of its steps.
const OF_STEPS: [SparseTag; 3] = [
    SparseTag { title: "keys per step", tag: tags::KEYS_PER_STEP, scale: 1.0 },
    SparseTag { title: "keys kB/step", tag: tags::KEY_BYTES_PER_STEP, scale: 1e-3 },
    SparseTag { title: "values kB/step", tag: tags::VALUE_BYTES_PER_STEP, scale: 1e-3 },
];
/// What the tasks that hold parameters record.
const OF_TABLES: [SparseTag; 2] = [
    SparseTag { title: "entries in memory", tag: tags::ENTRIES, scale: 1.0 },
    SparseTag { title: "entries MB", tag: tags::ENTRY_BYTES, scale: 1e-6 },
];

/// The curves of a run's directory; none of a model that is not sparse.
pub(crate) fn read_sparse(run: &Path) -> Vec<ResourceCurve> {
    let coordinator: Vec<TaskPoints> =
        folders_of_coordinator(run).iter().filter_map(|folder| TaskPoints::read(folder)).collect();
    let servers = server_folders(run);
    let servers: Vec<_> = servers.iter().filter_map(|folder| TaskPoints::read(folder)).collect();
    let holders = if servers.is_empty() { &coordinator } else { &servers };
    let starts = coordinator.iter().chain(&servers).map(|task| task.start);
    let Some(start) = starts.reduce(f64::min) else { return Vec::new() };
    let curves = OF_STEPS.iter().map(|tag| (tag, &coordinator));
    curves
        .chain(OF_TABLES.iter().map(|tag| (tag, holders)))
        .map(|(tag, tasks)| {
            let own: Vec<&[ScalarPoint]> = tasks.iter().map(|task| task.of(tag.tag)).collect();
            ResourceCurve { title: tag.title, points: sum(&own, start, tag.scale) }
        })
        .filter(|curve| !curve.points.is_empty())
        .collect()
}

/// What a task has recorded of a sparse model.
struct TaskPoints {
    start: f64,
    points: BTreeMap<String, Vec<ScalarPoint>>,
}

impl TaskPoints {
    fn read(folder: &Path) -> Option<Self> {
        let mut points: BTreeMap<String, Vec<ScalarPoint>> = BTreeMap::new();
        let mut start: Option<f64> = None;
        for file in event_files_in(folder) {
            let scalars = read_scalars(&file, |tag| tag.starts_with(tags::SPARSE_PREFIX));
            start = start.or(scalars.start_seconds);
            for (tag, more) in scalars.points {
                points.entry(tag).or_default().extend(more);
            }
        }
        Some(Self { start: start?, points })
    }

    fn of(&self, tag: &str) -> &[ScalarPoint] {
        self.points.get(tag).map_or(&[], Vec::as_slice)
    }
}

fn server_folders(run: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let is_server = |path: &PathBuf| {
        path.file_name().is_some_and(|name| has_role(&name.to_string_lossy(), roles::PS))
    };
    let mut folders: Vec<_> = entries.map(|entry| entry.path()).filter(is_server).collect();
    folders.sort();
    folders
}

/// The sum of the tasks' values at each time at which one of them has recorded a value. It begins
/// when all have.
fn sum(tasks: &[&[ScalarPoint]], start: f64, scale: f64) -> Curve {
    let with_task = |(task, points): (usize, &&[ScalarPoint])| {
        points.iter().map(|point| (point.wall_seconds, task, f64::from(point.value))).collect()
    };
    let mut all: Vec<(f64, usize, f64)> =
        tasks.iter().enumerate().flat_map(|its| -> Vec<_> { with_task(its) }).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut last: Vec<Option<f64>> = vec![None; tasks.len()];
    let sum_now = |(time, task, value): (f64, usize, f64)| {
        last[task] = Some(value);
        let sum = last.iter().copied().sum::<Option<f64>>()?;
        Some((time - start, sum * scale))
    };
    all.into_iter().filter_map(sum_now).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_several_servers_are_added_up() {
        let point = |wall_seconds, value| ScalarPoint { wall_seconds, step: 0, value };
        let (first, second) = ([point(10.0, 1.0), point(12.0, 3.0)], [point(11.0, 5.0)]);
        let curve = sum(&[&first, &second], 10.0, 2.0);
        assert_eq!(curve, [(1.0, 12.0), (2.0, 16.0)]);
        assert!(sum(&[&first, &[]], 10.0, 1.0).is_empty() && sum(&[], 0.0, 1.0).is_empty());
    }
}
