//! Turns the fields of a row into keys and values, as a featuriser describes it.
//!
//! An encoder belongs to the header of one file: columns are found by name, so a file may have them
//! in another order, and may have more. Encoding allocates nothing once a row's memory has grown.

use std::collections::HashMap;
use std::sync::LazyLock;

use paceline_data::DataError;

use crate::column::{CategoryCodes, ColumnRole, NumberScale};
use crate::column_error::{missing_column, refused};
use crate::encoded_row::EncodedRow;
use crate::featurizer::Featurizer;
use crate::field_fault::FieldFault;
use crate::hash::{bucket, combine, hash_bytes};
use crate::label::LabelReader;
use crate::list_field::for_each_list_value;
use crate::missing::{is_missing, trim};
use crate::number;
use crate::records::{RecordFields, Records};
use crate::text_format::TextFormat;
use crate::word_table::WordTable;
use crate::words::for_each_ngram;

/// The hash of a missing value in a cross.
const MISSING_HASH: u64 = 0;
/// A column that is not crossed.
const NOT_CROSSED: usize = usize::MAX;

/// What becomes of a file's rows.
#[derive(Clone, Debug)]
pub struct RowEncoder {
    names: Vec<String>,
    /// What becomes of each field, in the order of the file.
    fields: Vec<FieldPlan>,
    crosses: Vec<CrossPlan>,
    /// The number of columns that are crossed.
    crossed: usize,
    needs_label: bool,
}

/// What is read of a row besides its features.
#[derive(Clone, Copy, Debug)]
struct RowParts {
    label: bool,
    weight: bool,
}

#[derive(Clone, Debug)]
struct FieldPlan {
    action: FieldAction,
    /// The column's place among the crossed ones.
    cross: usize,
}

/// What becomes of a field. `first` is the first feature of its column.
#[derive(Clone, Debug)]
enum FieldAction {
    Skip,
    Label(LabelReader),
    Weight,
    Number { first: u32, scale: NumberScale },
    Category { first: u32, codes: CodeTable },
    List { first: u32, separator: [u8; 4], separator_len: usize, codes: CodeTable },
    Text { first: u32, bits: u32, ngrams: u32 },
}

#[derive(Clone, Debug)]
enum CodeTable {
    Hashed {
        bits: u32,
    },
    /// Stored apart, so that the plans of all fields are close together.
    Words(Box<WordTable>),
}

#[derive(Clone, Debug)]
struct CrossPlan {
    first: u32,
    bits: u32,
    /// Places among the crossed columns.
    columns: Vec<usize>,
}

impl Featurizer {
    /// Encodes rows to train on, of a file with these columns.
    ///
    /// # Errors
    /// If a column that the featuriser uses is not there.
    pub fn encoder(&self, names: &[String]) -> Result<RowEncoder, DataError> {
        RowEncoder::new(self, names, RowParts { label: true, weight: true })
    }

    /// Encodes rows with labels but without weights.
    ///
    /// # Errors
    /// As [`encoder`](Self::encoder).
    pub fn encoder_without_weight(&self, names: &[String]) -> Result<RowEncoder, DataError> {
        RowEncoder::new(self, names, RowParts { label: true, weight: false })
    }

    /// Encodes rows without their labels and weights, which need not be there.
    ///
    /// # Errors
    /// As [`encoder`](Self::encoder).
    pub fn encoder_without_label(&self, names: &[String]) -> Result<RowEncoder, DataError> {
        RowEncoder::new(self, names, RowParts { label: false, weight: false })
    }
}

impl RowEncoder {
    fn new(featurizer: &Featurizer, names: &[String], parts: RowParts) -> Result<Self, DataError> {
        let firsts = featurizer.first_features();
        let mut crossed: Vec<&str> = Vec::new();
        for name in featurizer.crosses.iter().flat_map(|cross| &cross.columns) {
            if !crossed.contains(&name.as_str()) {
                crossed.push(name);
            }
        }
        let place = |name: &str| crossed.iter().position(|crossed| *crossed == name);
        let places = column_places(names);
        let skip = FieldPlan { action: FieldAction::Skip, cross: NOT_CROSSED };
        let mut fields = vec![skip; names.len()];
        for (column, &first) in featurizer.columns.iter().zip(&firsts) {
            let is_unused = match column.role {
                ColumnRole::Label { .. } => !parts.label,
                ColumnRole::Weight => !parts.weight,
                ColumnRole::Id | ColumnRole::Ignore => true,
                _ => false,
            };
            let cross = place(&column.name).unwrap_or(NOT_CROSSED);
            match places.get(&*column.name) {
                Some(ColumnPlace::Repeated) if !is_unused || cross != NOT_CROSSED => {
                    let what = format!("two columns are named {:?}; rename one", column.name);
                    return Err(refused(what));
                }
                Some(ColumnPlace::Repeated) => {}
                Some(&ColumnPlace::At(at)) => {
                    let action = if is_unused {
                        FieldAction::Skip
                    } else {
                        FieldAction::new(&column.role, first)
                    };
                    fields[at] = FieldPlan { action, cross };
                }
                None if is_unused && cross == NOT_CROSSED => {}
                None => return Err(missing_column(&column.name, names)),
            }
        }
        let cross_firsts = &firsts[featurizer.columns.len()..];
        let crosses = featurizer.crosses.iter().zip(cross_firsts).map(|(cross, &first)| {
            let columns = cross.columns.iter().filter_map(|name| place(name)).collect();
            CrossPlan { first, bits: cross.bits, columns }
        });
        let crosses = crosses.collect();
        let (names, crossed) = (names.to_vec(), crossed.len());
        Ok(Self { names, fields, crosses, crossed, needs_label: parts.label })
    }

    /// The names of the file's columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Encodes the fields of a row.
    ///
    /// # Errors
    /// What is wrong with the row, and in which field.
    #[inline]
    pub fn encode(
        &self,
        fields: &RecordFields<'_>,
        row: &mut EncodedRow,
    ) -> Result<(), FieldFault> {
        row.clear();
        if fields.len() != self.fields.len() {
            return Err(FieldFault::Count { found: fields.len(), expected: self.fields.len() });
        }
        row.cross_hashes.clear();
        row.cross_hashes.resize(self.crossed, MISSING_HASH);
        for (index, (plan, field)) in self.fields.iter().zip(fields.iter()).enumerate() {
            if plan.cross != NOT_CROSSED {
                row.cross_hashes[plan.cross] = hash_bytes(trim(field));
            }
            plan.action.encode(index, trim(field), row)?;
        }
        if self.needs_label && row.label.is_none() {
            return Err(FieldFault::NoLabel);
        }
        for cross in &self.crosses {
            let hashes = cross.columns.iter().map(|&column| row.cross_hashes[column]);
            let hash = hashes.reduce(combine).unwrap_or_default();
            row.push(cross.first + bucket(hash, cross.bits), 1.0);
        }
        row.finish();
        Ok(())
    }

    /// Encodes a row from its text.
    ///
    /// # Errors
    /// If the row is bad; the error says what is wrong.
    pub fn encode_text(
        &self,
        text: &[u8],
        format: TextFormat,
        row: &mut EncodedRow,
    ) -> Result<(), DataError> {
        let mut fields = RecordFields::default();
        Records::new(text, format).next(&mut fields);
        self.encode(&fields, row).map_err(|fault| {
            let what = fault.describe(&fields, &self.names);
            DataError::BadExample { what }
        })
    }
}

impl FieldAction {
    fn new(role: &ColumnRole, first: u32) -> Self {
        match role {
            ColumnRole::Label { classes } => FieldAction::Label(LabelReader::new(classes)),
            ColumnRole::Weight => FieldAction::Weight,
            ColumnRole::Id | ColumnRole::Ignore => FieldAction::Skip,
            ColumnRole::Number(scale) => FieldAction::Number { first, scale: scale.clone() },
            ColumnRole::Category(codes) => {
                FieldAction::Category { first, codes: CodeTable::new(codes) }
            }
            ColumnRole::List { separator, codes } => {
                let mut bytes = [0; 4];
                let separator_len = separator.encode_utf8(&mut bytes).len();
                let codes = CodeTable::new(codes);
                FieldAction::List { first, separator: bytes, separator_len, codes }
            }
            ColumnRole::Text { bits, ngrams } => {
                FieldAction::Text { first, bits: *bits, ngrams: *ngrams }
            }
        }
    }

    #[inline]
    fn encode(&self, index: usize, field: &[u8], row: &mut EncodedRow) -> Result<(), FieldFault> {
        match self {
            FieldAction::Skip => {}
            FieldAction::Category { first, codes } => {
                let code = if field.is_empty() { 0 } else { 1 + codes.code(field) };
                row.push(first + code, 1.0);
            }
            FieldAction::Number { first, scale } => {
                if is_missing(field) {
                    row.push(*first, 1.0);
                    return Ok(());
                }
                let number = number::parse(field);
                let number = number.map_err(|fault| FieldFault::Number { index, fault })?;
                scale.push(number, first + 1, row);
            }
            FieldAction::Label(reader) => {
                row.label = Some(reader.read(field).map_err(|fault| fault.at(index))?);
            }
            FieldAction::Weight => {
                let weight = number::parse(field).ok().filter(|weight| *weight >= 0.0);
                row.weight = Some(weight.ok_or(FieldFault::Weight { index })?);
            }
            FieldAction::List { first, separator, separator_len, codes } => {
                let separator = &separator[..*separator_len];
                encode_list(field, separator, codes, *first, row);
            }
            FieldAction::Text { first, bits, ngrams } => {
                encode_text(field, *bits, *ngrams, *first, row);
            }
        }
        Ok(())
    }
}

fn encode_list(
    field: &[u8],
    separator: &[u8],
    codes: &CodeTable,
    first: u32,
    row: &mut EncodedRow,
) {
    let before = row.keys.len();
    for_each_list_value(field, separator, |value| {
        row.push(first + 1 + codes.code(value), 1.0);
    });
    if row.keys.len() == before {
        row.push(first, 1.0);
    }
}

/// The words of a text. Their values have the length 1 if no word repeats, however many there are.
fn encode_text(field: &[u8], bits: u32, ngrams: u32, first: u32, row: &mut EncodedRow) {
    let before = row.keys.len();
    let (mut word, mut last) = (std::mem::take(&mut row.word), std::mem::take(&mut row.last_words));
    for_each_ngram(field, ngrams, &mut word, &mut last, |hash| {
        row.push(first + 1 + bucket(hash, bits), 1.0);
    });
    (row.word, row.last_words) = (word, last);
    let count = row.keys.len() - before;
    if count == 0 {
        row.push(first, 1.0);
        return;
    }
    let value = 1.0 / (count as f32).sqrt();
    row.values[before..].fill(value);
}

impl CodeTable {
    fn new(codes: &CategoryCodes) -> Self {
        match codes {
            CategoryCodes::Hashed { bits } => CodeTable::Hashed { bits: *bits },
            CategoryCodes::Vocabulary { words } => {
                let mut table = WordTable::default();
                for (word, code) in words.iter().zip(1..) {
                    if table.get(word.as_bytes()).is_none() {
                        table.add(word.as_bytes(), code, usize::MAX);
                    }
                }
                CodeTable::Words(Box::new(table))
            }
        }
    }

    /// The code of a value that is not missing, from 0.
    #[inline(always)]
    fn code(&self, value: &[u8]) -> u32 {
        match self {
            CodeTable::Hashed { bits } => bucket(hash_bytes(value), *bits),
            CodeTable::Words(words) => words.get(value).unwrap_or(0) as u32,
        }
    }
}

impl NumberScale {
    /// Appends the features of a number; `key` is the first after that of a missing one.
    #[inline]
    fn push(&self, number: f32, key: u32, row: &mut EncodedRow) {
        let value = match self {
            NumberScale::Raw => number,
            NumberScale::Standard { mean, deviation } => (number - mean) / deviation,
            NumberScale::Log { mean, deviation } => (signed_log(number) - mean) / deviation,
            NumberScale::Buckets { bounds } => {
                let bucket = bounds.partition_point(|&bound| bound <= number);
                return row.push(key + bucket as u32, 1.0);
            }
        };
        // Large numbers of rare rows must not become infinite.
        let value = value.clamp(-f32::MAX, f32::MAX);
        if value != 0.0 {
            row.push(key, value);
        }
    }
}

/// `ln(1 + |x|)` with the sign of `x`.
#[inline]
pub(crate) fn signed_log(number: f32) -> f32 {
    // Most numbers in tables are counts, and computing a logarithm takes longer than parsing one.
    static OF_COUNTS: LazyLock<[f32; 4096]> =
        LazyLock::new(|| std::array::from_fn(|count| computed_log(count as f32)));
    let count = number as usize;
    match OF_COUNTS.get(count) {
        Some(&log) if (count as f32).to_bits() == number.to_bits() => log,
        _ => computed_log(number),
    }
}

fn computed_log(number: f32) -> f32 {
    f64::from(number).abs().ln_1p().copysign(f64::from(number)) as f32
}

/// Where a column is in a file.
enum ColumnPlace {
    At(usize),
    /// Several columns have the name.
    Repeated,
}

fn column_places(names: &[String]) -> HashMap<&str, ColumnPlace> {
    let mut places = HashMap::with_capacity(names.len());
    for (at, name) in names.iter().enumerate() {
        let place = places.entry(name.as_str()).or_insert(ColumnPlace::At(at));
        if !matches!(place, ColumnPlace::At(first) if *first == at) {
            *place = ColumnPlace::Repeated;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_of_counts_are_those_that_would_be_computed() {
        let counts = (0..5_000).map(|count| count as f32);
        for number in counts.chain([0.5, 7.25, -0.0, -3.0, 1e30, f32::MAX]) {
            let expected = f64::from(number).abs().ln_1p().copysign(f64::from(number)) as f32;
            assert_eq!(signed_log(number).to_bits(), expected.to_bits(), "{number}");
        }
    }
}
