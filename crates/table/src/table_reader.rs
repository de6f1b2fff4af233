//! Reads the rows of tables for the row cache.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use paceline_data::sparse::{FieldMap, RowBlock, RowBlockParser, RowBlocks, RowReader, SparseRow};
use paceline_data::{DataError, OnBad};
use sha2::{Digest as _, Sha256};

use crate::blocks::{Block, NextBlock};
use crate::encoded_row::EncodedRow;
use crate::encoder::RowEncoder;
use crate::featurizer::Featurizer;
use crate::format_choice::FormatChoice;
use crate::records::{RecordFields, Records};
use crate::table_file::open_table_file;
use crate::table_text::{RowErrors, TableText, long_line};
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

    fn fields(&self) -> FieldMap {
        self.featurizer.fields()
    }

    fn open<'s>(
        &'s self,
        file: &'s Path,
        content: &'s mut dyn Read,
    ) -> Result<Box<dyn RowBlocks + 's>, DataError> {
        let table = open_table_file(file, content, &self.featurizer.format.into())?;
        let encoder = self.featurizer.encoder(table.names());
        let encoder = encoder.map_err(|error| of_file(file, error))?;
        let (format, on_bad, errors) = (table.format(), self.on_bad, table.row_errors());
        let parser = Arc::new(TableParser { encoder, format, on_bad, errors });
        let line = table.first_line();
        Ok(Box::new(TableRowBlocks { table, parser, line, offset: 0 }))
    }
}

/// The blocks of one file.
struct TableRowBlocks<'s> {
    table: TableText<'s>,
    parser: Arc<TableParser>,
    /// The line at which the next block begins, from 1.
    line: u64,
    /// Bytes so far, those of the header and of skipped lines excepted.
    offset: u64,
}

impl RowBlocks for TableRowBlocks<'_> {
    fn next(&mut self, block: &mut RowBlock) -> Result<bool, DataError> {
        let mut next = Block::with_memory(std::mem::take(&mut block.bytes));
        let found = self.table.next_block(&mut next)?;
        block.parser = Some(match found {
            NextBlock::End => return Ok(false),
            NextBlock::Records => self.parser.clone(),
            NextBlock::LongLine => Arc::new(LongLine(self.parser.clone())),
            NextBlock::OpenQuote => Arc::new(OpenQuote(self.parser.clone())),
            NextBlock::EndlessLine => {
                return Err(self.table.row_errors().endless_line(self.line - 1));
            }
        });
        block.first = self.line;
        (block.bytes, block.text) = next.into_parts();
        let text = &block.bytes[block.text.clone()];
        let is_long = found == NextBlock::LongLine;
        self.line += self.table.counter().count(text) + u64::from(is_long);
        // A skipped line counts, so that every block has an end of its own.
        self.offset += text.len() as u64 + u64::from(is_long);
        block.end_offset = self.offset;
        Ok(true)
    }
}

/// Adds the file to an error about its columns.
pub(crate) fn of_file(file: &Path, error: DataError) -> DataError {
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
struct TableParser {
    encoder: RowEncoder,
    format: TextFormat,
    on_bad: OnBad,
    errors: RowErrors,
}

impl RowBlockParser for TableParser {
    fn parse(
        &self,
        block: &RowBlock,
        take: &mut dyn FnMut(SparseRow<'_>),
    ) -> Result<u64, DataError> {
        let text = &block.bytes[block.text.clone()];
        let (mut records, mut fields) = (Records::new(text, self.format), RecordFields::default());
        let (mut row, mut skipped) = (EncodedRow::default(), 0);
        while records.next(&mut fields) {
            match self.encoder.encode(&fields, &mut row) {
                Ok(()) => take(SparseRow {
                    label: row.label.unwrap_or_default(),
                    weight: row.weight.unwrap_or(1.0),
                    keys: &row.keys,
                    values: if row.all_ones() { &[] } else { &row.values },
                    fields: &[],
                }),
                Err(_) if self.on_bad == OnBad::Skip => skipped += 1,
                Err(fault) => {
                    let what = fault.describe(&fields, self.encoder.names());
                    return Err(self.errors.within(block.first, &text[..records.started()], what));
                }
            }
        }
        Ok(skipped)
    }
}

/// A line above the limit.
struct LongLine(Arc<TableParser>);

impl RowBlockParser for LongLine {
    fn parse(&self, block: &RowBlock, _: &mut dyn FnMut(SparseRow<'_>)) -> Result<u64, DataError> {
        if self.0.on_bad == OnBad::Skip {
            return Ok(1);
        }
        Err(self.0.errors.at(block.first, long_line()))
    }
}

/// A quote that is not closed: the rest of the file cannot be read.
struct OpenQuote(Arc<TableParser>);

impl RowBlockParser for OpenQuote {
    fn parse(&self, block: &RowBlock, _: &mut dyn FnMut(SparseRow<'_>)) -> Result<u64, DataError> {
        Err(self.0.errors.open_quote(block.first))
    }
}
