//! Which keys a run uses. A key that the job sets and the run does not use is a problem.

use std::path::Path;

use super::condition::KeyCondition;
use super::data_hint::data_hint;
use super::key_spec::{KeySpec, ValueKind};
use super::layer_path::{LAYERS, layer_of, place_of};
use super::problem::{Problem, SettingOrigin};
use super::raw::{JobEntry, RawJob, TaskSource};
use super::schema::find_key;
use super::value::JobValue;

/// The keys that [`RawJob::check_for_test`] accepts on the command line, besides the sections
/// `data` and `model`.
const TEST_KEYS: [&str; 4] = ["name", "seed", "train.evaluate.examples", "train.threads"];

/// These methods are for jobs with every default filled in ([`RawJob::resolve`]).
impl RawJob {
    /// Whether all conditions of the key of this path hold.
    pub(super) fn applies(&self, key: &KeySpec, path: &str) -> bool {
        self.failed_condition(key, path).is_none()
    }

    fn failed_condition(&self, key: &KeySpec, path: &str) -> Option<KeyCondition> {
        let place = place_of(path);
        let conditions = key.conditions.iter().map(|condition| condition.at(place.as_deref()));
        conditions.into_iter().find(|condition| !self.holds(condition))
    }

    fn holds(&self, condition: &KeyCondition) -> bool {
        let is_set = |key: &str| self.entries.contains_key(key);
        match condition {
            KeyCondition::Has { key, values } => values.contains(&self.word(key).as_str()),
            KeyCondition::IsTrue(key) => {
                let value = self.entries.get(*key).map(|entry| &entry.value);
                !matches!(value, Some(JobValue::Flag(false)))
            }
            KeyCondition::AnySet(keys) => keys.iter().any(|key| is_set(key)),
            KeyCondition::NotSet(key) => !is_set(key),
            KeyCondition::NotInBothGroups(key) => {
                let group = |group| is_set(&format!("train.optimizer.{group}.{key}"));
                !(group("weights") && group("biases"))
            }
            KeyCondition::Any(any) => any.iter().any(|condition| self.holds(condition)),
            KeyCondition::WaitsForTasks => {
                self.word("cluster.on_worker_loss") == "wait" || self.waits_for_servers()
            }
        }
    }

    /// Whether the run waits for a lost server. By default it does if it waits for lost workers, or
    /// if it writes checkpoints with which the server can return.
    pub(super) fn waits_for_servers(&self) -> bool {
        let has_servers =
            ["async", "sync", "bounded"].contains(&self.word("cluster.mode").as_str());
        let takes_checkpoints = ["checkpoint.every_steps", "checkpoint.every_seconds"]
            .iter()
            .any(|key| self.entries.contains_key(*key));
        let waits = match self.word("cluster.on_server_loss").as_str() {
            "" => match self.word("cluster.on_worker_loss").as_str() {
                "wait" => true,
                "continue" => false,
                _ => takes_checkpoints,
            },
            asked => asked == "wait",
        };
        has_servers && waits
    }

    /// The keys that the job sets and the run does not use, each with what would make it apply.
    pub(super) fn unused(&self) -> Vec<(&str, Problem)> {
        let set = self.entries.iter().filter(|(_, entry)| entry.is_set());
        set.filter_map(|(path, entry)| {
            let failed = self.failed_condition(find_key(path)?, path)?;
            if self.has_invalid_word(&failed) {
                return None; // Checking reports that value; the key may apply to the right one.
            }
            // One message is enough for the layers of a model that is not a network.
            let is_list = matches!(&failed, KeyCondition::Has { key, .. } if key == "model.kind");
            let (path_named, entry) = match self.first_layer_entry().filter(|_| is_list) {
                Some(first) if layer_of(path).is_some() => (LAYERS, first),
                _ => (path.as_str(), entry),
            };
            let message = self.unused_message(path_named, entry, &failed);
            Some((path.as_str(), Problem { origin: entry.origin.clone(), message }))
        })
        .collect()
    }

    /// Numbers of tasks that the job sets and the environment contradicts: its tasks are used.
    pub(super) fn contradicted(&self) -> Vec<Problem> {
        let Some(tasks) = self.placed.filter(|tasks| tasks.lists_all) else { return Vec::new() };
        let counts = [("cluster.workers", Some(tasks.workers)), ("cluster.servers", tasks.servers)];
        let counts = counts.into_iter().filter_map(|(path, count)| Some((path, count?)));
        let differs = |(path, listed): &(&str, usize)| {
            let Some(entry) = self.entries.get(*path).filter(|entry| entry.is_set()) else {
                return false;
            };
            let is_used = find_key(path).is_some_and(|key| self.applies(key, path));
            is_used && entry.value != JobValue::Whole(*listed as i64)
        };
        let message = |path: &str, listed: usize| {
            let value = &self.entries[path].value;
            let source = match tasks.source {
                TaskSource::TfConfig => format!("TF_CONFIG lists {listed}"),
                TaskSource::Launcher(rule) => format!("{rule} starts {listed}"),
            };
            let message = format!("is {value}, but {source}; leave {path} out, or correct it");
            self.problem(path, message)
        };
        counts.filter(differs).map(|(path, count)| message(path, count)).collect()
    }

    /// The keys of the command line that a test of a finished model does not use.
    pub(super) fn unused_by_test(&self) -> Vec<Problem> {
        let is_used = |path: &str| {
            TEST_KEYS.contains(&path) || path.starts_with("data.") || path.starts_with("model.")
        };
        let from_command_line =
            |origin: &SettingOrigin| matches!(origin, SettingOrigin::Set { .. });
        let idle = self.entries.iter().filter(|(path, entry)| {
            entry.is_set() && from_command_line(&entry.origin) && !is_used(path)
        });
        let idle = idle.map(|(path, _)| self.problem(path, "is not used by a test; leave it out"));
        let unused = self.unused().into_iter().filter(|(path, _)| is_used(path));
        let unused = unused.map(|(_, problem)| problem);
        unused.filter(|problem| from_command_line(&problem.origin)).chain(idle).collect()
    }

    /// Whether the key that a condition is about has a word it does not accept.
    fn has_invalid_word(&self, condition: &KeyCondition) -> bool {
        let KeyCondition::Has { key: path, .. } = condition else { return false };
        let key = find_key(path);
        match (key.map(|key| key.kind), self.entries.get(path).map(|entry| &entry.value)) {
            (Some(ValueKind::Word(words)), Some(JobValue::Text(word))) => {
                !words.contains(&word.as_str())
            }
            // Checking reports a layer without a kind, and a column without a use.
            (_, found) => found.is_some() || place_of(path).is_some(),
        }
    }

    fn unused_message(&self, path: &str, entry: &JobEntry, failed: &KeyCondition) -> String {
        let remedy = match failed {
            KeyCondition::Has { key, .. } if key == "data.kind" && path == "data.path" => {
                self.kind_hint(entry).unwrap_or_else(|| "set data.kind too".to_owned())
            }
            KeyCondition::Has { key, values: [one] } => format!("set {key} = {one:?}"),
            KeyCondition::Has { key, .. } => format!("set {key} too"),
            KeyCondition::AnySet([key, ..]) => format!("set {key} too"),
            _ => String::new(),
        };
        let or = if remedy.is_empty() { "" } else { ", or " };
        let needed = failed.text();
        let found = self.found(failed);
        let section = self.replaced_section(entry, failed);
        format!("{path} applies only {needed}, but {found}; {remedy}{or}leave {path} out{section}")
    }

    /// What to do with the data at a path if the job does not say of which kind it is.
    fn kind_hint(&self, path: &JobEntry) -> Option<String> {
        let is_kind_set = self.entries.get("data.kind").is_some_and(JobEntry::is_set);
        match &path.value {
            JobValue::Text(path) if !is_kind_set => data_hint(Path::new(path)),
            _ => None,
        }
    }

    /// What the job has in place of a condition.
    fn found(&self, condition: &KeyCondition) -> String {
        let with_origin = |key: &str| match self.entries.get(key) {
            Some(entry) => format!("{key} is {} ({})", entry.value, entry.origin),
            None => format!("{key} is not set"),
        };
        match condition {
            KeyCondition::Has { key, .. } => with_origin(key),
            KeyCondition::IsTrue(key) | KeyCondition::NotSet(key) | KeyCondition::AnySet([key]) => {
                with_origin(key)
            }
            KeyCondition::AnySet(_) => "neither is set".into(),
            KeyCondition::NotInBothGroups(_) => "both are set".into(),
            KeyCondition::Any(any) => {
                any.iter().map(|one| self.found(one)).collect::<Vec<_>>().join(" and ")
            }
            KeyCondition::WaitsForTasks => "this run ends when it loses a task".into(),
        }
    }

    /// How to leave out a line of a file when it is the command line that makes it unused.
    fn replaced_section(&self, entry: &JobEntry, failed: &KeyCondition) -> String {
        let KeyCondition::Has { key, .. } = failed else { return String::new() };
        let from_file = matches!(entry.origin, SettingOrigin::File { .. });
        match (self.entries.get(key), key.rsplit_once('.')) {
            (
                Some(JobEntry { value, origin: SettingOrigin::Set { .. }, .. }),
                Some((section, name)),
            ) if from_file => {
                format!(": --set '{section}={{{name}={value}}}' replaces the whole section")
            }
            _ => String::new(),
        }
    }
}
