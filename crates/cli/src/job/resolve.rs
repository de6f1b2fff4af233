//! The job with every default filled in. Runs, `paceline explain` and the job's digest use it.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::key_spec::{KeySpec, ValueKind};
use super::problem::SettingOrigin;
use super::raw::{JobEntry, RawJob};
use super::schema::{FILES, KEYS, ROWS};
use super::value::JobValue;

/// A run's name is part of its directory's name, whose length is limited.
const MOST_NAME_BYTES: usize = 100;
/// The stop condition of a job that sets none.
const DEFAULT_EPOCHS: &str = "train.stop.epochs=6";

impl RawJob {
    /// The job as it will be run: every key that applies, with its origin as a comment.
    pub fn explain(&self) -> String {
        let resolved = self.resolve();
        let mut text = String::new();
        let mut section = "";
        for key in KEYS.iter().filter(|key| resolved.applies(key)) {
            let Some(entry) = resolved.entries.get(&key.path) else { continue };
            if section != key.section() {
                section = key.section();
                text.push_str(&format!("\n[{section}]\n"));
            }
            let setting = format!("{} = {}", key.name(), entry.value);
            text.push_str(&format!("{setting:<32} # {}\n", entry.origin));
        }
        for (path, entry) in &self.entries {
            let Some(key) = KEYS.iter().find(|key| key.path == *path) else { continue };
            let is_idle = !resolved.applies(key);
            if let Some(condition) = key.condition.as_ref().filter(|_| is_idle) {
                let (origin, needed, values) =
                    (&entry.origin, &condition.key, condition.describe());
                let line = format!("# not used: {path} ({origin}) needs {needed} = {values}\n");
                text.push_str(&line);
            }
        }
        text
    }

    /// Identifies the job. It is equal for all tasks of a run, wherever their files are.
    pub fn digest(&self) -> [u8; 32] {
        let resolved = self.resolve();
        let mut hash = Sha256::new();
        for key in KEYS.iter().filter(|key| resolved.applies(key)) {
            let own =
                key.path == "name" || matches!(key.kind, ValueKind::Path | ValueKind::Address);
            if let Some(entry) = resolved.entries.get(&key.path).filter(|_| !own) {
                hash.update(format!("{} = {}\n", key.path, entry.value));
            }
        }
        hash.finalize().into()
    }

    /// The job with every default filled in.
    pub(super) fn resolve(&self) -> RawJob {
        let mut job = self.clone();
        job.match_model_and_data();
        if !job.entries.contains_key("name") {
            let value = JobValue::Text(job.default_name());
            job.entries.insert("name".into(), JobEntry { value, origin: SettingOrigin::Default });
        }
        if !job.entries.keys().any(|key| key.starts_with("train.stop.")) {
            job.set(DEFAULT_EPOCHS);
        }
        for key in KEYS.iter() {
            if let Some(default) = key.default
                && !job.entries.contains_key(&key.path)
            {
                job.set(&format!("{}={default}", key.path));
            }
        }
        for (path, entry) in &mut job.entries {
            if !self.entries.contains_key(path) {
                entry.origin = SettingOrigin::Default;
            }
            if KEYS.iter().any(|key| key.path == *path && matches!(key.kind, ValueKind::Path)) {
                make_absolute(entry);
            }
        }
        job
    }

    /// Fills in defaults that depend on the model or the data: each from the other, and the
    /// interval of tests from the model.
    fn match_model_and_data(&mut self) {
        match (self.word("model.kind").as_str(), self.word("data.kind").as_str()) {
            ("logistic", "") => self.set("data.kind=clicks"),
            ("alexnet", "") => self.set("data.kind=fake-images"),
            ("", kind) if ROWS.contains(&kind) => self.set("model.kind=logistic"),
            _ => {}
        }
        let is_network = ["lenet", "alexnet"].contains(&self.word("model.kind").as_str());
        if is_network && !self.entries.contains_key("train.evaluate.every") {
            // A test of a network takes as long as many steps.
            self.set("train.evaluate.every=1000");
        }
    }

    /// Holds out the examples that an earlier run with the job `earlier` held out, if that run is
    /// from a version without `data.split`: a test example must not become a training example.
    /// Returns whether the job is changed.
    pub fn keep_split_of(&mut self, earlier: &RawJob) -> bool {
        let is_set = |job: &RawJob, key| job.entries.contains_key(key);
        let keeps = FILES.contains(&self.word("data.kind").as_str())
            && !is_set(self, "data.split")
            && !is_set(earlier, "data.split")
            && !is_set(self, "data.test_path");
        if keeps {
            self.set("data.split=plain");
        }
        keeps
    }

    /// The text value of a key; empty if it has none.
    pub(super) fn word(&self, key: &str) -> String {
        match self.entries.get(key).map(|entry| &entry.value) {
            Some(JobValue::Text(word)) => word.clone(),
            _ => String::new(),
        }
    }

    /// The job file's name, restricted to characters that are valid in a directory's name.
    fn default_name(&self) -> String {
        let Some(file) = &self.file else {
            let word = |key, default| match self.entries.get(key).map(|entry| &entry.value) {
                Some(JobValue::Text(word)) if is_name(word) => word.clone(),
                _ => String::from(default),
            };
            return format!("{}-{}", word("data.kind", "digits"), word("model.kind", "softmax"));
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let letters = stem.trim_start_matches('.').chars().take(MOST_NAME_BYTES);
        let name: String = letters.map(|c| if is_plain(c) { c } else { '-' }).collect();
        if name.is_empty() { "job".into() } else { name }
    }

    /// Whether a key's condition holds.
    pub(super) fn applies(&self, key: &KeySpec) -> bool {
        key.condition.as_ref().is_none_or(|condition| {
            let value = self.entries.get(&condition.key).map(|entry| &entry.value);
            matches!(value, Some(JobValue::Text(word)) if condition.values.contains(&word.as_str()))
        })
    }
}

/// Makes a path absolute. It is relative to its job file, but the resolved job may be read from
/// another directory.
fn make_absolute(entry: &mut JobEntry) {
    let JobValue::Text(text) = &entry.value else { return };
    if text.is_empty() {
        return; // Checking refuses it. Joined, it would become the job file's directory.
    }
    let path = match &entry.origin {
        SettingOrigin::File { path: file, .. } => file.parent().unwrap_or(Path::new("")).join(text),
        _ => PathBuf::from(text),
    };
    if let Ok(absolute) = std::path::absolute(path) {
        entry.value = JobValue::Text(absolute.to_string_lossy().into_owned());
    }
}

/// A host, or an address in brackets, and a port.
pub(super) fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

pub(super) fn is_name(text: &str) -> bool {
    let fits = (1..=MOST_NAME_BYTES).contains(&text.len());
    fits && !text.starts_with('.') && text.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}
