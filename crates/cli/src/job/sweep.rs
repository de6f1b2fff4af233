//! The sections of a job file that a single run has no use for: `[sweep]`, which says which
//! runs to make, `[[reference]]`, which says what others have measured, and `[[finding]]`, which
//! says what they concluded (`finding.rs`).
//!
//! Values are kept as the TOML they were written in. They are checked where every value is:
//! when a cell's job is made of them (`cells.rs`), with the place they stand at.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::problem::{Origin, Problem};
use super::value::{Value, described};

/// The sections' names.
pub(super) const SECTIONS: [&str; 3] = ["sweep", "reference", "finding"];

/// A key and the TOML of a value for it.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// A key and the values that it takes in turn.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) key: String,
    pub(super) values: Vec<String>,
    pub(super) origin: Origin,
}

/// `[sweep]`: the matrix of its lists is run.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    /// Where the section begins.
    pub(super) origin: Origin,
    /// How often every cell is run, each time with the next seed.
    pub(super) repeats: u64,
    /// The seeds of the repeats, if they do not count up from the job's own.
    pub(super) seeds: Vec<u64>,
    pub(super) axes: Vec<Axis>,
    /// Settings that belong together; each case is one more value of the matrix.
    pub(super) cases: Vec<Vec<Setting>>,
    /// What `--quick` sets in every cell.
    pub(super) quick: Vec<Setting>,
}

/// `[[reference]]`: what others measured where a cell has these settings.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) origin: Origin,
    pub(super) when: Vec<Setting>,
    /// Names as in `summary.json`, with their values.
    pub(super) figures: Vec<(String, f64)>,
    /// Whose figures they are.
    pub(super) from: String,
}

/// Reads the two sections of a job file.
pub(super) struct Reader<'a> {
    /// The file's text, of which values are slices.
    pub(super) text: &'a str,
    /// The place of a byte of the file.
    pub(super) origin: &'a dyn Fn(usize) -> Origin,
    /// What was wrong.
    pub(super) problems: Vec<Problem>,
}

/// One `key = value` of a table, in the order of the file.
pub(super) struct Line<'a, 'i> {
    pub(super) name: &'a str,
    pub(super) value: &'a DeValue<'i>,
    pub(super) span: Range<usize>,
    pub(super) at: usize,
}

pub(super) fn lines<'a, 'i>(table: &'a DeTable<'i>) -> Vec<Line<'a, 'i>> {
    let mut lines: Vec<_> = table
        .iter()
        .map(|(key, value)| Line {
            name: key.get_ref().as_ref(),
            value: value.get_ref(),
            span: value.span(),
            at: key.span().start,
        })
        .collect();
    lines.sort_by_key(|line| line.at);
    lines
}

impl Reader<'_> {
    pub(super) fn sweep(&mut self, table: &DeTable<'_>) -> Option<Sweep> {
        let (key, value) = table.iter().find(|(key, _)| key.get_ref() == SECTIONS[0])?;
        let at = key.span().start;
        let DeValue::Table(section) = value.get_ref() else {
            self.complain(at, "sweep is a section of keys, each with a list of values");
            return None;
        };
        let origin = (self.origin)(at);
        let mut sweep = Sweep {
            origin,
            repeats: 1,
            seeds: Vec::new(),
            axes: Vec::new(),
            cases: Vec::new(),
            quick: Vec::new(),
        };
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
                    let values = values.iter().map(|value| self.slice(value.span())).collect();
                    let origin = (self.origin)(line.at);
                    sweep.axes.push(Axis { key: name.to_owned(), values, origin });
                }
                (name, other) => self.complain(line.at, &not_an_axis(name, other)),
            }
        }
        if !sweep.seeds.is_empty() && sweep.repeats > 1 {
            self.complain(at, "sweep has both repeats and seeds; leave out one");
        }
        Some(sweep)
    }

    pub(super) fn references(&mut self, table: &DeTable<'_>) -> Vec<Reference> {
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

    fn reference(&mut self, at: usize, table: &DeTable<'_>) -> Reference {
        let at = lines(table).first().map_or(at, |line| line.at);
        let origin = (self.origin)(at);
        let mut reference =
            Reference { origin, when: Vec::new(), figures: Vec::new(), from: String::new() };
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

    /// The lines of a table of settings, whose keys are whole.
    pub(super) fn settings(&mut self, section: &str, table: &DeTable<'_>) -> Vec<Setting> {
        let mut settings = Vec::new();
        for line in lines(table) {
            if line.value.is_table() && !line.name.contains('.') {
                self.complain(line.at, &format!("{section}.{} {QUOTE}", line.name));
                continue;
            }
            settings.push(Setting {
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
        DeValue::Array(_) => format!("sweep.{name} is an empty list"),
        other => {
            let found = described(other.type_str());
            format!("sweep.{name} must be a list of values, not {found}")
        }
    }
}

fn count(value: &DeValue<'_>) -> Option<u64> {
    match Value::from_toml(value) {
        Ok(Value::Whole(whole)) => u64::try_from(whole).ok(),
        _ => None,
    }
}

pub(super) fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match Value::from_toml(value) {
        Ok(Value::Whole(whole)) => whole as f64,
        Ok(Value::Number(number)) => number,
        _ => return None,
    };
    (number.is_finite() && number > 0.0).then_some(number)
}
