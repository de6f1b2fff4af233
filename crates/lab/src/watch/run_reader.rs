//! Reads a run's files, and again when they have grown.
//!
//! The page sees a run only through its files, so it cannot disturb the run. The events and
//! `resources.csv` of every task are read from where the last look stopped, complete records only.
//! The job, the summary and the ends of the logs are read again when they have changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use paceline_record::StoredSummary;
use paceline_record::names::{files, tags};
use serde_json::Value;

use super::curve_set::CurveSet;
use super::page_limits::recorded_failure;
use super::resource_reader::ResourceReader;
use super::series::Series;
use super::text_file::{MAX_TEXT_BYTES, TextFile, folder_files};
use crate::event_file::{EventFileReader, FileEvent};

/// Most task folders of a run.
const MAX_TASKS: usize = 256;
/// Most bytes of an event file that one look reads, so that a look ends soon.
const MAX_EVENT_BYTES: u64 = 256 << 20;
/// How much of the end of a log is shown.
const LOG_BYTES: u64 = 16 << 10;
const LOG_LINES: usize = 100;
/// The files are not looked at again before this time has passed.
const REFRESH_INTERVAL: Duration = Duration::from_millis(400);

/// Names a curve of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CurveKey {
    /// The task's folder.
    pub(crate) task: String,
    pub(crate) tag: String,
}

/// Everything that the files of a run say.
#[derive(Debug)]
pub(crate) struct RunReader {
    dir: PathBuf,
    /// By folder.
    tasks: BTreeMap<String, TaskReader>,
    start_seconds: Option<f64>,
    job: TextFile,
    summary_text: TextFile,
    summary: Option<StoredSummary>,
    evaluation_text: TextFile,
    failure_text: TextFile,
    /// What `paceline evaluate` found, if it was run.
    evaluation: Option<Value>,
    refreshed: Option<Instant>,
    /// When a file of the run was last written.
    written: Option<SystemTime>,
}

/// What the files of a task say.
#[derive(Debug, Default)]
struct TaskReader {
    events: BTreeMap<PathBuf, EventFileReader>,
    resources: BTreeMap<PathBuf, ResourceReader>,
    log: TextFile,
    /// The name of the task's machine.
    machine: String,
    curves: CurveSet,
}

impl RunReader {
    /// Creates a reader that has not read anything yet.
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            tasks: BTreeMap::new(),
            start_seconds: None,
            job: TextFile::default(),
            summary_text: TextFile::default(),
            summary: None,
            evaluation_text: TextFile::default(),
            failure_text: TextFile::default(),
            evaluation: None,
            refreshed: None,
            written: None,
        }
    }

    /// Reads what the files have gained, unless it did so just now.
    pub(crate) fn refresh(&mut self) {
        if self.refreshed.is_some_and(|refreshed| refreshed.elapsed() < REFRESH_INTERVAL) {
            return;
        }
        self.job.refresh(&self.dir.join(files::JOB), MAX_TEXT_BYTES);
        if self.summary_text.refresh(&self.dir.join(files::SUMMARY), MAX_TEXT_BYTES) {
            self.summary = StoredSummary::parse(&self.summary_text.text);
        }
        self.failure_text.refresh(&self.dir.join(files::FAILURE), MAX_TEXT_BYTES);
        if self.evaluation_text.refresh(&self.dir.join(files::EVALUATION), MAX_TEXT_BYTES) {
            self.evaluation = serde_json::from_str(&self.evaluation_text.text).ok();
        }
        for name in task_folders(&self.dir) {
            let folder = self.dir.join(&name);
            let task = self.tasks.entry(name).or_default();
            let written = task.refresh(&folder);
            self.written = self.written.max(written);
        }
        self.written = self.written.max(self.job.written);
        self.start_seconds = self.first_point(tags::TRAIN_LOSS).or_else(|| self.first_point(""));
        self.refreshed = Some(Instant::now());
    }

    /// When the first point of any curve with this prefix of the tag was recorded.
    fn first_point(&self, tag_prefix: &str) -> Option<f64> {
        let curves = self.tasks.values().flat_map(|task| task.curves.iter());
        let curves = curves.filter(|(tag, _)| tag.starts_with(tag_prefix));
        curves.filter_map(|(_, series)| Some(series.first()?.wall_seconds)).reduce(f64::min)
    }

    /// The folders of the tasks.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &str> {
        self.tasks.keys().map(String::as_str)
    }

    /// All curves of all tasks.
    pub(crate) fn all_series(&self) -> impl Iterator<Item = (CurveKey, &Series)> {
        self.tasks.iter().flat_map(|(folder, task)| {
            task.curves.iter().map(move |(tag, series)| {
                (CurveKey { task: folder.clone(), tag: tag.to_owned() }, series)
            })
        })
    }

    /// A curve of a task.
    pub(crate) fn series(&self, task: &str, tag: &str) -> Option<&Series> {
        self.tasks.get(task)?.curves.get(tag)
    }

    /// When the first step was recorded or, before there is one, the first point of any curve; in
    /// seconds since 1970.
    pub(crate) fn start_seconds(&self) -> f64 {
        self.start_seconds.unwrap_or_default()
    }

    /// The text of the job.
    pub(crate) fn job(&self) -> &str {
        &self.job.text
    }

    /// The summary, once the run has ended.
    pub(crate) fn summary(&self) -> Option<&StoredSummary> {
        self.summary.as_ref()
    }

    /// The kind of the failure that the run has recorded, if any.
    pub(crate) fn failure(&self) -> Option<String> {
        recorded_failure(&self.failure_text.text)
    }

    /// The last evaluation of the trained model, if there was one.
    pub(crate) fn evaluation(&self) -> Option<&Value> {
        self.evaluation.as_ref().filter(|figures| figures["examples"].is_u64())
    }

    /// The last lines of a task's log.
    pub(crate) fn log(&self, task: &str) -> Vec<&str> {
        let Some(task) = self.tasks.get(task) else { return Vec::new() };
        let lines: Vec<&str> = task.log.text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].to_vec()
    }

    /// When a file of the run was last written.
    pub(crate) fn written(&self) -> Option<SystemTime> {
        self.written
    }

    /// Whether a task samples its resources.
    pub(crate) fn is_sampled(&self) -> bool {
        self.tasks.values().any(|task| !task.resources.is_empty())
    }

    /// The name of a task's machine; empty before the task has an event file.
    pub(crate) fn machine(&self, task: &str) -> &str {
        self.tasks.get(task).map_or("", |task| &task.machine)
    }

    /// Time since a file of the run was last written.
    pub(crate) fn quiet_time(&self) -> Duration {
        let since = self.written.and_then(|written| written.elapsed().ok());
        since.unwrap_or_default()
    }
}

impl TaskReader {
    /// Reads what the files have gained; returns when one of them was last written.
    fn refresh(&mut self, folder: &Path) -> Option<SystemTime> {
        let mut written = None;
        for file in folder_files(folder) {
            written = written.max(file.modified);
            if file.name.starts_with(files::EVENTS_PREFIX) {
                if let Some(machine) = files::machine_of_events(&file.name) {
                    machine.clone_into(&mut self.machine);
                }
                let new = || EventFileReader::new(&file.path);
                let reader = self.events.entry(file.path.clone()).or_insert_with(new);
                let curves = &mut self.curves;
                reader.read_new(MAX_EVENT_BYTES, |event| add_event(curves, event));
            } else if files::is_resources(&file.name) {
                let reader = self.resources.entry(file.path.clone()).or_default();
                reader.read_new(&file.path, &mut self.curves);
            } else if file.name == files::LOG {
                self.log.refresh(&file.path, LOG_BYTES);
            }
        }
        written
    }
}

/// Adds an event to the curves. Resources are taken from the table instead, which is written at
/// once, while events are buffered.
fn add_event(curves: &mut CurveSet, event: FileEvent<'_>) {
    match event {
        FileEvent::SessionStart { step } => curves.truncate_from(step),
        // A thinned point: the least and greatest loss come before the mean.
        FileEvent::Scalar { tag: tags::TRAIN_LOSS_LEAST | tags::TRAIN_LOSS_GREATEST, point } => {
            let Some(series) = curves.entry(tags::TRAIN_LOSS) else { return };
            series.widen_next(point.value);
        }
        FileEvent::Scalar { tag, point } => {
            let tag = tags::current(tag);
            if tag.starts_with(tags::RESOURCES_PREFIX) || tag.starts_with(tags::TENSORS_PREFIX) {
                return;
            }
            let Some(series) = curves.entry(&tag) else { return };
            series.push(point.step, point.wall_seconds, point.value);
        }
    }
}

/// The folders of a run that belong to tasks: a role and a number, in that order. A role is a word:
/// the page shows it, and another program may have chosen a folder's name.
fn task_folders(run: &Path) -> Vec<String> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            let is_word = |role: &str| role.bytes().all(|byte| byte.is_ascii_lowercase());
            name.rsplit_once('_').is_some_and(|(role, number)| {
                is_word(role) && !role.is_empty() && number.parse::<u32>().is_ok()
            })
        })
        .collect();
    names.sort_by_key(|name| {
        let (role, number) = name.rsplit_once('_').unwrap_or((name, ""));
        (role.to_owned(), number.parse::<u32>().unwrap_or_default())
    });
    names.truncate(MAX_TASKS);
    names
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use paceline_record::EventWriter;

    use super::super::series::SentMark;
    use super::*;

    #[test]
    fn a_folder_with_markup_in_its_name_is_no_task() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["worker_0", "ps_1", "x\"><img src=x onerror=alert(1)>_0", "\x1b[31m_0", "_0"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(task_folders(dir.path()), ["ps_1", "worker_0"]);
    }

    fn values(run: &RunReader, tag: &str) -> Vec<(u64, f32)> {
        let series = run.series("worker_0", tag);
        let buckets =
            series.map_or(Vec::new(), |series| series.since(SentMark::default(), 1000).buckets);
        buckets.iter().map(|bucket| (bucket.step, bucket.mean)).collect()
    }

    fn refresh_now(run: &mut RunReader) {
        run.refreshed = None;
        run.refresh();
    }

    #[test]
    fn a_run_that_grows_is_read_from_where_the_last_look_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = RunReader::new(dir.path());
        refresh_now(&mut run);
        assert_eq!((run.tasks().count(), run.job(), run.summary().is_none()), (0, "", true));

        let folder = dir.path().join("worker_0");
        let mut events = EventWriter::create(&folder).unwrap();
        let loss = events.tag("train/loss");
        events.scalar_at(&loss, 0, 2.5, 1000.0).unwrap();
        events.flush().unwrap();
        fs::write(dir.path().join("job.toml"), "seed = 1\n").unwrap();
        let mut resource_table = File::create(folder.join("resources.csv")).unwrap();
        resource_table
            .write_all(b"time_s,step,task_cpu_percent\n1001.0,10,150\n1002.0,30,170\n1003.")
            .unwrap();
        fs::write(folder.join("log.txt"), "one\ntwo\n").unwrap();
        refresh_now(&mut run);
        assert_eq!(values(&run, "train/loss"), [(0, 2.5)]);
        assert_eq!(values(&run, "usage/task_cpu_percent"), [(10, 150.0), (30, 170.0)]);
        assert_eq!(values(&run, tags::STEP_RATE), [], "held back until a sample follows");
        assert_eq!((run.start_seconds(), run.job()), (1000.0, "seed = 1\n"));
        assert_eq!(run.log("worker_0"), ["one", "two"]);

        resource_table.write_all(b"0,70,180\n1004.0,90,180\n").unwrap();
        events.scalar_at(&loss, 40, 0.5, 1004.0).unwrap();
        events.flush().unwrap();
        fs::write(dir.path().join("summary.json"), r#"{"mode": "sync"}"#).unwrap();
        refresh_now(&mut run);
        assert_eq!(values(&run, "train/loss"), [(0, 2.5), (40, 0.5)]);
        assert_eq!(values(&run, tags::STEP_RATE), [(30, 20.0), (70, 40.0)]);
        assert_eq!(run.summary().unwrap().mode, "sync");
    }

    #[test]
    fn steps_before_a_restart_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("worker_0");
        for (from, value) in [(0, 1.0), (5, 2.0)] {
            let mut events = EventWriter::create(&folder).unwrap();
            if from > 0 {
                events.session_start(from).unwrap();
            }
            let loss = events.tag("train/loss");
            (from..10).for_each(|step| events.scalar(&loss, step, value).unwrap());
            events.flush().unwrap();
        }
        let mut run = RunReader::new(dir.path());
        run.refresh();
        let seen = values(&run, "train/loss");
        assert_eq!(seen.len(), 10);
        assert_eq!((seen[4], seen[5]), ((4, 1.0), (5, 2.0)));
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("worker_0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(dir.path().join("secret"), "secret\n").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), folder.join("log.txt")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), dir.path().join("job.toml")).unwrap();
        let mut run = RunReader::new(dir.path());
        run.refresh();
        assert_eq!((run.log("worker_0"), run.job()), (vec![], ""));
    }
}
