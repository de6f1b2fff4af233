//! The blocks of a conversion: of files, of rows that another crate reads, and of generated rows.

use std::ops::Range;
use std::path::Path;

use super::blocks::InputBlock;
use super::clicks::{ClickRow, Clicks};
use super::collected_rows::CollectedRows;
use super::row::{RowBuffer, SparseRow};
use super::segment::{SegmentHeader, SourcePosition};
use super::stream::{BlockParser, ReadCounts, ReadOptions, ReadStop};
use crate::error::DataError;

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
}

impl RowCollector<FileBlock> for FileRows<'_> {
    fn collect(
        &self,
        block: &FileBlock,
        rows: &mut CollectedRows,
        row: &mut RowBuffer,
    ) -> Result<SegmentHeader, ReadStop> {
        let FileRows { files, options, stop_at_zero, .. } = self;
        let (file, input) = (block.file, &block.input);
        let (name, stop_at_zero) = (files[file as usize], *stop_at_zero);
        let parser = BlockParser { name, options, stop_at_zero };
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

/// Some rows that a reader of another crate pushed.
#[derive(Default)]
pub(super) struct PushedBlock {
    pub(super) file: u32,
    pub(super) rows: CollectedRows,
    pub(super) skipped: u64,
    /// Rows of the file up to the end of the block.
    pub(super) number: u64,
    /// Whether the file ends with the block.
    pub(super) is_last: bool,
}

pub(super) struct PushedRows {
    pub(super) train_files: usize,
}

impl RowCollector<PushedBlock> for PushedRows {
    fn collect(
        &self,
        block: &PushedBlock,
        rows: &mut CollectedRows,
        _row: &mut RowBuffer,
    ) -> Result<SegmentHeader, ReadStop> {
        rows.clone_from(&block.rows);
        let file = block.file + u32::from(block.is_last);
        let number = if block.is_last { 0 } else { block.number };
        Ok(SegmentHeader {
            skipped: block.skipped,
            is_test: block.file as usize >= self.train_files,
            end: SourcePosition { file, offset: 0, number },
            ..SegmentHeader::default()
        })
    }
}

/// Collects the rows of one file until they are enough for a block.
pub(super) struct PushedFile<'a> {
    /// Rows that were converted before.
    pub(super) skip: u64,
    pub(super) block: PushedBlock,
    pub(super) submit: Submit<'a, PushedBlock>,
    /// Why no more rows are wanted.
    pub(super) stop: Option<ReadStop>,
}

impl PushedFile<'_> {
    pub(super) fn push(&mut self, row: SparseRow<'_>) -> Result<(), DataError> {
        self.block.number += 1;
        if self.block.number <= self.skip {
            return Ok(());
        }
        self.block.rows.push(row);
        if self.block.rows.is_full() { self.submit_block() } else { Ok(()) }
    }

    fn submit_block(&mut self) -> Result<(), DataError> {
        let next = PushedBlock {
            file: self.block.file,
            number: self.block.number,
            ..PushedBlock::default()
        };
        let mut full = Some(std::mem::replace(&mut self.block, next));
        let submitted = (self.submit)(&mut |place| {
            *place = full.take().unwrap_or_default();
            Ok(true)
        });
        submitted.map(|_| ()).map_err(|stop| {
            // The reader passes the error on, and `end` finds the reason.
            self.stop = Some(stop);
            DataError::Interrupted
        })
    }

    /// Submits the rest, after the reader has ended.
    pub(super) fn end(mut self, read: Result<ReadCounts, DataError>) -> Result<(), ReadStop> {
        let submitted = read.and_then(|counts| {
            (self.block.skipped, self.block.is_last) = (counts.skipped, true);
            self.submit_block()
        });
        submitted.map_err(|error| self.stop.take().unwrap_or(ReadStop::Error(error)))
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
            rows.push(row.row());
        }
        let (file, offset, number) = (block.file, block.rows.end, block.number);
        let end = SourcePosition { file, offset, number };
        Ok(SegmentHeader { is_test: file == 1, end, ..SegmentHeader::default() })
    }
}
