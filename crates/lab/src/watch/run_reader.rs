//! One run, read as far as it has come, and again when there is more.
//!
//! A run is only ever looked at through its files, so that looking cannot disturb it: every task's
//! events and `resources.csv` are read on from where they were left, whole records only; the job,
//! the summary and the ends of the logs are read when they have changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::resource_table::{ResourceTable, curve};
use super::series::Series;
use super::text_file::{TextFile, files};
use crate::events::{EventFileReader, FileEvent};

/// Folders of tasks that are looked into.
const MOST_TASKS: usize = 256;
/// Bytes of an event file that are read at one go, so that a look comes to an end.
const MOST_BYTES: u64 = 256 << 20;
/// Bytes at the end of a log that are shown, and how many lines of them.
const LOG_BYTES: u64 = 16 << 10;
const LOG_LINES: usize = 100;
/// A job or a summary that is longer is not one of ours.
const MOST_TEXT_BYTES: u64 = 4 << 20;
/// How long what has been seen is good for.
const FRESH: Duration = Duration::from_millis(400);

/// A curve's name: the task's folder and the tag.
pub(crate) type CurveKey = (String, String);

/// Everything that is known of a run.
#[derive(Debug)]
pub(crate) struct RunReader {
    dir: PathBuf,
    tasks: BTreeMap<String, TaskReader>,
    /// When the first step was made or, until then, the first thing that a task has told of.
    begin_seconds: Option<f64>,
    job: TextFile,
    summary: TextFile,
    parsed_summary: Option<Value>,
    looked: Option<Instant>,
    /// The last time that any of its files was written.
    written: Option<SystemTime>,
}

#[derive(Debug, Default)]
struct TaskReader {
    events: BTreeMap<PathBuf, EventFileReader>,
    tables: BTreeMap<PathBuf, ResourceTable>,
    log: TextFile,
    series: BTreeMap<String, Series>,
}

impl RunReader {
    /// A book with nothing in it yet.
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            tasks: BTreeMap::new(),
            begin_seconds: None,
            job: TextFile::default(),
            summary: TextFile::default(),
            parsed_summary: None,
            looked: None,
            written: None,
        }
    }

    /// Reads what is new, unless that was done just now.
    pub(crate) fn refresh(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < FRESH) {
            return;
        }
        self.job.refresh(&self.dir.join("job.toml"), MOST_TEXT_BYTES);
        if self.summary.refresh(&self.dir.join("summary.json"), MOST_TEXT_BYTES) {
            self.parsed_summary = serde_json::from_str(&self.summary.text).ok();
        }
        for name in task_folders(&self.dir) {
            let folder = self.dir.join(&name);
            let task = self.tasks.entry(name).or_default();
            let written = task.refresh(&folder);
            self.written = self.written.max(written);
        }
        self.written = self.written.max(self.job.written);
        self.begin_seconds = self.begin(TRAIN_LOSS).or_else(|| self.begin(""));
        self.looked = Some(Instant::now());
    }

    /// When the first point of any curve was written whose tag begins so.
    fn begin(&self, tag: &str) -> Option<f64> {
        let series = self.tasks.values().flat_map(|task| &task.series);
        let series = series.filter(|(own, _)| own.starts_with(tag));
        series.filter_map(|(_, series)| Some(series.first()?.wall_seconds)).reduce(f64::min)
    }

    /// The names of the tasks' folders.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &str> {
        self.tasks.keys().map(String::as_str)
    }

    /// All curves.
    pub(crate) fn all_series(&self) -> impl Iterator<Item = (CurveKey, &Series)> {
        self.tasks.iter().flat_map(|(task, run)| {
            run.series.iter().map(move |(tag, series)| ((task.clone(), tag.clone()), series))
        })
    }

    /// A curve of a task.
    pub(crate) fn series(&self, task: &str, tag: &str) -> Option<&Series> {
        self.tasks.get(task)?.series.get(tag)
    }

    /// When the run began, in seconds since 1970.
    pub(crate) fn begin_seconds(&self) -> f64 {
        self.begin_seconds.unwrap_or_default()
    }

    /// The job as it was run.
    pub(crate) fn job(&self) -> &str {
        &self.job.text
    }

    /// What the run came to, if it has come to its end.
    pub(crate) fn summary(&self) -> Option<&Value> {
        self.parsed_summary.as_ref().filter(|summary| summary.is_object())
    }

    /// The last lines of a task's log.
    pub(crate) fn log(&self, task: &str) -> Vec<&str> {
        let Some(task) = self.tasks.get(task) else { return Vec::new() };
        let lines: Vec<&str> = task.log.text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].to_vec()
    }

    /// How long no file of the run has been written.
    pub(crate) fn quiet(&self) -> Duration {
        let since = self.written.and_then(|written| written.elapsed().ok());
        since.unwrap_or_default()
    }
}

impl TaskReader {
    /// Reads what is new; when any of the files was last written.
    fn refresh(&mut self, folder: &Path) -> Option<SystemTime> {
        let mut written = None;
        for (name, path, metadata) in files(folder) {
            written = written.max(metadata.modified().ok());
            if name.contains("tfevents") {
                let tail =
                    self.events.entry(path.clone()).or_insert_with(|| EventFileReader::new(&path));
                let series = &mut self.series;
                tail.read(MOST_BYTES, |event| note(series, event));
            } else if name.starts_with("resources") && name.ends_with(".csv") {
                let resource_table = self.tables.entry(path).or_default();
                resource_table.read(&folder.join(&name), &mut self.series);
            } else if name == "log.txt" {
                self.log.refresh(&path, LOG_BYTES);
            }
        }
        written
    }
}

/// Puts an event into the curves. Resources are in a table as well, which is written at once.
fn note(series: &mut BTreeMap<String, Series>, event: FileEvent<'_>) {
    match event {
        FileEvent::Start(step) => series.values_mut().for_each(|series| series.forget_from(step)),
        FileEvent::Scalar(tag, _) if tag.starts_with("resources/") => {}
        FileEvent::Scalar(tag, point) => {
            let Some(series) = curve(series, tag) else { return };
            series.push(point.step, point.wall_seconds, point.value);
        }
    }
}

/// The tag of the loss of each step.
const TRAIN_LOSS: &str = "train/loss";
/// The folders of tasks in a run: a role, a number.
fn task_folders(run: &Path) -> Vec<String> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            let parts = name.rsplit_once('_');
            parts.is_some_and(|(_, number)| number.parse::<u32>().is_ok())
        })
        .collect();
    names.sort_by_key(|name| {
        let (role, number) = name.rsplit_once('_').unwrap_or((name, ""));
        (role.to_owned(), number.parse::<u32>().unwrap_or_default())
    });
    names.truncate(MOST_TASKS);
    names
}

/// Seconds since 1970.
pub(crate) fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use paceline_record::EventWriter;

    use super::super::resource_table::STEPS_PER_SECOND;
    use super::super::series::SentMark;
    use super::*;

    fn values(run: &RunReader, tag: &str) -> Vec<(u64, f32)> {
        let series = run.series("worker_0", tag);
        let buckets = series.map_or(Vec::new(), |series| series.since(SentMark::default(), 1000).0);
        buckets.iter().map(|bucket| (bucket.step, bucket.mean)).collect()
    }

    fn look_again(run: &mut RunReader) {
        run.looked = None;
        run.refresh();
    }

    #[test]
    fn a_run_that_goes_on_is_read_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = RunReader::new(dir.path());
        look_again(&mut run);
        assert_eq!((run.tasks().count(), run.job(), run.summary()), (0, "", None));

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
        look_again(&mut run);
        assert_eq!(values(&run, "train/loss"), [(0, 2.5)]);
        assert_eq!(values(&run, "resources/task_cpu_percent"), [(10, 150.0), (30, 170.0)]);
        assert_eq!(values(&run, STEPS_PER_SECOND), [(30, 20.0)]);
        assert_eq!((run.begin_seconds(), run.job()), (1000.0, "seed = 1\n"));
        assert_eq!(run.log("worker_0"), ["one", "two"]);

        resource_table.write_all(b"0,70,180\n").unwrap();
        events.scalar_at(&loss, 40, 0.5, 1004.0).unwrap();
        events.flush().unwrap();
        fs::write(dir.path().join("summary.json"), r#"{"mode": "sync"}"#).unwrap();
        look_again(&mut run);
        assert_eq!(values(&run, "train/loss"), [(0, 2.5), (40, 0.5)]);
        assert_eq!(values(&run, STEPS_PER_SECOND), [(30, 20.0), (70, 40.0)]);
        assert_eq!(run.summary().unwrap()["mode"], "sync");
    }

    #[test]
    fn steps_that_are_run_again_are_forgotten() {
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
