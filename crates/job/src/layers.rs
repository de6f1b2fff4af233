//! The list `model.layers` in the raw form of a job: its keys are `model.layers.0.kind` and so on.

use std::collections::BTreeSet;

use toml::de::DeValue;

use super::key_spec::KeySpec;
use super::layer_path::{LAYERS, MOST_LAYERS, at_place, layer_of};
use super::problem::{Problem, SettingOrigin};
use super::raw::{JobEntry, RawJob};
use super::schema::KEYS;
use super::value::described;

/// A key that a run uses, and its value.
pub(super) struct UsedKey<'a> {
    pub(super) path: String,
    pub(super) key: &'static KeySpec,
    pub(super) entry: &'a JobEntry,
}

impl RawJob {
    /// Sets the keys of all layers from a list.
    pub(super) fn insert_layers(
        &mut self,
        value: &DeValue<'_>,
        origin: &dyn Fn(usize) -> SettingOrigin,
        at: usize,
    ) {
        let mut complain = |message: String| {
            let message = format!("{LAYERS} {message}");
            self.problems.push(Problem { origin: origin(at), message });
        };
        let layers = match value {
            DeValue::Array(layers) => layers,
            DeValue::Table(_) => {
                return complain(format!("is a list: write [[{LAYERS}]] before each layer"));
            }
            other => {
                let found = described(other.type_str());
                return complain(format!("is a list of layers, not {found}"));
            }
        };
        match layers.len() {
            0 => complain("is empty, but a network needs layers".into()),
            1..=MOST_LAYERS => {}
            count => {
                return complain(format!("has {count} layers; at most {MOST_LAYERS} are allowed"));
            }
        }
        for (index, layer) in layers.iter().enumerate() {
            let (path, at) = (format!("{LAYERS}.{index}"), layer.span().start);
            match layer.get_ref() {
                DeValue::Table(keys) if keys.is_empty() => {
                    let message = format!("{path} has no kind, such as kind = \"dense\"");
                    self.problems.push(Problem { origin: origin(at), message });
                }
                keys => self.insert(&path, keys, origin, at),
            }
        }
    }

    /// The layers that have keys, from 0.
    pub(super) fn layers(&self) -> BTreeSet<usize> {
        self.layer_entries().filter_map(|(path, _)| layer_of(path)).collect()
    }

    fn layer_entries(&self) -> impl Iterator<Item = (&String, &JobEntry)> {
        // A slash follows the dot, so all keys of layers lie between these two.
        let (first, end) = (format!("{LAYERS}."), format!("{LAYERS}/"));
        self.entries.range(first..end)
    }

    /// Whether this is the list of layers, and the job has some.
    pub(super) fn has_layers_at(&self, path: &str) -> bool {
        path == LAYERS && self.layer_entries().next().is_some()
    }

    /// The first setting of the list.
    pub(super) fn first_layer_entry(&self) -> Option<&JobEntry> {
        self.layer_entries().map(|(_, entry)| entry).find(|entry| entry.is_set())
    }

    /// The paths of a key in this job: its own, or one for each layer or column.
    pub(super) fn paths_of(&self, key: &KeySpec) -> Vec<String> {
        let places = self.places_of(key).into_iter();
        places.map(|place| at_place(&key.path, place.as_deref())).collect()
    }

    /// Where in this job a key may be: once, or in each layer or column.
    fn places_of(&self, key: &KeySpec) -> Vec<Option<String>> {
        if key.is_of_layers() {
            self.layers().into_iter().map(|layer| Some(layer.to_string())).collect()
        } else if key.is_of_columns() {
            self.columns().into_iter().map(|column| Some(column.to_owned())).collect()
        } else {
            vec![None]
        }
    }

    /// Every key that applies and has a value, in the order of the schema, layer by layer and
    /// column by column.
    pub(super) fn used_keys(&self) -> Vec<UsedKey<'_>> {
        let mut used = Vec::new();
        for section in KEYS.chunk_by(|a, b| a.section() == b.section()) {
            for place in self.places_of(&section[0]) {
                used.extend(section.iter().filter_map(|key| {
                    let path = at_place(&key.path, place.as_deref());
                    let entry = self.entries.get(&path).filter(|_| self.applies(key, &path))?;
                    Some(UsedKey { path, key, entry })
                }));
            }
        }
        used
    }

    /// The list of layers as a job file writes it, a line for each, with origins as comments.
    /// Defaults are left out.
    pub(super) fn explain_layers(&self) -> String {
        let used = self.used_keys();
        let mut text = String::from("layers = [\n");
        for layer in self.layers() {
            let keys = used.iter().filter(|used| layer_of(&used.path) == Some(layer));
            let keys: Vec<_> = keys.filter(|used| used.entry.is_set()).collect();
            let setting = format!("  {{ {} }},", settings_of(&keys));
            text.push_str(&format!("{setting:<32} # {}\n", origins_of(&keys)));
        }
        text.push_str("]\n");
        text
    }
}

/// The settings of a layer or a column as TOML writes them on one line.
pub(super) fn settings_of(keys: &[&UsedKey<'_>]) -> String {
    let settings = keys.iter().map(|used| format!("{} = {}", used.key.name(), used.entry.value));
    settings.collect::<Vec<_>>().join(", ")
}

/// The origins of these settings, each once.
pub(super) fn origins_of(keys: &[&UsedKey<'_>]) -> String {
    let mut origins: Vec<String> = Vec::new();
    for origin in keys.iter().map(|used| used.entry.origin.to_string()) {
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    origins.join(", ")
}
