//! The job with every default filled in. Runs, `paceline explain` and the job's digest use it.

use std::fmt;
use std::path::{Path, PathBuf};

use paceline_engine::JobIdentity;
use paceline_place::{Placement, RankedPlace, Role};
use sha2::{Digest, Sha256};
use toml::de::DeValue;

use super::column_path::split_column;
use super::key_spec::{DefaultCase, DefaultCondition, ValueKind, share_in_words};
use super::layer_path::{LAYERS, layer_of};
use super::layers::UsedKey;
use super::problem::SettingOrigin;
use super::raw::{JobEntry, PlacedTasks, RawJob, TaskSource};
use super::schema::{KEYS, find_key};
use super::value::JobValue;

/// A run's name is part of its directory's name, whose length is limited.
const MOST_NAME_BYTES: usize = 100;
/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";
/// How names of files end, packed or not, and the kind of data in them.
const ENDINGS: [(&str, &str); 11] = [
    (".csv", "\"table\""),
    (".tsv", "\"table\""),
    (".parquet", "\"table\""),
    (".svm", "\"libsvm\""),
    (".libsvm", "\"libsvm\""),
    (".ffm", "\"libffm\""),
    (".libffm", "\"libffm\""),
    (".npz", "\"numpy\""),
    (".npy", "\"numpy\""),
    (".tfrecord", "\"tfrecord\""),
    (".tfrecords", "\"tfrecord\""),
];
/// The stop condition of a job that sets none.
const DEFAULT_EPOCHS: &str = "6";

/// A file or directory that a job names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// The key that names it.
    pub key: String,
    /// Its path, which is absolute unless it is the address of an object store.
    pub path: PathBuf,
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.path.display())
    }
}

impl RawJob {
    /// The job as it will be run: every key that applies, with its origin as a comment.
    pub fn explain(&self) -> String {
        let resolved = self.resolve();
        let mut text = String::new();
        let mut section = "";
        let (mut has_layers, mut has_columns) = (false, false);
        for UsedKey { path, key, entry } in resolved.used_keys() {
            if layer_of(&path).is_some() {
                if !has_layers {
                    text.push_str(&resolved.explain_layers());
                    has_layers = true;
                }
                continue;
            }
            if split_column(&path).is_some() {
                if !has_columns {
                    text.push_str(&resolved.explain_columns());
                    has_columns = true;
                }
                continue;
            }
            if section != key.section() {
                section = key.section();
                text.push_str(&format!("\n[{section}]\n"));
            }
            let setting = format!("{} = {}", key.name(), entry.value);
            let origin = match &entry.saved_default {
                Some(comment) => comment.clone(),
                None => entry.origin.to_string(),
            };
            text.push_str(&format!("{setting:<32} # {origin}\n"));
        }
        text
    }

    /// Identifies the job. It is equal for all tasks of a run, wherever their files are.
    pub fn digest(&self) -> [u8; 32] {
        self.run_identity(&[]).digest
    }

    /// How tasks recognise that they have the same job and agree on these terms too, each of the
    /// form `key = value`.
    pub fn run_identity(&self, terms: &[String]) -> JobIdentity {
        let lines = self.shared_keys().into_iter().chain(terms.iter().cloned());
        let keys: String = lines.map(|line| line + "\n").collect();
        JobIdentity { digest: Sha256::digest(&keys).into(), keys: keys.into() }
    }

    /// The keys that all tasks of a run must agree on, with their values: all but names, paths and
    /// addresses.
    pub fn shared_keys(&self) -> Vec<String> {
        let resolved = self.resolve();
        let is_shared = |used: &UsedKey<'_>| {
            let is_own = match used.key.kind {
                ValueKind::Path | ValueKind::Storage | ValueKind::Address => true,
                ValueKind::ShareOrPath => matches!(used.entry.value, JobValue::Text(_)),
                _ => used.key.path == "name",
            };
            !is_own
        };
        let shared = resolved.used_keys().into_iter().filter(is_shared);
        shared.map(|UsedKey { path, entry, .. }| format!("{path} = {}", entry.value)).collect()
    }

    /// The files and directories that the job names.
    pub fn file_keys(&self) -> Vec<FileKey> {
        let resolved = self.resolve();
        let file = |used: UsedKey<'_>| {
            let names_file = matches!(
                used.key.kind,
                ValueKind::Path | ValueKind::ShareOrPath | ValueKind::Storage
            );
            match &used.entry.value {
                JobValue::Text(text) if names_file => {
                    Some(FileKey { key: used.path.to_string(), path: text.into() })
                }
                _ => None,
            }
        };
        resolved.used_keys().into_iter().filter_map(file).collect()
    }

    /// Whether another job trains the same in the same way: all keys but the name are equal.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let keys = |job: Self| -> Vec<String> {
            let resolved = job.resolve();
            let used = resolved.used_keys().into_iter().filter(|used| used.key.path != "name");
            used.map(|UsedKey { path, entry, .. }| format!("{path} = {}", entry.value)).collect()
        };
        keys(self.clone()) == keys(Self { placed: self.placed, ..other.clone() })
    }

    /// The job at a place that the environment gives this process. Defaults depend on it.
    pub fn placed_in(&self, placement: &Placement) -> Self {
        let placed = match placement {
            Placement::Local => None,
            Placement::Listed(cluster) => Some(PlacedTasks {
                source: TaskSource::TfConfig,
                workers: cluster.slots(),
                servers: Some(cluster.count(Role::Ps)),
                trains_here: cluster.slot().is_some(),
                lists_all: !cluster.has_sparse_map(),
            }),
            Placement::Ranked(place) => Some(self.tasks_at(place)),
        };
        Self { placed, ..self.clone() }
    }

    /// The tasks of a launcher's processes: all are workers, unless servers have ranks of their
    /// own.
    fn tasks_at(&self, place: &RankedPlace) -> PlacedTasks {
        let servers = match self.entries.get("cluster.servers").map(|entry| &entry.value) {
            _ if self.word("cluster.layout") != "dedicated" => 0,
            Some(JobValue::Whole(servers)) => usize::try_from(*servers).unwrap_or(0),
            _ => 1,
        };
        let has_servers = self.word("cluster.mode") != "mirrored";
        let apart = place.servers.unwrap_or(if has_servers { servers } else { 0 });
        PlacedTasks {
            source: TaskSource::Launcher(place.rule),
            workers: place.size.saturating_sub(apart).max(1),
            servers: place.servers,
            trains_here: true,
            lists_all: true,
        }
    }

    /// The job with every default filled in.
    pub(super) fn resolve(&self) -> RawJob {
        let mut job = self.clone();
        job.choose_mode();
        job.recognise_files();
        job.count_tasks();
        if !job.entries.keys().any(|key| key.starts_with("train.stop.")) {
            job.default_to("train.stop.epochs", DEFAULT_EPOCHS, "no stop condition is set");
        }
        let stops_by_test = ["train.stop.test_loss", "train.stop.patience"];
        if !stops_by_test.iter().any(|key| job.entries.contains_key(*key)) {
            let why = "at most 5 % of the processor time";
            job.default_to("train.evaluate.every", "\"auto\"", why);
        }
        for key in KEYS.iter() {
            for path in job.paths_of(key) {
                if job.entries.contains_key(&path) {
                    continue;
                }
                let holds = |case: &&DefaultCase| {
                    case.conditions.iter().all(|when| job.default_holds(when))
                };
                if let Some(case) = key.cases.iter().find(holds) {
                    let why = job.reason(case);
                    job.default_to(&path, case.value, why);
                } else if let Some(default) = key.default {
                    job.fill(&path, default, SettingOrigin::Default);
                }
            }
        }
        if !job.entries.contains_key("name") {
            let origin = SettingOrigin::Derived { why: job.source_of_name().into() };
            let value = JobValue::Text(job.default_name());
            job.entries.insert("name".into(), JobEntry::new(value, origin));
        }
        for (path, entry) in &mut job.entries {
            use ValueKind::{Path, ShareOrPath, Storage};
            let names_file = |kind| matches!(kind, Path | ShareOrPath | Storage);
            let kind = find_key(path).map(|key| key.kind).filter(|kind| names_file(*kind));
            // Checking refuses a share in words. Absolute, it would become a path.
            let is_share = matches!((&kind, &entry.value), (Some(ShareOrPath), JobValue::Text(text))
                if share_in_words(text).is_some());
            if kind.is_some() && !is_share {
                make_absolute(entry);
            }
        }
        job
    }

    /// Sets a key that is not set to a default, with the reason for it.
    fn default_to(&mut self, path: &str, value: &str, why: impl Into<String>) {
        if !self.entries.contains_key(path) {
            self.fill(path, value, SettingOrigin::Derived { why: why.into() });
        }
    }

    /// Sets a key to a default of the schema.
    fn fill(&mut self, path: &str, default: &str, origin: SettingOrigin) {
        match DeValue::parse(default) {
            Ok(value) => self.put(path, value.get_ref(), &origin),
            Err(error) => unreachable!("{path}: the default {default} is not TOML: {error}"),
        }
    }

    /// Why a default applies: the keys it depends on, with the values they have.
    fn reason(&self, case: &DefaultCase) -> String {
        let reasons = case.conditions.iter().map(|DefaultCondition { key, values }| {
            let value = if values.is_empty() { String::from("set") } else { self.word(key) };
            format!("{key} is {value}")
        });
        reasons.collect::<Vec<_>>().join(" and ")
    }

    /// Whether a default's condition holds.
    fn default_holds(&self, DefaultCondition { key, values }: &DefaultCondition) -> bool {
        match self.entries.get(key).map(|entry| &entry.value) {
            Some(JobValue::Text(word)) if !values.is_empty() => values.contains(&word.as_str()),
            value => values.is_empty() && (value.is_some() || self.has_layers_at(key)),
        }
    }

    /// Chooses the kind of data by how the file's name ends, unless the job says otherwise.
    fn recognise_files(&mut self) {
        let path = self.word("data.path").to_lowercase();
        let plain = path.strip_suffix(".gz").unwrap_or(&path);
        if let Some((ending, kind)) = ENDINGS.iter().find(|(ending, _)| plain.ends_with(ending)) {
            self.default_to("data.kind", kind, format!("data.path ends in {ending}"));
        }
    }

    /// Fills in how workers share. The built-in job's text says so, unless a setting makes it
    /// another job or the environment places its tasks.
    fn choose_mode(&mut self) {
        let keys = ["model.kind", LAYERS, "data.kind", "data.path", "cluster.mode"];
        let changed = keys.into_iter().find(|key| {
            let layer = self.first_layer_entry().filter(|_| *key == LAYERS);
            let entry = self.entries.get(*key).or(layer);
            matches!(entry.map(|entry| &entry.origin), Some(SettingOrigin::Set { .. }))
        });
        let was_built_in =
            self.entries.values().any(|entry| entry.origin == SettingOrigin::BuiltIn);
        if changed.is_some() || self.placed.is_some() {
            self.entries.retain(|_, entry| entry.origin != SettingOrigin::BuiltIn);
        }
        let (mode, why) = match (self.placed, changed.filter(|_| was_built_in)) {
            (Some(tasks), _) => tasks.default_mode(self.entries.contains_key("cluster.servers")),
            (None, Some(key)) => {
                ("\"single\"", format!("--set {key} replaces the built-in job's [cluster]"))
            }
            (None, None) => ("\"single\"", "no cluster.mode, no TF_CONFIG".to_owned()),
        };
        self.default_to("cluster.mode", mode, why);
    }

    /// Fills in the numbers of tasks that a launcher starts.
    fn count_tasks(&mut self) {
        let Some(tasks) = self.placed else { return };
        let TaskSource::Launcher(rule) = tasks.source else { return };
        let why = format!("{rule} starts the processes");
        self.default_to("cluster.workers", &tasks.workers.to_string(), why.clone());
        if let Some(servers) = tasks.servers {
            self.default_to("cluster.servers", &servers.to_string(), why.clone());
            self.default_to("cluster.layout", "\"dedicated\"", why);
        }
    }

    /// Whether the job leaves the model to a default.
    pub fn leaves_model_open(&self) -> bool {
        let is_set = self.entries.get("model.kind").is_some_and(JobEntry::is_set);
        !is_set && self.first_layer_entry().is_none()
    }

    /// Makes softmax regression the default, for a table whose label has more than two classes.
    pub fn default_to_softmax(&mut self, label: &str, classes: usize) {
        let why = format!("the label {label:?} has {classes} classes");
        self.fill("model.kind", "\"softmax\"", SettingOrigin::Derived { why });
    }

    /// Whether the data comes from standard input.
    pub fn reads_standard_input(&self) -> bool {
        self.word("data.path") == STANDARD_INPUT
    }

    /// The text value of a key; empty if it has none.
    pub(super) fn word(&self, key: &str) -> String {
        match self.entries.get(key).map(|entry| &entry.value) {
            Some(JobValue::Text(word)) => word.clone(),
            _ => String::new(),
        }
    }

    fn source_of_name(&self) -> &'static str {
        if self.file.is_some() { "the job file's name" } else { "the data and the model" }
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
}

impl PlacedTasks {
    /// The mode of a job that does not set it, and why. `wants_servers` says that the job sets
    /// their number.
    fn default_mode(self, wants_servers: bool) -> (&'static str, String) {
        let Self { source, workers, servers, trains_here, .. } = self;
        let servers = servers.unwrap_or(usize::from(wants_servers));
        let mode = match (servers, workers) {
            (1.., _) => "\"async\"",
            (0, ..=1) if trains_here => "\"single\"",
            _ => "\"mirrored\"",
        };
        let why = match source {
            TaskSource::TfConfig => {
                format!("TF_CONFIG lists {workers} worker{} and {servers} ps", plural(workers))
            }
            TaskSource::Launcher(rule) => {
                format!("{rule} starts {workers} worker{}", plural(workers))
            }
        };
        (mode, why)
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Makes a path absolute. It is relative to its job file, but the resolved job may be read from
/// another directory.
fn make_absolute(entry: &mut JobEntry) {
    let JobValue::Text(text) = &entry.value else { return };
    if !is_path(text) {
        return; // Checking refuses it. Joined, it would become a path.
    }
    let path = match &entry.origin {
        SettingOrigin::File { path: file, .. } => file.parent().unwrap_or(Path::new("")).join(text),
        _ => PathBuf::from(text),
    };
    if let Ok(absolute) = std::path::absolute(path) {
        entry.value = JobValue::Text(absolute.to_string_lossy().into_owned());
    }
}

/// A path as the file system knows it: no address, and no `~` that a shell has not replaced.
pub(super) fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.contains("://") && !text.starts_with("~/")
}

/// A directory, or a place in an object store.
pub(super) fn is_storage(text: &str) -> bool {
    match text.split_once("://") {
        None => is_path(text),
        Some((scheme, place)) => scheme == "s3" && !place.is_empty() && !place.starts_with('/'),
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
