//! The job with every default filled in. Runs, `paceline explain` and the job's digest use it.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toml::de::DeValue;

use super::key_spec::{DefaultCase, KeyCondition, KeySpec, ValueKind};
use super::problem::SettingOrigin;
use super::raw::{JobEntry, RawJob};
use super::schema::KEYS;
use super::value::JobValue;

/// A run's name is part of its directory's name, whose length is limited.
const MOST_NAME_BYTES: usize = 100;
/// The stop condition of a job that sets none.
const DEFAULT_EPOCHS: &str = "6";

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
        if !job.entries.keys().any(|key| key.starts_with("train.stop.")) {
            job.fill("train.stop.epochs", DEFAULT_EPOCHS, SettingOrigin::Default);
        }
        for key in KEYS.iter().filter(|key| !self.entries.contains_key(&key.path)) {
            let holds = |case: &&DefaultCase| case.conditions.iter().all(|when| job.holds(when));
            if let Some(case) = key.cases.iter().find(holds) {
                let conditions = case.describe(str::to_owned);
                job.fill(&key.path, case.value, SettingOrigin::DefaultFor { conditions });
            } else if let Some(default) = key.default {
                job.fill(&key.path, default, SettingOrigin::Default);
            }
        }
        if !job.entries.contains_key("name") {
            let value = JobValue::Text(job.default_name());
            job.entries.insert("name".into(), JobEntry { value, origin: SettingOrigin::Default });
        }
        for (path, entry) in &mut job.entries {
            if KEYS.iter().any(|key| key.path == *path && matches!(key.kind, ValueKind::Path)) {
                make_absolute(entry);
            }
        }
        job
    }

    /// Sets a key to a default of the schema.
    fn fill(&mut self, path: &str, default: &str, origin: SettingOrigin) {
        match DeValue::parse(default) {
            Ok(value) => self.put(path, value.get_ref(), &origin),
            Err(error) => unreachable!("{path}: the default {default} is not TOML: {error}"),
        }
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
        key.condition.as_ref().is_none_or(|condition| self.holds(condition))
    }

    fn holds(&self, KeyCondition { key, values }: &KeyCondition) -> bool {
        match self.entries.get(key).map(|entry| &entry.value) {
            Some(JobValue::Text(word)) if !values.is_empty() => values.contains(&word.as_str()),
            value => value.is_some() && values.is_empty(),
        }
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
