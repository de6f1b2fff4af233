//! The raw form of a job: every key that was set, with its origin, before it is checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paceline_lab::Finding;
use paceline_record::names::LIBRARY_KEY;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, Problems, SettingOrigin};
use super::schema::KEYS;
use super::sweep_sections::{ReferenceSection, SECTIONS, SectionReader, SweepSection};
use super::value::{JobValue, described};

/// Job files are small; anything larger is a mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A value and where it came from.
#[derive(Clone, Debug)]
pub(super) struct JobEntry {
    pub(super) value: JobValue,
    pub(super) origin: SettingOrigin,
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
}

impl RawJob {
    /// The built-in job: no key is set.
    pub fn built_in() -> Self {
        Self::default()
    }

    /// Reads a job file.
    pub fn read(path: &Path) -> Result<Self, Problems> {
        let unreadable = |why: String| {
            let origin = SettingOrigin::File { path: path.to_owned(), line: None };
            let message = format!("cannot read the job file: {why}");
            Problems::from(Problem { origin, message })
        };
        let about = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        if !about.is_file() {
            return Err(unreadable("it is not a file".into()));
        }
        if about.len() > MAX_FILE_BYTES {
            return Err(unreadable(format!("it is larger than {MAX_FILE_BYTES} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
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
            fail(line, error.message().replace('\n', "; "))
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
        let mut reader = SectionReader { text, origin: &origin, problems: Vec::new() };
        job.sweep = reader.sweep(table.get_ref());
        job.references = reader.references(table.get_ref());
        job.findings = reader.findings(table.get_ref());
        job.problems.append(&mut reader.problems);
        Ok(job)
    }

    /// Applies one `key=value` of the command line: it replaces the key and all below it.
    ///
    /// The value is TOML. A value that does not parse as TOML is text, so that bare words need no
    /// quotes, unless it begins with a quote or bracket: then a typing error is more likely.
    pub fn set(&mut self, assignment: &str) {
        let origin = SettingOrigin::Set { text: assignment.to_owned() };
        let Some((path, text)) = assignment.split_once('=') else {
            let message = "is not of the form key=value".to_owned();
            self.problems.push(Problem { origin, message });
            return;
        };
        let (path, text) = (path.trim(), text.trim());
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

    fn insert(
        &mut self,
        path: &str,
        value: &DeValue<'_>,
        origin: &dyn Fn(usize) -> SettingOrigin,
        at: usize,
    ) {
        let known = KEYS.iter().any(|key| key.path == path);
        let below = format!("{path}.");
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
                return complain(format!("is a section of keys, not {found}"));
            }
            DeValue::Table(_) if !known => {
                return complain(format!("is not a section{}", suggestion(path, sections())));
            }
            _ if !known => {
                let keys = KEYS.iter().map(|key| key.path.as_str());
                return complain(format!("is not a key{}", suggestion(path, keys)));
            }
            _ => {}
        }
        match JobValue::from_toml(value) {
            Ok(value) => {
                let entry = JobEntry { value, origin: origin(at) };
                self.entries.insert(path.to_owned(), entry);
            }
            Err(message) => complain(message),
        }
    }

    /// The origin of a key's value.
    pub(super) fn origin(&self, path: &str) -> SettingOrigin {
        self.entries.get(path).map_or(SettingOrigin::Default, |entry| entry.origin.clone())
    }
}

/// Every section, and the sections that contain them.
fn sections() -> impl Iterator<Item = &'static str> {
    KEYS.iter().flat_map(|key| key.path.match_indices('.').map(|(at, _)| &key.path[..at]))
}

/// The known name most similar to a wrong one, as the end of a sentence.
fn suggestion(path: &str, known: impl Iterator<Item = &'static str>) -> String {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |name: &str| {
        // The right name in the wrong section is more likely than a typing error.
        let same_name = if last(name) == last(path) { 0.5 } else { 0.0 };
        strsim::normalized_damerau_levenshtein(name, path) + same_name
    };
    // Of equals the first, which is nearer to the top.
    let nearest = known
        .map(|name| (likeness(name), name))
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .filter(|(likeness, _)| *likeness > 0.5);
    match nearest {
        Some((_, name)) => format!("; did you mean {name}?"),
        None => "; docs/job.md lists all keys, `paceline explain` those in use".to_owned(),
    }
}
