//! The runs of a directory: which there are, and what each has come to in a line.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::run_reader::unix_seconds;
use crate::run::flat_job;

/// How far below the directory runs are looked for.
const MOST_DEPTH: usize = 4;
/// Runs that are listed at most: the newest.
const MOST_RUNS: usize = 2_000;
/// Directories that are looked into at most.
const MOST_DIRS: usize = 20_000;
/// How long a list is good for.
const FRESH: Duration = Duration::from_secs(1);

/// A run that was found.
#[derive(Clone, Debug)]
pub(crate) struct FoundRun {
    /// Its place below the directory, which is its name here; `.` for the directory itself.
    pub(crate) id: String,
    pub(crate) path: PathBuf,
}

/// The runs of a directory.
#[derive(Debug)]
pub(crate) struct RunList {
    root: PathBuf,
    looked: Option<Instant>,
    found: Vec<FoundRun>,
    /// What a run's files said, while they have not changed.
    cards: HashMap<String, (FileTimes, Value)>,
    /// A line for each run, as JSON.
    list: Arc<str>,
}

/// What tells that a run's files have changed: when the job and the summary were written.
type FileTimes = [Option<SystemTime>; 2];

impl RunList {
    /// Runs below this directory, or that one itself.
    pub(crate) fn new(root: &Path) -> Self {
        let (found, cards, list) = (Vec::new(), HashMap::new(), Arc::from("[]"));
        Self { root: root.to_owned(), looked: None, found, cards, list }
    }

    /// Looks which runs there are, unless that was done just now.
    pub(crate) fn refresh(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < FRESH) {
            return;
        }
        let mut found = Vec::new();
        let mut left = MOST_DIRS;
        find(&self.root, MOST_DEPTH, &mut left, &mut found);
        found.sort_by_key(|(written, _)| std::cmp::Reverse(*written));
        found.truncate(MOST_RUNS);
        let name = |path: PathBuf| FoundRun { id: id(&self.root, &path), path };
        self.found = found.into_iter().map(|(_, path)| name(path)).collect();
        let known: std::collections::HashSet<_> = self.found.iter().map(|run| &run.id).collect();
        self.cards.retain(|id, _| known.contains(id));
        self.list = self.cards().to_string().into();
        self.looked = Some(Instant::now());
    }

    /// A line for each run, the newest first, as JSON.
    pub(crate) fn list(&mut self) -> Arc<str> {
        self.refresh();
        self.list.clone()
    }

    /// The directory of the run of this name, if there is one. A name is never made a path.
    pub(crate) fn path(&mut self, id: &str) -> Option<PathBuf> {
        let find = |run_list: &Self| {
            run_list.found.iter().find(|run| run.id == id).map(|run| run.path.clone())
        };
        find(self).or_else(|| {
            self.refresh();
            find(self)
        })
    }

    fn cards(&mut self) -> Value {
        let mut cards = Vec::with_capacity(self.found.len());
        for run in &self.found {
            let stamp = ["job.toml", "summary.json"].map(|name| modified(&run.path.join(name)));
            let known = self.cards.remove(&run.id).filter(|known| known.0 == stamp);
            let card = known.map_or_else(|| card(run, &stamp), |known| known.1);
            self.cards.insert(run.id.clone(), (stamp, card.clone()));
            let mut card = card;
            if card["is_over"] == false {
                card["quiet_s"] = json!(quiet_seconds(&run.path));
            }
            cards.push(card);
        }
        cards.into()
    }
}

/// What a run's job and summary say in a line.
fn card(run: &FoundRun, stamp: &FileTimes) -> Value {
    let read = |name: &str| fs::read_to_string(run.path.join(name)).unwrap_or_default();
    let job = flat_job(&read("job.toml"));
    let summary: Value = serde_json::from_str(&read("summary.json")).unwrap_or_default();
    let word = |key: &str| job.get(key).cloned().unwrap_or_default();
    let folder = run.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    json!({
        "id": run.id,
        "folder": folder,
        "name": word("name"),
        "model": word("model.kind"),
        "data": word("data.kind"),
        "mode": word("cluster.mode"),
        "workers": summary["workers"].as_u64().map_or(word("cluster.workers"), |n| n.to_string()),
        "batch": word("train.batch"),
        "written_s": stamp[0].map(unix_seconds),
        "is_over": summary.is_object(),
        "stop_reason": summary["stop_reason"],
        "steps": summary["global_steps"],
        "seconds": summary["seconds"],
        "test_loss": summary["test_loss"],
        "test_accuracy": summary["test_accuracy"],
        "examples_per_second": summary["examples_per_second"],
        "verdict": summary["verdict"]["kind"],
    })
}

/// How long nothing has been written into the tasks' folders of a run; in steps, so that a quiet
/// run is not news every second.
fn quiet_seconds(run: &Path) -> Option<u64> {
    let entries = fs::read_dir(run).ok()?.flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
    let written = files.flatten().filter_map(|file| file.metadata().ok()?.modified().ok());
    let newest = written.max().max(modified(&run.join("job.toml")))?;
    Some(newest.elapsed().unwrap_or_default().as_secs() / 15 * 15)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?.modified().ok()
}

/// A run's place below the root.
fn id(root: &Path, path: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(below) if !below.as_os_str().is_empty() => below.to_string_lossy().into_owned(),
        _ => ".".to_owned(),
    }
}

/// Directories with a job in them, and when that was written. Links are not followed.
fn find(dir: &Path, depth: usize, left: &mut usize, found: &mut Vec<(SystemTime, PathBuf)>) {
    if let Some(written) = modified(&dir.join("job.toml")) {
        found.push((written, dir.to_owned()));
        return;
    }
    if depth == 0 || *left == 0 {
        return;
    }
    *left -= 1;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find(&entry.path(), depth - 1, left, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_their_job_and_known_by_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut run_list = RunList::new(dir.path());
        assert_eq!(&*run_list.list(), "[]");
        for name in ["a", "deep/b"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("job.toml"), "[cluster]\nmode = \"sync\"")
                .unwrap();
        }
        fs::create_dir_all(dir.path().join("none")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
        fs::write(dir.path().join("a/summary.json"), r#"{"test_accuracy": 0.5}"#).unwrap();
        run_list.looked = None;
        let cards: Value = serde_json::from_str(&run_list.list()).unwrap();
        let mut ids: Vec<_> = cards.as_array().unwrap().iter().map(|card| &card["id"]).collect();
        ids.sort_by_key(|id| id.to_string());
        assert_eq!(ids, ["a", "deep/b"]);
        let a = cards.as_array().unwrap().iter().find(|card| card["id"] == "a").unwrap();
        assert_eq!(
            (&a["mode"], &a["test_accuracy"], &a["is_over"]),
            (&json!("sync"), &json!(0.5), &json!(true))
        );
        assert_eq!(run_list.path("a"), Some(dir.path().join("a")));
        for id in ["none", "../a", "/etc", "a/", "", "."] {
            assert_eq!(run_list.path(id), None, "{id}");
        }
        let mut alone = RunList::new(&dir.path().join("a"));
        assert_eq!(alone.path("."), Some(dir.path().join("a")));
    }
}
