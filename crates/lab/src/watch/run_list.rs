//! The runs of a directory, with the key figures of each.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use paceline_record::StoredSummary;
use paceline_record::names::files;
use serde_json::{Value, json};

use super::page_limits::{recorded_failure, rounded_quiet_seconds, unexpected_end};
use super::text_file::regular_text;
use crate::job_keys::parse_job;

/// How many levels below the directory runs are searched for.
const MAX_DEPTH: usize = 4;
/// Most runs of the list; it has the newest.
const MAX_RUNS: usize = 2_000;
/// Most directories that a search looks into.
const MAX_DIRS: usize = 20_000;
/// The directory is not searched again before this time has passed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// A run of the list.
#[derive(Clone, Debug)]
struct ListedRun {
    /// Path relative to the directory, which identifies the run; `.` for the directory itself.
    id: String,
    path: PathBuf,
}

/// A run that a search found, and when its job was written.
struct FoundRun {
    path: PathBuf,
    written: SystemTime,
}

/// Key figures of a run, and when the files that they come from were written.
#[derive(Debug)]
struct CachedCard {
    job_written: Option<SystemTime>,
    summary_written: Option<SystemTime>,
    job: BTreeMap<String, String>,
    card: Value,
}

/// The runs of a directory.
#[derive(Debug)]
pub(crate) struct RunList {
    root: PathBuf,
    refreshed: Option<Instant>,
    runs: Vec<ListedRun>,
    /// Cards of runs whose files have not changed, by id.
    cards: HashMap<String, CachedCard>,
    json: Arc<str>,
}

impl RunList {
    /// Lists the runs below a directory, or the directory itself if it is a run.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            refreshed: None,
            runs: Vec::new(),
            cards: HashMap::new(),
            json: Arc::from("[]"),
        }
    }

    /// Searches the directory, unless it did so just now.
    fn refresh(&mut self) {
        if self.refreshed.is_some_and(|refreshed| refreshed.elapsed() < REFRESH_INTERVAL) {
            return;
        }
        let mut search = RunSearch { dirs_left: MAX_DIRS, found: Vec::new() };
        search.visit(&self.root, MAX_DEPTH);
        let mut found = search.found;
        found.sort_by_key(|run| std::cmp::Reverse(run.written));
        found.truncate(MAX_RUNS);
        let listed =
            |run: FoundRun| ListedRun { id: run_id(&self.root, &run.path), path: run.path };
        self.runs = found.into_iter().map(listed).collect();
        let ids: HashSet<_> = self.runs.iter().map(|run| &run.id).collect();
        self.cards.retain(|id, _| ids.contains(id));
        self.json = self.all_cards().to_string().into();
        self.refreshed = Some(Instant::now());
    }

    /// The cards of all runs as JSON, the newest first.
    pub(crate) fn json(&mut self) -> Arc<str> {
        self.refresh();
        self.json.clone()
    }

    /// The directory of a run, if the list has it. An id is only compared, never used as a path.
    pub(crate) fn path(&mut self, id: &str) -> Option<PathBuf> {
        let find =
            |list: &Self| list.runs.iter().find(|run| run.id == id).map(|run| run.path.clone());
        find(self).or_else(|| {
            self.refresh();
            find(self)
        })
    }

    fn all_cards(&mut self) -> Value {
        let mut cards = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let job_written = modified(&run.path.join(files::JOB));
            let summary_written = modified(&run.path.join(files::SUMMARY));
            let is_current = |cached: &CachedCard| {
                (cached.job_written, cached.summary_written) == (job_written, summary_written)
            };
            let cached = self.cards.remove(&run.id).filter(is_current);
            let cached = cached.unwrap_or_else(|| {
                let job = parse_job(&read_text(run, files::JOB));
                let card = run_card(run, &job);
                CachedCard { job_written, summary_written, job, card }
            });
            let mut shown = cached.card.clone();
            if shown["is_over"] == false {
                let sign = last_sign(&run.path);
                shown["quiet_s"] = json!(sign.quiet_seconds());
                let ended_at = unexpected_end(&cached.job, sign.written, sign.is_sampled);
                shown["ended_at"] = json!(ended_at);
                shown["failure"] = json!(recorded_failure(&read_text(run, files::FAILURE)));
            }
            self.cards.insert(run.id.clone(), cached);
            cards.push(shown);
        }
        cards.into()
    }
}

/// The key figures of a run.
fn run_card(run: &ListedRun, job: &BTreeMap<String, String>) -> Value {
    let word = |key: &str| job.get(key).cloned().unwrap_or_default();
    let stored = StoredSummary::parse(&read_text(run, files::SUMMARY));
    let summary = stored.as_ref();
    let number = |name: &str| summary.and_then(|summary| summary.number(name));
    let folder = run.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let workers = match summary {
        Some(summary) if summary.workers > 0 => summary.workers.to_string(),
        _ => word("cluster.workers"),
    };
    json!({
        "id": run.id,
        "folder": folder,
        "name": word("name"),
        "model": word("model.kind"),
        "data": word("data.kind"),
        "mode": word("cluster.mode"),
        "workers": workers,
        "batch": word("train.batch"),
        "is_over": summary.is_some(),
        "stop_reason": summary.map(|summary| &summary.stop_reason),
        "seconds": number("seconds"),
        "test_accuracy": number("test_accuracy"),
        "examples_per_second": number("examples_per_second"),
        "verdict": summary.and_then(|summary| Some(summary.verdict.as_ref()?.kind)),
    })
}

fn read_text(run: &ListedRun, name: &str) -> String {
    regular_text(&run.path.join(name))
}

/// The last sign of life in the files of a run that has not ended.
struct LastSign {
    /// When the job or a file in a task's folder was written.
    written: Option<SystemTime>,
    /// Whether a task has a resource table.
    is_sampled: bool,
}

impl LastSign {
    /// Seconds since then, rounded down.
    fn quiet_seconds(&self) -> Option<u64> {
        Some(rounded_quiet_seconds(self.written?.elapsed().unwrap_or_default().as_secs()))
    }
}

fn last_sign(run: &Path) -> LastSign {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut sign = LastSign { written: modified(&run.join(files::JOB)), is_sampled: false };
    for file in folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten()) {
        let Ok(file) = file else { continue };
        sign.is_sampled |= files::is_resources(&file.file_name().to_string_lossy());
        let written = file.metadata().ok().and_then(|metadata| metadata.modified().ok());
        sign.written = sign.written.max(written);
    }
    sign
}

/// When a regular file was last written.
fn modified(path: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?.modified().ok()
}

fn run_id(root: &Path, path: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(below) if !below.as_os_str().is_empty() => below.to_string_lossy().into_owned(),
        _ => ".".to_owned(),
    }
}

/// Searches for directories that hold a job.
struct RunSearch {
    dirs_left: usize,
    found: Vec<FoundRun>,
}

impl RunSearch {
    /// Searches a directory and those below it. Links are not followed.
    fn visit(&mut self, dir: &Path, depth: usize) {
        if let Some(written) = modified(&dir.join(files::JOB)) {
            self.found.push(FoundRun { path: dir.to_owned(), written });
            return;
        }
        if depth == 0 || self.dirs_left == 0 {
            return;
        }
        self.dirs_left -= 1;
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.visit(&entry.path(), depth - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_their_job_and_identified_by_their_path() {
        let dir = tempfile::tempdir().unwrap();
        let mut list = RunList::new(dir.path());
        assert_eq!(&*list.json(), "[]");
        for name in ["a", "deep/b"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("job.toml"), "[cluster]\nmode = \"sync\"")
                .unwrap();
        }
        fs::create_dir_all(dir.path().join("none")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
        fs::write(dir.path().join("a/summary.json"), r#"{"test_accuracy": 0.5}"#).unwrap();
        list.refreshed = None;
        let cards: Value = serde_json::from_str(&list.json()).unwrap();
        let mut ids: Vec<_> = cards.as_array().unwrap().iter().map(|card| &card["id"]).collect();
        ids.sort_by_key(|id| id.to_string());
        assert_eq!(ids, ["a", "deep/b"]);
        let a = cards.as_array().unwrap().iter().find(|card| card["id"] == "a").unwrap();
        assert_eq!(
            (&a["mode"], &a["test_accuracy"], &a["is_over"]),
            (&json!("sync"), &json!(0.5), &json!(true))
        );
        assert_eq!(list.path("a"), Some(dir.path().join("a")));
        for id in ["none", "../a", "/etc", "a/", "", "."] {
            assert_eq!(list.path(id), None, "{id}");
        }
        let mut alone = RunList::new(&dir.path().join("a"));
        assert_eq!(alone.path("."), Some(dir.path().join("a")));
    }

    #[test]
    fn a_summary_that_is_a_link_or_a_pipe_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, r#"{"test_accuracy": 0.5}"#).unwrap();
        for name in ["link", "pipe"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("job.toml"), "").unwrap();
        }
        std::os::unix::fs::symlink(&elsewhere, dir.path().join("link/summary.json")).unwrap();
        let pipe = dir.path().join("pipe/summary.json");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // A thread that opens the pipe waits for its other end.
        let (sender, listed) = std::sync::mpsc::channel();
        let mut list = RunList::new(dir.path());
        std::thread::spawn(move || sender.send(list.json()));
        let cards = listed.recv_timeout(Duration::from_secs(20)).expect("the list is not delayed");
        let cards: Value = serde_json::from_str(&cards).unwrap();
        for card in cards.as_array().unwrap() {
            assert_eq!(card["is_over"], false, "{card}");
        }
    }
}
