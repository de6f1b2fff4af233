//! The blocks of a conversion: of files, of rows that another crate reads, and of generated rows.

use std::ops::Range;
use std::path::Path;

use paceline_generate::{ClickRow, Clicks};

use super::blocks::InputBlock;
use super::collected_rows::CollectedRows;
use super::example::FeatureNames;
use super::field_map::FieldMap;
use super::row::{RowBuffer, SparseRow, click_row};
use super::row_reader::RowBlock;
use super::segment::{SegmentHeader, SourcePosition};
use super::stream::{BlockParser, ReadOptions, ReadStop};

/// Makes a block, or says that there is none.
pub(super) type FillBlock<'a, B> = &'a mut dyn FnMut(&mut B) -> Result<bool, ReadStop>;

/// Takes a block; false if there was none.
pub(super) type Submit<'a, B> = &'a mut dyn FnMut(FillBlock<'_, B>) -> Result<bool, ReadStop>;

/// Parses blocks, on any thread.
pub(super) trait RowCollector<B>: Sync {
    /// Collects the rows of a block. The header says where the block ends in the source.
    fn collect(
        &self,
        block: &B,
        rows: &mut CollectedRows,
        row: &mut RowBuffer,
    ) -> Result<SegmentHeader, ReadStop>;
}

/// A block of a file.
#[derive(Default)]
pub(super) struct FileBlock {
    pub(super) file: u32,
    pub(super) input: InputBlock,
}

/// Parses blocks of files.
pub(super) struct FileRows<'a> {
    pub(super) files: Vec<&'a Path>,
    /// The files before this one are for training, the others for testing.
    pub(super) train_files: usize,
    pub(super) options: ReadOptions,
    pub(super) stop_at_zero: bool,
    pub(super) names: &'a FeatureNames,
}

impl RowCollector<FileBlock> for FileRows<'_> {
    fn collect(
        &self,
        block: &FileBlock,
        rows: &mut CollectedRows,
        row: &mut RowBuffer,
    ) -> Result<SegmentHeader, ReadStop> {
        let FileRows { files, options, stop_at_zero, names, .. } = self;
        let (file, input) = (block.file, &block.input);
        let (name, stop_at_zero) = (files[file as usize], *stop_at_zero);
        let parser = BlockParser { name, options, stop_at_zero, names };
        let counts = parser.parse(input, row, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        let (offset, number) = (input.end_offset, input.end_number);
        Ok(SegmentHeader {
            skipped: counts.skipped,
            is_test: file as usize >= self.train_files,
            end: SourcePosition { file, offset, number },
            ..SegmentHeader::default()
        })
    }
}

/// A block of a file that another crate reads.
#[derive(Default)]
pub(super) struct ReaderBlock {
    pub(super) file: u32,
    pub(super) rows: RowBlock,
}

/// Parses blocks with the parsers of another crate.
pub(super) struct ReaderRows {
    pub(super) train_files: usize,
    /// The fields of keys, if rows are stored with fields.
    pub(super) fields: Option<FieldMap>,
}

impl RowCollector<ReaderBlock> for ReaderRows {
    fn collect(
        &self,
        block: &ReaderBlock,
        rows: &mut CollectedRows,
        buffer: &mut RowBuffer,
    ) -> Result<SegmentHeader, ReadStop> {
        let (file, offset) = (block.file, block.rows.end_offset);
        let skipped = match &block.rows.parser {
            Some(parser) => parser.parse(&block.rows, &mut |row| match &self.fields {
                None => rows.push(row),
                Some(fields) => {
                    fields.fields_of(row.keys, &mut buffer.fields);
                    rows.push(SparseRow { fields: &buffer.fields, ..row });
                }
            })?,
            None => 0,
        };
        Ok(SegmentHeader {
            skipped,
            is_test: file as usize >= self.train_files,
            end: SourcePosition { file, offset, number: 0 },
            ..SegmentHeader::default()
        })
    }
}

/// Some rows to generate.
#[derive(Clone, Default)]
pub(super) struct GeneratedBlock {
    /// 0 for training rows, 1 for test rows.
    pub(super) file: u32,
    pub(super) rows: Range<u64>,
    /// Rows up to the end of the block.
    pub(super) number: u64,
}

pub(super) struct GeneratedRows {
    pub(super) clicks: Clicks,
    pub(super) with_fields: bool,
}

impl RowCollector<GeneratedBlock> for GeneratedRows {
    fn collect(
        &self,
        block: &GeneratedBlock,
        rows: &mut CollectedRows,
        _row: &mut RowBuffer,
    ) -> Result<SegmentHeader, ReadStop> {
        let mut row = ClickRow::default();
        for index in block.rows.clone() {
            self.clicks.draw(index, &mut row);
            rows.push(click_row(&row, self.with_fields));
        }
        let (file, offset, number) = (block.file, block.rows.end, block.number);
        let end = SourcePosition { file, offset, number };
        Ok(SegmentHeader { is_test: file == 1, end, ..SegmentHeader::default() })
    }
}
