//! The raw form of a job: every key that was set, with its origin, before it is checked.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use paceline_lab::Finding;
use paceline_place::PlacementRule;
use paceline_record::names::LIBRARY_KEY;
use toml::de::{DeTable, DeValue};

use super::cluster_keys::TLS;
use super::column_path::{split_column, with_quoted_column};
use super::job_text::{invalid_toml, path_hint};
use super::layer_path::{LAYERS, pattern_of};
use super::problem::{Problem, Problems, SettingOrigin};
use super::schema::{KEYS, find_key};
use super::suggestion::{key_suggestion, section_suggestion};
use super::sweep_sections::{ReferenceSection, SECTIONS, SectionReader, SweepSection};
use super::value::{JobValue, described};

/// Job files are small; anything larger is a mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The built-in job.
const BUILT_IN: &str = include_str!("built_in.toml");

/// A value and where it came from.
#[derive(Clone, Debug)]
pub(super) struct JobEntry {
    pub(super) value: JobValue,
    pub(super) origin: SettingOrigin,
    /// The comment of a line that `paceline explain` wrote and marked as a default.
    pub(super) saved_default: Option<String>,
}

impl JobEntry {
    pub(super) fn new(value: JobValue, origin: SettingOrigin) -> Self {
        Self { value, origin, saved_default: None }
    }

    /// Whether a user set the value: it is not a default, nor was it one when the job was saved.
    pub(super) fn is_set(&self) -> bool {
        let is_default = match self.origin {
            SettingOrigin::File { .. } | SettingOrigin::Set { .. } => self.saved_default.is_some(),
            SettingOrigin::Network { .. } => false,
            SettingOrigin::BuiltIn | SettingOrigin::Derived { .. } | SettingOrigin::Default => true,
        };
        !is_default
    }
}

/// Every key that a job file and `--set` name, flattened to dotted paths.
#[derive(Clone, Debug, Default)]
pub struct RawJob {
    /// The job file, if there is one.
    pub(super) file: Option<PathBuf>,
    pub(super) entries: BTreeMap<String, JobEntry>,
    /// Problems found while reading, reported together with those that checking finds.
    pub(super) problems: Vec<Problem>,
    /// The `[sweep]` section, if there is one.
    pub(super) sweep: Option<SweepSection>,
    /// Published measurements.
    pub(super) references: Vec<ReferenceSection>,
    /// Published conclusions.
    pub(super) findings: Vec<Finding>,
    /// The tasks that the environment lists, if it places this process.
    pub(super) placed: Option<PlacedTasks>,
    /// The settings of the command line that a later one replaces, each with that one.
    pub(super) replaced: Vec<[String; 2]>,
}

/// What places a job's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskSource {
    /// `TF_CONFIG` lists them.
    TfConfig,
    /// A launcher starts one process for each.
    Launcher(PlacementRule),
}

/// The numbers of tasks that the environment states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedTasks {
    pub(super) source: TaskSource,
    pub(super) workers: usize,
    /// The number of servers, unless the job decides it.
    pub(super) servers: Option<usize>,
    /// Whether this process trains.
    pub(super) trains_here: bool,
    /// Whether all tasks are listed.
    pub(super) lists_all: bool,
}

impl RawJob {
    /// The job of `paceline train` without a job file.
    ///
    /// # Panics
    /// Never: the text is part of the program, and a test reads it.
    pub fn built_in() -> Self {
        let table = DeTable::parse(BUILT_IN);
        let table = table.unwrap_or_else(|error| unreachable!("the built-in job: {error}"));
        let mut job = Self::default();
        job.flatten("", table.get_ref(), &|_| SettingOrigin::BuiltIn);
        job
    }

    /// Reads a job file.
    pub fn read(path: &Path) -> Result<Self, Problems> {
        let unreadable = |why: String| {
            let origin = SettingOrigin::File { path: path.to_owned(), line: None };
            let message = format!("cannot read the job file: {why}");
            Problems::from(Problem { origin, message })
        };
        let absent = |error: std::io::Error| {
            unreadable(path_hint(path).unwrap_or_else(|| error.to_string()))
        };
        let about = std::fs::metadata(path).map_err(absent)?;
        if !about.is_file() {
            let kind = if about.is_dir() { "a directory" } else { "a pipe or a device" };
            return Err(unreadable(format!("it is {kind}, not a file; name a TOML file")));
        }
        if about.len() > MAX_FILE_BYTES {
            return Err(unreadable(format!("it is larger than {MAX_FILE_BYTES} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => {
                unreadable("it is not text in UTF-8; a job is a TOML file".into())
            }
            _ => unreadable(error.to_string()),
        })?;
        Self::parse(&text, path)
    }

    /// Parses the text of a job file. Problems name `path` as the file.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Problems> {
        let fail = |line, message| {
            let origin = SettingOrigin::File { path: path.to_owned(), line };
            Problems::from(Problem { origin, message })
        };
        let line_of = |at: usize| 1 + text[..at.min(text.len())].matches('\n').count();
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map(|span| line_of(span.start));
            fail(line, invalid_toml(text, &error))
        })?;
        if table.get_ref().contains_key(LIBRARY_KEY) {
            let message = "a program trained this run with the library, and only that program has \
                           the model: test and resume the run there"
                .to_owned();
            return Err(fail(None, message));
        }
        let mut job = Self { file: Some(path.to_owned()), ..Self::default() };
        let origin = |at| SettingOrigin::File { path: path.to_owned(), line: Some(line_of(at)) };
        job.flatten("", table.get_ref(), &origin);
        job.find_saved_defaults(text);
        let mut reader = SectionReader { text, origin: &origin, problems: Vec::new() };
        job.sweep = reader.sweep(table.get_ref());
        job.references = reader.references(table.get_ref());
        job.findings = reader.findings(table.get_ref());
        job.problems.append(&mut reader.problems);
        Ok(job)
    }

    /// Finds the values that were defaults when the job was saved (`RawJob::explain`).
    fn find_saved_defaults(&mut self, text: &str) {
        let lines: Vec<_> = text.lines().collect();
        for entry in self.entries.values_mut() {
            if let SettingOrigin::File { line: Some(line), .. } = entry.origin {
                entry.saved_default = lines.get(line - 1).and_then(|line| saved_default(line));
            }
        }
    }

    /// Applies one `key=value` of the command line: it replaces the key and all below it.
    ///
    /// The value is TOML. A value that does not parse as TOML is text, so that bare words need no
    /// quotes, unless it begins with a quote or bracket: then a typing error is more likely.
    pub fn set(&mut self, assignment: &str) {
        let origin = SettingOrigin::Set { text: shortened(assignment) };
        let Some((path, text)) = assignment.split_once('=') else {
            let message = "is not of the form key=value".to_owned();
            self.problems.push(Problem { origin, message });
            return;
        };
        let (path, text) = (with_quoted_column(path.trim()), text.trim());
        let path = path.as_ref();
        self.note_replaced(path, &origin);
        let word = DeValue::String(text.into());
        let parsed = DeValue::parse(text);
        let value = match &parsed {
            Ok(value) => value.get_ref(),
            Err(error) if text.starts_with(['{', '[', '"', '\'']) => {
                self.remove(path);
                let why = error.message().replace('\n', "; ");
                let message = format!("{path} has a value that is not valid TOML: {why}");
                self.problems.push(Problem { origin, message });
                return;
            }
            Err(_) => &word,
        };
        self.put(path, value, &origin);
    }

    /// Notes which earlier settings of the command line a setting of this path replaces.
    fn note_replaced(&mut self, path: &str, by: &SettingOrigin) {
        let SettingOrigin::Set { text: by } = by else { return };
        let below = format!("{path}.");
        for (key, entry) in &self.entries {
            if let SettingOrigin::Set { text } = &entry.origin
                && (key == path || key.starts_with(&below))
                && text != by
                && self.replaced.iter().all(|[earlier, _]| earlier != text)
            {
                self.replaced.push([text.clone(), by.clone()]);
            }
        }
    }

    /// A sentence for each setting of the command line that a later one replaces.
    pub fn replaced_settings(&self) -> impl Iterator<Item = String> {
        let sentence = |[earlier, later]: &[String; 2]| {
            format!("--set {earlier} has no effect: --set {later} replaces it")
        };
        self.replaced.iter().map(sentence)
    }

    /// Sets a key, and removes its earlier value and all keys below it.
    pub(super) fn put(&mut self, path: &str, value: &DeValue<'_>, origin: &SettingOrigin) {
        self.remove(path);
        self.insert(path, value, &|_| origin.clone(), 0);
    }

    fn remove(&mut self, path: &str) {
        let below = format!("{path}.");
        self.entries.retain(|key, _| key != path && !key.starts_with(&below));
    }

    fn flatten(
        &mut self,
        prefix: &str,
        table: &DeTable<'_>,
        origin: &dyn Fn(usize) -> SettingOrigin,
    ) {
        for (key, value) in table {
            // A quoted dot is not a separator: "train.batch" is not train.batch.
            let bare = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            let name = key.get_ref();
            if prefix.is_empty() && SECTIONS.contains(&name.as_ref()) {
                continue;
            }
            let shown = if !name.is_empty() && name.chars().all(bare) {
                name.to_string()
            } else {
                format!("{name:?}")
            };
            let path = if prefix.is_empty() { shown } else { format!("{prefix}.{shown}") };
            self.insert(&path, value.get_ref(), origin, key.span().start);
        }
    }

    pub(super) fn insert(
        &mut self,
        path: &str,
        value: &DeValue<'_>,
        origin: &dyn Fn(usize) -> SettingOrigin,
        at: usize,
    ) {
        if path == LAYERS {
            return self.insert_layers(value, origin, at);
        }
        if split_column(path).is_some_and(|(_, key)| key.is_empty())
            && !matches!(value, DeValue::Table(_))
        {
            // `age = "number"` is short for `age = { as = "number" }`.
            return self.insert(&format!("{path}.as"), value, origin, at);
        }
        if path == TLS && !matches!(value, DeValue::Table(_)) {
            // `tls = "run"` is short for `tls = { from = "run" }`.
            return self.insert(&format!("{TLS}.from"), value, origin, at);
        }
        let key = find_key(path);
        let known = key.is_some();
        let below = format!("{}.", pattern_of(path));
        let section = KEYS.iter().any(|key| key.path.starts_with(&below));
        let shown = if path.is_empty() { "\"\"" } else { path };
        let mut complain = |message: String| {
            let message = format!("{shown} {message}");
            self.problems.push(Problem { origin: origin(at), message });
        };
        match value {
            DeValue::Table(table) if section => return self.flatten(path, table, origin),
            other if section => {
                let found = described(other.type_str());
                let remedy = member_for(path, other);
                return complain(format!("is a section of keys, not {found}{remedy}"));
            }
            DeValue::Table(_) if !known => {
                return complain(format!(
                    "is not a section{}",
                    section_suggestion(path, sections())
                ));
            }
            _ if !known => {
                return complain(format!("is not a key{}", key_suggestion(path)));
            }
            _ => {}
        }
        let converted = if key.is_some_and(|key| key.kind.takes_list()) {
            JobValue::from_toml_list(value)
        } else {
            JobValue::from_toml(value)
        };
        match converted {
            Ok(value) => {
                self.entries.insert(path.to_owned(), JobEntry::new(value, origin(at)));
            }
            Err(message) => complain(message),
        }
    }

    /// The origin of a key's value.
    pub(super) fn origin(&self, path: &str) -> SettingOrigin {
        self.entries.get(path).map_or(SettingOrigin::Default, |entry| entry.origin.clone())
    }
}

/// The text of a setting in errors and in `job.toml`, which repeats it for each layer of a list.
fn shortened(assignment: &str) -> String {
    let list = assignment.split_once('=').filter(|(path, _)| path.trim() == LAYERS);
    list.map_or_else(|| assignment.to_owned(), |(path, _)| format!("{}=[...]", path.trim()))
}

/// The comment at the end of a line, if it says that the value is a default.
fn saved_default(line: &str) -> Option<String> {
    let (_, comment) = line.rsplit_once(" # ")?;
    let is_default = comment == SettingOrigin::Default.to_string()
        || comment == SettingOrigin::BuiltIn.to_string()
        || comment.starts_with("default: ");
    is_default.then(|| comment.to_owned())
}

/// How to set the key of a section that a value was probably meant for, as the end of a sentence.
fn member_for(section: &str, value: &DeValue<'_>) -> String {
    let kind = format!("{section}.kind");
    let member = match (section, value) {
        // As `--set train.stop=epochs=3` is read.
        (_, DeValue::String(text)) if is_setting_in(section, text) => {
            return format!("; set {section}.{text}");
        }
        (_, DeValue::String(_)) if find_key(&kind).is_some() => kind,
        ("cluster", DeValue::String(_)) => "cluster.mode".to_owned(),
        ("data.columns", DeValue::String(name)) => {
            return format!("; set data.columns.{name}=label");
        }
        ("checkpoint", DeValue::Integer(_)) => "checkpoint.every_steps".to_owned(),
        ("checkpoint", DeValue::Boolean(true)) => {
            return "; set checkpoint.every_steps=1000".into();
        }
        ("observe.trace", DeValue::Boolean(true)) => {
            return "; set observe.trace={from=100, steps=10}".into();
        }
        ("train.stop", DeValue::Integer(_)) => "train.stop.epochs".to_owned(),
        _ => return String::new(),
    };
    match JobValue::from_toml(value) {
        Ok(JobValue::Text(word)) => format!("; set {member}={word}"),
        Ok(value) => format!("; set {member}={value}"),
        Err(_) => String::new(),
    }
}

/// Whether a text is `key=value` with a key of the section.
fn is_setting_in(section: &str, text: &str) -> bool {
    let key = text.split_once('=').map(|(key, _)| format!("{section}.{}", key.trim()));
    key.is_some_and(|key| find_key(&key).is_some())
}

/// Every section, and the sections that contain them.
fn sections() -> impl Iterator<Item = &'static str> {
    KEYS.iter().flat_map(|key| key.path.match_indices('.').map(|(at, _)| &key.path[..at]))
}
