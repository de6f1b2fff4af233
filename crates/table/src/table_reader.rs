//! Reads the rows of tables for the row cache.

use std::io::Read;
use std::path::Path;

use paceline_data::sparse::{ReadCounts, RowReader, SparseRow};
use paceline_data::{DataError, OnBad};
use sha2::{Digest as _, Sha256};

use crate::encoded_row::EncodedRow;
use crate::encoder::RowEncoder;
use crate::featurizer::Featurizer;
use crate::format_choice::FormatChoice;
use crate::records::{RecordFields, Records};
use crate::table_file::{TableContent, open_table_file};
use crate::table_text::{BlockWork, TableEvent, long_line};
use crate::text_format::TextFormat;

/// Reads the rows of a featuriser's tables.
pub(crate) struct TableReader<'a> {
    pub(crate) featurizer: &'a Featurizer,
    pub(crate) on_bad: OnBad,
    /// What the job says about the table, a line for each setting.
    pub(crate) options: String,
}

impl RowReader for TableReader<'_> {
    fn options(&self) -> String {
        self.options.clone()
    }

    fn identity(&self) -> String {
        let digest: [u8; 32] = Sha256::digest(self.featurizer.to_json()).into();
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("featurizer {digest}\n")
    }

    fn read(
        &self,
        file: &Path,
        content: &mut dyn Read,
        take: &mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
    ) -> Result<ReadCounts, DataError> {
        let mut content = TableContent::of(file, content)?;
        let table = open_table_file(file, &mut content, &self.featurizer.format.into())?;
        let encoder = self.featurizer.encoder(table.names());
        let encoder = encoder.map_err(|error| of_file(file, error))?;
        let errors = table.row_errors();
        let on_bad = self.on_bad;
        let work = EncodeWork { encoder: &encoder, format: table.format(), on_bad };
        let mut counts = ReadCounts::default();
        table.parse_all(&work, &mut |event| {
            let block = match event {
                TableEvent::Parsed(block) => block,
                TableEvent::LongLine(_) if on_bad == OnBad::Skip => {
                    counts.skipped += 1;
                    return Ok(());
                }
                TableEvent::LongLine(line) => return Err(errors.at(line, long_line())),
            };
            block.part.for_each_row(take)?;
            counts.rows += block.part.labels.len() as u64;
            counts.skipped += block.part.skipped;
            counts.bytes += block.text.len() as u64;
            match block.part.fault.take() {
                Some((at, what)) => Err(errors.within(&block, at, what)),
                None => Ok(()),
            }
        })?;
        Ok(counts)
    }
}

/// Adds the file to an error about its columns.
fn of_file(file: &Path, error: DataError) -> DataError {
    match error {
        DataError::SparseSpec { what, .. } => DataError::Sparse { path: file.into(), what },
        other => other,
    }
}

impl From<TextFormat> for FormatChoice {
    /// Exactly this format.
    fn from(format: TextFormat) -> Self {
        Self {
            delimiter: Some(format.delimiter),
            header: Some(format.header),
            without_quotes: !format.quotes,
        }
    }
}

/// Encodes the rows of blocks.
struct EncodeWork<'a> {
    encoder: &'a RowEncoder,
    format: TextFormat,
    on_bad: OnBad,
}

/// The rows of a block.
#[derive(Default)]
struct EncodedBlock {
    labels: Vec<u8>,
    /// The weights of the rows, if the table has weights.
    weights: Vec<f32>,
    /// The index in the keys, and in the values, after each row.
    ends: Vec<(usize, usize)>,
    keys: Vec<u32>,
    /// The values of the rows whose values are not all 1.
    values: Vec<f32>,
    skipped: u64,
    /// The first bad row: where it begins, and what is wrong with it.
    fault: Option<(usize, String)>,
    row: EncodedRow,
}

impl BlockWork for EncodeWork<'_> {
    type Part = EncodedBlock;

    fn parse(&self, text: &[u8], block: &mut EncodedBlock) {
        block.clear();
        let (mut records, mut fields) = (Records::new(text, self.format), RecordFields::default());
        while records.next(&mut fields) {
            match self.encoder.encode(&fields, &mut block.row) {
                Ok(()) => block.push_row(),
                Err(_) if self.on_bad == OnBad::Skip => block.skipped += 1,
                Err(fault) => {
                    let what = fault.describe(&fields, self.encoder.names());
                    block.fault = Some((records.started(), what));
                    return;
                }
            }
        }
    }
}

impl EncodedBlock {
    fn clear(&mut self) {
        self.labels.clear();
        self.weights.clear();
        self.ends.clear();
        self.keys.clear();
        self.values.clear();
        (self.skipped, self.fault) = (0, None);
    }

    #[inline]
    fn push_row(&mut self) {
        self.labels.push(self.row.label.unwrap_or_default() as u8);
        if let Some(weight) = self.row.weight {
            self.weights.push(weight);
        }
        self.keys.extend_from_slice(&self.row.keys);
        if !self.row.all_ones() {
            self.values.extend_from_slice(&self.row.values);
        }
        self.ends.push((self.keys.len(), self.values.len()));
    }

    fn for_each_row(
        &self,
        take: &mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let (mut key, mut value) = (0, 0);
        let rows = self.labels.iter().zip(&self.ends);
        for (row, (&label, &(key_end, value_end))) in rows.enumerate() {
            take(SparseRow {
                label: label.into(),
                weight: self.weights.get(row).copied().unwrap_or(1.0),
                keys: &self.keys[key..key_end],
                values: &self.values[value..value_end],
            })?;
            (key, value) = (key_end, value_end);
        }
        Ok(())
    }
}
