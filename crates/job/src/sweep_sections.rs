//! The sections of a job file that only sweeps use: `[sweep]`, the runs to make; `[[reference]]`,
//! published measurements; and `[[finding]]`, published conclusions (`finding.rs`).
//!
//! Values are kept as TOML text. Like every value, they are checked when a cell's job is created
//! (`cells.rs`), and problems name their line.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::problem::{Problem, SettingOrigin};
use super::value::{JobValue, described};

/// The sections' names.
pub(super) const SECTIONS: [&str; 3] = ["sweep", "reference", "finding"];

/// A key and the TOML of a value for it.
#[derive(Clone, Debug)]
pub(super) struct SweepSetting {
    pub(super) key: String,
    pub(super) text: String,
    pub(super) origin: SettingOrigin,
}

/// A key and its values, one for each cell.
#[derive(Clone, Debug)]
pub(super) struct SweepAxis {
    pub(super) key: String,
    pub(super) values: Vec<String>,
    pub(super) origin: SettingOrigin,
}

/// `[sweep]`: every combination of the values of its lists is run.
#[derive(Clone, Debug)]
pub(super) struct SweepSection {
    /// The first line of the section.
    pub(super) origin: SettingOrigin,
    /// Runs per cell, each with the next seed.
    pub(super) repeats: u64,
    /// The seeds of the repeats; if empty, they count up from the job's seed.
    pub(super) seeds: Vec<u64>,
    pub(super) axes: Vec<SweepAxis>,
    /// Settings that belong together; the cases are one more list of the matrix.
    pub(super) cases: Vec<Vec<SweepSetting>>,
    /// What `--quick` sets in every cell.
    pub(super) quick: Vec<SweepSetting>,
}

impl SweepSection {
    /// An empty section: one run of the job itself.
    pub(super) fn new(origin: SettingOrigin) -> Self {
        let (seeds, axes, cases, quick) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { origin, repeats: 1, seeds, axes, cases, quick }
    }
}

/// `[[reference]]`: a published measurement of a run with these settings.
#[derive(Clone, Debug)]
pub(super) struct ReferenceSection {
    pub(super) origin: SettingOrigin,
    pub(super) when: Vec<SweepSetting>,
    /// Names as in `summary.json`, with their values.
    pub(super) figures: Vec<(String, f64)>,
    /// The source of the figures.
    pub(super) from: String,
}

/// Reads the sections.
pub(super) struct SectionReader<'a> {
    /// The file's text; the values are slices of it.
    pub(super) text: &'a str,
    /// The origin that corresponds to a byte of the file.
    pub(super) origin: &'a dyn Fn(usize) -> SettingOrigin,
    pub(super) problems: Vec<Problem>,
}

/// One `key = value` of a table, in the order of the file.
pub(super) struct TableLine<'a, 'i> {
    pub(super) name: &'a str,
    pub(super) value: &'a DeValue<'i>,
    pub(super) span: Range<usize>,
    pub(super) at: usize,
}

pub(super) fn lines<'a, 'i>(table: &'a DeTable<'i>) -> Vec<TableLine<'a, 'i>> {
    let mut lines: Vec<_> = table
        .iter()
        .map(|(key, value)| TableLine {
            name: key.get_ref().as_ref(),
            value: value.get_ref(),
            span: value.span(),
            at: key.span().start,
        })
        .collect();
    lines.sort_by_key(|line| line.at);
    lines
}

impl SectionReader<'_> {
    pub(super) fn sweep(&mut self, table: &DeTable<'_>) -> Option<SweepSection> {
        let (key, value) = table.iter().find(|(key, _)| key.get_ref() == SECTIONS[0])?;
        let at = key.span().start;
        let DeValue::Table(section) = value.get_ref() else {
            self.complain(at, "sweep is a section of keys, each with a list of values");
            return None;
        };
        let origin = (self.origin)(at);
        let mut sweep = SweepSection::new(origin);
        for line in lines(section) {
            match (line.name, line.value) {
                ("repeats", value) => match count(value).filter(|n| (1..=1000).contains(n)) {
                    Some(repeats) => sweep.repeats = repeats,
                    None => self.complain(line.at, "sweep.repeats must be from 1 to 1000"),
                },
                ("seeds", DeValue::Array(seeds)) => {
                    sweep.seeds = seeds.iter().filter_map(|seed| count(seed.get_ref())).collect();
                    if sweep.seeds.len() != seeds.len() || seeds.is_empty() {
                        self.complain(line.at, "sweep.seeds must be a list of whole numbers");
                    }
                }
                ("case", DeValue::Array(cases)) => {
                    for case in cases.iter() {
                        match case.get_ref() {
                            DeValue::Table(case) => {
                                let settings = self.settings("sweep.case", case);
                                sweep.cases.push(settings);
                            }
                            _ => self.complain(line.at, "sweep.case must be tables of settings"),
                        }
                    }
                }
                ("quick", DeValue::Table(quick)) => {
                    sweep.quick = self.settings("sweep.quick", quick);
                }
                (name, DeValue::Array(values)) if !values.is_empty() => {
                    let values: Vec<_> =
                        values.iter().map(|value| self.slice(value.span())).collect();
                    if let Some(value) = first_repeated(&values) {
                        let message = format!(
                            "sweep.{name} has {value} twice; remove one, or set sweep.repeats to \
                             run every cell several times"
                        );
                        self.complain(line.at, &message);
                    }
                    let origin = (self.origin)(line.at);
                    sweep.axes.push(SweepAxis { key: name.to_owned(), values, origin });
                }
                (name, other) => self.complain(line.at, &not_an_axis(name, other)),
            }
        }
        if !sweep.seeds.is_empty() && sweep.repeats > 1 {
            self.complain(at, "sweep has both repeats and seeds; leave out one");
        }
        Some(sweep)
    }

    pub(super) fn references(&mut self, table: &DeTable<'_>) -> Vec<ReferenceSection> {
        let section = table.iter().find(|(key, _)| key.get_ref() == SECTIONS[1]);
        let Some((key, value)) = section else { return Vec::new() };
        let at = key.span().start;
        let DeValue::Array(tables) = value.get_ref() else {
            self.complain(at, "reference is a list of tables: write [[reference]]");
            return Vec::new();
        };
        let mut references = Vec::new();
        for table in tables.iter() {
            match table.get_ref() {
                DeValue::Table(entry) => references.push(self.reference(table.span().start, entry)),
                _ => self.complain(at, "reference is a list of tables: write [[reference]]"),
            }
        }
        references
    }

    fn reference(&mut self, at: usize, table: &DeTable<'_>) -> ReferenceSection {
        let at = lines(table).first().map_or(at, |line| line.at);
        let origin = (self.origin)(at);
        let mut reference =
            ReferenceSection { origin, when: Vec::new(), figures: Vec::new(), from: String::new() };
        for line in lines(table) {
            match (line.name, line.value) {
                ("when", DeValue::Table(when)) => {
                    reference.when = self.settings("reference.when", when);
                }
                ("from", DeValue::String(from)) => reference.from = from.to_string(),
                (name, value) if paceline_lab::is_figure(name) => match number(value) {
                    Some(figure) => reference.figures.push((name.to_owned(), figure)),
                    None => self
                        .complain(line.at, &format!("reference.{name} must be a number above 0")),
                },
                (name, _) => {
                    let figures = paceline_lab::figure_names().join(", ");
                    let message = format!(
                        "reference.{name} is not known; there are when, from, and the figures \
                         {figures}"
                    );
                    self.complain(line.at, &message);
                }
            }
        }
        if reference.figures.is_empty() {
            self.complain(at, "reference has no figure, such as seconds = 291.9");
        }
        reference
    }

    /// The lines of a table of settings, whose keys are full paths.
    pub(super) fn settings(&mut self, section: &str, table: &DeTable<'_>) -> Vec<SweepSetting> {
        let mut settings = Vec::new();
        for line in lines(table) {
            if line.value.is_table() && !line.name.contains('.') {
                self.complain(line.at, &format!("{section}.{} {QUOTE}", line.name));
                continue;
            }
            settings.push(SweepSetting {
                key: line.name.to_owned(),
                text: self.slice(line.span),
                origin: (self.origin)(line.at),
            });
        }
        settings
    }

    fn slice(&self, span: Range<usize>) -> String {
        self.text.get(span).unwrap_or_default().to_owned()
    }

    pub(super) fn complain(&mut self, at: usize, message: &str) {
        self.problems.push(Problem { origin: (self.origin)(at), message: message.to_owned() });
    }
}

const QUOTE: &str = "is not a key; write keys with dots in quotes, such as \"train.batch\"";

fn not_an_axis(name: &str, value: &DeValue<'_>) -> String {
    match value {
        DeValue::Table(_) => format!("sweep.{name} {QUOTE}"),
        DeValue::Array(_) => {
            format!("sweep.{name} is an empty list; give it values, or leave it out")
        }
        other => {
            let found = described(other.type_str());
            format!("sweep.{name} must be a list of values, not {found}")
        }
    }
}

/// The first value that an earlier one repeats.
fn first_repeated(values: &[String]) -> Option<&String> {
    values.iter().enumerate().find_map(|(at, value)| values[..at].contains(value).then_some(value))
}

fn count(value: &DeValue<'_>) -> Option<u64> {
    match JobValue::from_toml(value) {
        Ok(JobValue::Whole(whole)) => u64::try_from(whole).ok(),
        _ => None,
    }
}

pub(super) fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match JobValue::from_toml(value) {
        Ok(JobValue::Whole(whole)) => whole as f64,
        Ok(JobValue::Number(number)) => number,
        _ => return None,
    };
    (number.is_finite() && number > 0.0).then_some(number)
}
