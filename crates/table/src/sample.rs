//! What the first rows of a table say about each column.

use std::collections::HashSet;

use crate::missing::{is_missing, trim};
use crate::number::{self, NumberFault};
use crate::records::{RecordFields, Records};
use crate::text_format::TextFormat;

/// The most rows of a sample.
const MOST_ROWS: usize = 20_000;
/// Different values are counted up to this number.
pub(crate) const MOST_DISTINCT: usize = 1_000;

/// Up to this many different values are a vocabulary, however few rows there are.
const FEW_VALUES: usize = 50;

/// What a sample says about a column.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnSample {
    /// Values that are not missing.
    pub(crate) present: usize,
    pub(crate) missing: usize,
    /// Values that are numbers.
    pub(crate) numbers: usize,
    /// Values that are numbers but for their commas.
    comma_numbers: usize,
    /// Values that are infinite, or too large for a number.
    infinite: usize,
    /// The first value that is not a number at all.
    pub(crate) first_text: Option<Box<[u8]>>,
    pub(crate) least: f32,
    pub(crate) greatest: f32,
    sum: f64,
    squares: f64,
    /// Words of all values.
    words: usize,
    /// Different values; at most one more than [`MOST_DISTINCT`].
    pub(crate) values: HashSet<Box<[u8]>>,
    /// Different words that mean a missing number, and are values of a category.
    missing_words: HashSet<Box<[u8]>>,
    /// Whether no value occurs twice, as far as values are counted.
    pub(crate) all_differ: bool,
}

/// The first rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableSample {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ColumnSample>,
    /// Rows with another number of fields.
    pub(crate) uneven: usize,
    /// Where the first of them begins in the text.
    pub(crate) first_uneven: usize,
}

impl TableSample {
    /// Samples the records of a text. Those with another number of fields are left out.
    pub(crate) fn of_text(text: &[u8], format: TextFormat, columns: usize) -> Self {
        let empty = ColumnSample { all_differ: true, ..ColumnSample::default() };
        let columns_of = vec![empty; columns];
        let mut sample = TableSample { rows: 0, columns: columns_of, uneven: 0, first_uneven: 0 };
        let (mut records, mut fields) = (Records::new(text, format), RecordFields::default());
        while sample.rows < MOST_ROWS && records.next(&mut fields) {
            if fields.len() == columns {
                sample.rows += 1;
                let pairs = sample.columns.iter_mut().zip(fields.iter());
                pairs.for_each(|(column, field)| column.add(trim(field)));
            } else {
                if sample.uneven == 0 {
                    sample.first_uneven = records.started();
                }
                sample.uneven += 1;
            }
        }
        sample
    }
}

impl ColumnSample {
    fn add(&mut self, field: &[u8]) {
        if is_missing(field) {
            self.missing += 1;
            if !field.is_empty() {
                self.missing_words.insert(field.into());
            }
            return;
        }
        match number::parse(field) {
            Ok(value) => {
                if self.numbers == 0 {
                    (self.least, self.greatest) = (value, value);
                }
                (self.least, self.greatest) = (self.least.min(value), self.greatest.max(value));
                self.sum += f64::from(value);
                self.squares += f64::from(value).powi(2);
                self.numbers += 1;
            }
            Err(NumberFault::Grouped) => self.comma_numbers += 1,
            Err(NumberFault::Infinite) => self.infinite += 1,
            Err(NumberFault::Text) => {
                self.first_text.get_or_insert_with(|| field.into());
            }
        }
        self.present += 1;
        self.words += field.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        if self.values.len() <= MOST_DISTINCT {
            self.all_differ &= self.values.insert(field.into());
        }
    }

    /// Whether all values are numbers. Those that are not finite are bad rows later.
    pub(crate) fn is_numeric(&self) -> bool {
        self.numbers > 0 && self.numbers + self.infinite == self.present
    }

    /// Whether nearly all values are numbers, but some are not.
    pub(crate) fn is_nearly_numeric(&self) -> bool {
        self.first_text.is_some() && 10 * self.numbers >= 9 * self.present
    }

    /// Whether nearly all values would be numbers if numbers could have commas.
    pub(crate) fn has_comma_numbers(&self) -> bool {
        self.comma_numbers > 0 && 10 * (self.numbers + self.comma_numbers) >= 9 * self.present
    }

    /// The number of different values if the column is a category: every text that is not empty.
    pub(crate) fn categories(&self) -> usize {
        self.values.len() + self.missing_words.len()
    }

    /// Whether a few numbers are far larger than the others, and none is negative.
    pub(crate) fn is_skewed(&self) -> bool {
        let count = self.numbers.max(1) as f64;
        let mean = self.sum / count;
        let deviation = (self.squares / count - mean * mean).max(0.0).sqrt();
        self.least >= 0.0 && deviation > 2.0 * mean
    }

    /// Words per value.
    pub(crate) fn mean_words(&self) -> f64 {
        self.words as f64 / self.present.max(1) as f64
    }

    /// Whether there are few different values, and later rows are unlikely to have many others.
    pub(crate) fn has_few_values(&self) -> bool {
        let count = self.values.len();
        count <= FEW_VALUES || (count <= MOST_DISTINCT && 5 * count <= self.present)
    }
}
