//! Learns a featuriser from the training rows: scales, vocabularies and classes.

use std::path::Path;

use paceline_data::{DataError, OnBad};

use crate::column::{
    CategoryCodes, CodeChoice, Column, ColumnChoice, ColumnRole, NumberScale, ScaleChoice,
};
use crate::column_error::refused;
use crate::encoder::signed_log;
use crate::field_fault::FieldFault;
use crate::hash::hash_bytes;
use crate::infer::PlannedColumn;
use crate::label::{MOST_CLASSES, sorted_classes};
use crate::list_field::for_each_list_value;
use crate::missing::{is_missing, trim};
use crate::number;
use crate::records::{RecordFields, Records};
use crate::stats::{ColumnStats, MOST_COUNTED};
use crate::table_text::{BlockWork, TableEvent, TableText, long_line};
use crate::text_format::TextFormat;

/// Learns from rows how columns become numbers.
pub(crate) struct Fit<'a> {
    format: TextFormat,
    columns: &'a [PlannedColumn],
    names: Vec<String>,
    stats: Vec<ColumnStats>,
    /// Values of each column that are not missing.
    present: Vec<u64>,
    on_bad: OnBad,
}

impl<'a> Fit<'a> {
    pub(crate) fn new(format: TextFormat, columns: &'a [PlannedColumn], on_bad: OnBad) -> Self {
        let stats = columns.iter().map(|column| needed_stats(&column.choice)).collect();
        let names = columns.iter().map(|column| column.name.clone()).collect();
        Self { format, columns, names, stats, present: vec![0; columns.len()], on_bad }
    }

    /// Whether the rows must be read.
    pub(crate) fn needs_rows(&self) -> bool {
        self.stats.iter().any(|stats| !matches!(stats, ColumnStats::None))
    }

    /// Learns from the rows of a file, which must have the columns of the first one.
    pub(crate) fn read(&mut self, path: &Path, table: TableText<'_>) -> Result<(), DataError> {
        if table.names() != self.names {
            let (here, first) = (table.names(), &self.names);
            let place = (0..first.len()).find(|&at| here.get(at) != first.get(at));
            let differs = match place.map(|at| (at + 1, here.get(at), &first[at])) {
                Some((number, Some(here), first)) => {
                    format!("column {number} is {here:?}, not {first:?}")
                }
                Some((number, None, first)) => format!("column {number}, {first:?}, is missing"),
                None => format!("it has {} columns, not {}", here.len(), first.len()),
            };
            let what = format!(
                "its columns are not those of the first file: {differs}; give all files equal \
                 columns"
            );
            return Err(DataError::Sparse { path: path.into(), what });
        }
        let (format, on_bad) = (self.format, self.on_bad);
        let stats: Vec<ColumnStats> = self.stats.iter().map(ColumnStats::like).collect();
        let columns = self.columns.iter().zip(&stats).enumerate();
        let columns = columns
            .filter_map(|(index, (column, stats))| FitColumn::new(index, &column.choice, stats));
        let columns = columns.collect();
        let work = FitWork { format, names: &self.names, stats, columns, on_bad };
        let errors = table.row_errors();
        let (totals, present) = (&mut self.stats, &mut self.present);
        table.parse_all(&work, &mut |event| {
            let block = match event {
                TableEvent::Parsed(block) => block,
                TableEvent::LongLine(_) if on_bad == OnBad::Skip => return Ok(()),
                TableEvent::LongLine(line) => return Err(errors.at(line, long_line())),
            };
            if let Some((at, what)) = block.part.fault.take() {
                return Err(errors.within(block.first_line, &block.text[..at], what));
            }
            for (total, next) in totals.iter_mut().zip(&mut block.part.stats) {
                total.merge(next);
            }
            for (total, next) in present.iter_mut().zip(&mut block.part.present) {
                *total += std::mem::take(next);
            }
            Ok(())
        })
    }

    /// The columns with what was learnt. `most_words` limits every vocabulary.
    pub(crate) fn finish(mut self, most_words: usize) -> Result<Vec<Column>, DataError> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (place, planned) in self.columns.iter().enumerate() {
            let stats = &mut self.stats[place];
            let was_read = !matches!(stats, ColumnStats::None);
            if was_read && self.present[place] == 0 {
                return Err(refused(format!(
                    "the column {:?} has no value in any row; declare it \"ignore\"",
                    planned.name
                )));
            }
            if self.on_bad == OnBad::Fail {
                check_utf8(&planned.name, stats)?;
            }
            let role = learnt_role(planned, stats, most_words)?;
            columns.push(Column { name: planned.name.clone(), role });
        }
        Ok(columns)
    }
}

/// Refuses words that the description of a model cannot hold: they would all be one.
fn check_utf8(name: &str, stats: &ColumnStats) -> Result<(), DataError> {
    let ColumnStats::Counts(counts) = stats else { return Ok(()) };
    match counts.iter().find(|(value, _)| std::str::from_utf8(value).is_err()) {
        None => Ok(()),
        Some((value, _)) => Err(refused(format!(
            "the column {name:?} has values that are not UTF-8, such as {:?}; convert the file \
             first, for example with iconv -f WINDOWS-1252 -t UTF-8, or set data.on_bad = \
             \"skip\" to take all of them for one value",
            String::from_utf8_lossy(&value)
        ))),
    }
}

/// What must be known of a column.
fn needed_stats(choice: &ColumnChoice) -> ColumnStats {
    match choice {
        ColumnChoice::Number(ScaleChoice::Standard | ScaleChoice::Log) => ColumnStats::moments(),
        ColumnChoice::Number(ScaleChoice::Buckets(_)) => ColumnStats::Values(Vec::new()),
        ColumnChoice::Category(CodeChoice { bits: None, .. })
        | ColumnChoice::List { codes: CodeChoice { bits: None, .. }, .. } => {
            ColumnStats::Counts(Default::default())
        }
        ColumnChoice::Label { classes } if classes.is_empty() => {
            ColumnStats::Counts(Default::default())
        }
        _ => ColumnStats::None,
    }
}

/// How a column is used, with what was learnt.
fn learnt_role(
    planned: &PlannedColumn,
    stats: &mut ColumnStats,
    most_words: usize,
) -> Result<ColumnRole, DataError> {
    let name = &planned.name;
    Ok(match &planned.choice {
        ColumnChoice::Label { classes } if !classes.is_empty() => {
            ColumnRole::Label { classes: classes.clone() }
        }
        ColumnChoice::Label { .. } => ColumnRole::Label { classes: learnt_classes(name, stats)? },
        ColumnChoice::Number(scale) => ColumnRole::Number(learnt_scale(*scale, stats)),
        ColumnChoice::Category(codes) => {
            ColumnRole::Category(learnt_codes(name, *codes, stats, most_words)?)
        }
        ColumnChoice::List { separator, codes } => ColumnRole::List {
            separator: *separator,
            codes: learnt_codes(name, *codes, stats, most_words)?,
        },
        ColumnChoice::Text { bits, ngrams } => {
            ColumnRole::Text { bits: bits.unwrap_or(1), ngrams: *ngrams }
        }
        ColumnChoice::Weight => ColumnRole::Weight,
        ColumnChoice::Id => ColumnRole::Id,
        ColumnChoice::Ignore => ColumnRole::Ignore,
    })
}

fn learnt_scale(choice: ScaleChoice, stats: &mut ColumnStats) -> NumberScale {
    let (mean, deviation) = match stats {
        ColumnStats::Moments { total, .. } => total.scale(),
        _ => (0.0, 1.0),
    };
    match choice {
        ScaleChoice::Raw => NumberScale::Raw,
        ScaleChoice::Standard => NumberScale::Standard { mean, deviation },
        ScaleChoice::Log => NumberScale::Log { mean, deviation },
        ScaleChoice::Buckets(count) => {
            NumberScale::Buckets { bounds: stats.bounds(count as usize) }
        }
    }
}

/// The most frequent values, in alphabetical order.
fn learnt_codes(
    name: &str,
    choice: CodeChoice,
    stats: &mut ColumnStats,
    most_words: usize,
) -> Result<CategoryCodes, DataError> {
    if let Some(bits) = choice.bits {
        return Ok(CategoryCodes::Hashed { bits });
    }
    let ColumnStats::Counts(counts) = stats else {
        return Ok(CategoryCodes::Vocabulary { words: Vec::new() });
    };
    if counts.len() > MOST_COUNTED {
        return Err(refused(format!(
            "the column {name:?} has more than {MOST_COUNTED} different values, too many for a \
             vocabulary; hash it: data.columns.{name:?} = {{ as = \"category\", bits = 20 }}"
        )));
    }
    let least = choice.min_count.unwrap_or(1);
    let frequent = counts.iter().filter(|(_, count)| *count >= least);
    let text = |value: &[u8]| std::str::from_utf8(value).ok().map(str::to_owned);
    let frequent = frequent.filter_map(|(value, count)| Some((count, text(&value)?)));
    let mut words: Vec<(u64, String)> = frequent.collect();
    words.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    words.truncate(most_words);
    let mut words: Vec<String> = words.into_iter().map(|(_, word)| word).collect();
    words.sort();
    Ok(CategoryCodes::Vocabulary { words })
}

/// From this number on, different labels are classes only if most of them occur more than once.
const MOST_FEW_CLASSES: usize = 21;

fn learnt_classes(name: &str, stats: &ColumnStats) -> Result<Vec<String>, DataError> {
    let ColumnStats::Counts(counts) = stats else { return Ok(Vec::new()) };
    let labels = counts.iter().map(|(label, _)| String::from_utf8_lossy(&label).into_owned());
    let classes = sorted_classes(labels);
    let rows: u64 = counts.iter().map(|(_, count)| count).sum();
    match classes.len() {
        0 => Err(refused(format!("the column {name:?} has no label in any row"))),
        1 => Err(refused(format!(
            "every label in the column {name:?} is {:?}; there must be at least two classes",
            classes[0]
        ))),
        count @ MOST_FEW_CLASSES..=MOST_CLASSES if rows < 2 * count as u64 => {
            Err(refused(format!(
                "the label {name:?} has {count} different values in {rows} rows, so its values are \
                 not classes; models for numbers are not supported, and another column becomes \
                 the label by data.columns.NAME = \"label\""
            )))
        }
        2..=MOST_CLASSES => Ok(classes),
        count => Err(refused(format!(
            "the label {name:?} has {count} different values, but there are at most \
             {MOST_CLASSES} classes; models for numbers are not supported"
        ))),
    }
}

/// Collects the statistics of blocks.
struct FitWork<'a> {
    format: TextFormat,
    names: &'a [String],
    /// Empty statistics.
    stats: Vec<ColumnStats>,
    /// The columns that are looked at, in order.
    columns: Vec<FitColumn>,
    on_bad: OnBad,
}

/// A column that is looked at.
struct FitColumn {
    index: usize,
    /// Whether a row without its value is bad.
    is_label: bool,
    values: FitValues,
}

/// What is learnt from a column's values.
enum FitValues {
    /// Nothing.
    Unused,
    Numbers,
    /// From the logarithms of numbers.
    Logs,
    /// From different values.
    Values,
    /// From the values of lists.
    Lists {
        separator: char,
    },
}

impl FitColumn {
    /// `None` if the column need not be looked at.
    fn new(index: usize, choice: &ColumnChoice, stats: &ColumnStats) -> Option<Self> {
        let is_label = matches!(choice, ColumnChoice::Label { .. });
        let values = match (stats, choice) {
            (ColumnStats::None, _) if !is_label => return None,
            (ColumnStats::None, _) => FitValues::Unused,
            (ColumnStats::Counts(_), ColumnChoice::List { separator, .. }) => {
                FitValues::Lists { separator: *separator }
            }
            (ColumnStats::Counts(_), _) => FitValues::Values,
            (_, ColumnChoice::Number(ScaleChoice::Log)) => FitValues::Logs,
            _ => FitValues::Numbers,
        };
        Some(Self { index, is_label, values })
    }
}

/// The statistics of a block.
#[derive(Default)]
struct FitPart {
    stats: Vec<ColumnStats>,
    present: Vec<u64>,
    /// The numbers of a row, one for each column that is looked at.
    numbers: Vec<Option<f32>>,
    /// The first bad row: where it begins, and what is wrong with it.
    fault: Option<(usize, String)>,
}

impl BlockWork for FitWork<'_> {
    type Part = FitPart;

    fn parse(&self, text: &[u8], part: &mut FitPart) {
        if part.stats.is_empty() {
            part.stats = self.stats.iter().map(ColumnStats::like).collect();
            part.present = vec![0; self.stats.len()];
        }
        // Draws differ from block to block, and are the same for equal files.
        let mut draw = hash_bytes(&text[..text.len().min(64)]);
        let (mut records, mut fields) = (Records::new(text, self.format), RecordFields::default());
        while records.next(&mut fields) {
            draw = draw.wrapping_add(1);
            match self.read_row(&fields, part) {
                Ok(()) => self.add_row(&fields, draw, part),
                Err(_) if self.on_bad == OnBad::Skip => {}
                Err(fault) => {
                    part.fault = Some((records.started(), fault.describe(&fields, self.names)));
                    return;
                }
            }
        }
    }
}

impl FitWork<'_> {
    /// Parses the numbers of a row, so that a bad row adds nothing.
    #[inline]
    fn read_row(&self, fields: &RecordFields<'_>, part: &mut FitPart) -> Result<(), FieldFault> {
        let (found, expected) = (fields.len(), self.names.len());
        if found != expected {
            return Err(FieldFault::Count { found, expected });
        }
        part.numbers.clear();
        for &FitColumn { index, is_label, ref values } in &self.columns {
            let field = trim(fields.get(index));
            let is_number = matches!(values, FitValues::Numbers | FitValues::Logs);
            part.numbers.push(if is_number && !is_missing(field) {
                let number = number::parse(field);
                Some(number.map_err(|fault| FieldFault::Number { index, fault })?)
            } else {
                None
            });
            if is_label && field.is_empty() {
                return Err(FieldFault::NoLabel);
            }
        }
        Ok(())
    }

    #[inline]
    fn add_row(&self, fields: &RecordFields<'_>, draw: u64, part: &mut FitPart) {
        for (column, number) in self.columns.iter().zip(&part.numbers) {
            let (stats, present) = (&mut part.stats[column.index], &mut part.present[column.index]);
            let field = || trim(fields.get(column.index));
            match (&column.values, *number) {
                (FitValues::Numbers, Some(number)) => {
                    stats.add_number(number, draw);
                    *present += 1;
                }
                (FitValues::Logs, Some(number)) => {
                    stats.add_number(signed_log(number), draw);
                    *present += 1;
                }
                (FitValues::Values, _) if !field().is_empty() => {
                    stats.add_value(field());
                    *present += 1;
                }
                (FitValues::Lists { separator }, _) => {
                    add_list(field(), *separator, stats, present);
                }
                _ => {}
            }
        }
    }
}

fn add_list(field: &[u8], separator: char, stats: &mut ColumnStats, present: &mut u64) {
    let mut bytes = [0; 4];
    let separator = separator.encode_utf8(&mut bytes).as_bytes();
    for_each_list_value(field, separator, |value| {
        stats.add_value(value);
        *present += 1;
    });
}
