//! The job with every default filled in: what is run, shown and told apart by.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::problem::Origin;
use super::raw::{Entry, RawJob};
use super::schema::{KEYS, Key, Kind, ROWS};
use super::value::Value;

/// A name becomes part of a directory's, and those have limits.
const MOST_NAME_BYTES: usize = 100;
/// Epochs of a job that does not say when to stop.
const DEFAULT_EPOCHS: &str = "train.stop.epochs=6";

impl RawJob {
    /// The job as it will be run: every key that matters, with a comment on where it is from.
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
            if let Some((on, values)) = key.with.as_ref().filter(|_| !resolved.applies(key)) {
                let when = Kind::Word(values).describe();
                let line = format!("# not used: {path} ({}) needs {on} = {when}\n", entry.origin);
                text.push_str(&line);
            }
        }
        text
    }

    /// What identifies the job: equal for all tasks of one run, wherever they have their files.
    pub fn digest(&self) -> [u8; 32] {
        let resolved = self.resolve();
        let mut hash = Sha256::new();
        for key in KEYS.iter().filter(|key| resolved.applies(key)) {
            let own = key.path == "name" || matches!(key.kind, Kind::Path | Kind::Address);
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
            let value = Value::Text(job.default_name());
            job.entries.insert("name".into(), Entry { value, origin: Origin::Default });
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
                entry.origin = Origin::Default;
            }
            if KEYS.iter().any(|key| key.path == *path && matches!(key.kind, Kind::Path)) {
                make_absolute(entry);
            }
        }
        job
    }

    /// What follows from the model or the data where a job does not say: the one from the other,
    /// and how often a test is worth its time.
    fn match_model_and_data(&mut self) {
        match (self.word("model.kind").as_str(), self.word("data.kind").as_str()) {
            ("logistic", "") => self.set("data.kind=clicks"),
            ("alexnet", "") => self.set("data.kind=fake-images"),
            ("", kind) if ROWS.contains(&kind) => self.set("model.kind=logistic"),
            _ => {}
        }
        let is_network = ["lenet", "alexnet"].contains(&self.word("model.kind").as_str());
        if is_network && !self.entries.contains_key("train.evaluate.every") {
            // A test costs as much as many steps do.
            self.set("train.evaluate.every=1000");
        }
    }

    /// The word that a key has as its value; empty if it has none.
    pub(super) fn word(&self, key: &str) -> String {
        match self.entries.get(key).map(|entry| &entry.value) {
            Some(Value::Text(word)) => word.clone(),
            _ => String::new(),
        }
    }

    /// The job file's name, as far as it can be part of a directory's.
    fn default_name(&self) -> String {
        let Some(file) = &self.file else {
            let word = |key, default| match self.entries.get(key).map(|entry| &entry.value) {
                Some(Value::Text(word)) if is_name(word) => word.clone(),
                _ => String::from(default),
            };
            return format!("{}-{}", word("data.kind", "digits"), word("model.kind", "softmax"));
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let letters = stem.trim_start_matches('.').chars().take(MOST_NAME_BYTES);
        let name: String = letters.map(|c| if is_plain(c) { c } else { '-' }).collect();
        if name.is_empty() { "job".into() } else { name }
    }

    /// Whether a key means anything beside the other keys.
    pub(super) fn applies(&self, key: &Key) -> bool {
        key.with.as_ref().is_none_or(|(on, values)| {
            let value = self.entries.get(on).map(|entry| &entry.value);
            matches!(value, Some(Value::Text(word)) if values.contains(&word.as_str()))
        })
    }
}

/// A path in a job file is relative to that file; the resolved job may be read elsewhere.
fn make_absolute(entry: &mut Entry) {
    let Value::Text(text) = &entry.value else { return };
    if text.is_empty() {
        return; // Checking refuses it; joined, it would be the directory of the job file.
    }
    let path = match &entry.origin {
        Origin::File { path: file, .. } => file.parent().unwrap_or(Path::new("")).join(text),
        _ => PathBuf::from(text),
    };
    if let Ok(absolute) = std::path::absolute(path) {
        entry.value = Value::Text(absolute.to_string_lossy().into_owned());
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
