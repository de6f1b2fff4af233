//! Reads the rows of a stream in any format: the loops around the parsers.
//!
//! A parser handles one row. This module counts lines and records, and decides whether a bad row is
//! an error or is skipped and counted. Damage that affects more than one row (a wrong length, a
//! damaged gzip stream) is always an error, because the number of lost rows is unknown. Only a last
//! record that is cut short counts as a bad row.

use std::io::Read;
use std::path::Path;

use memchr::memchr;
use paceline_tfrecord::{RecordError, RecordErrorKind, SplitRecord, split_record};

use super::blocks::{BlockReader, BlockUnit, InputBlock};
use super::example::FeatureNames;
use super::format::SparseFormat;
use super::limits::{MAX_FEATURES, MAX_LINE_BYTES, MAX_RECORD_BYTES};
use super::row::{RowBuffer, SparseRow};
use super::row_fault::RowFault;
use super::{criteo, example, libffm, libsvm};
use crate::error::DataError;
use crate::file_kind::{BYTE_ORDER_MARK, FileKind, SNIFF_BYTES, sniff};
use crate::on_bad::OnBad;

/// How to read a stream of rows.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// The format of the stream.
    pub format: SparseFormat,
    /// The number of features; `None` means [`MAX_FEATURES`]. Criteo's rows
    /// are hashed into this many.
    pub features: Option<usize>,
    /// The index of the first feature in LIBSVM text: 0 or 1.
    pub first_index: u32,
    /// What to do about bad rows.
    pub on_bad: OnBad,
}

/// The result of reading a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Rows read.
    pub rows: u64,
    /// Bad rows that were skipped.
    pub skipped: u64,
    /// Bytes of content read.
    pub bytes: u64,
}

/// Why reading stopped early.
pub(crate) enum ReadStop {
    /// A row or the stream is bad.
    Error(DataError),
    /// A good row has an index 0, although indices were assumed to count from 1.
    IndexZero,
    /// The first rows are enough.
    Sampled,
}

impl From<DataError> for ReadStop {
    fn from(error: DataError) -> Self {
        ReadStop::Error(error)
    }
}

/// Reads a stream of rows to its end and calls `take` with each. `name` is for errors.
///
/// The stream must be plain (not gzip). It is read in blocks, so it needs no buffered reader.
///
/// # Errors
/// If a row is bad and must not be skipped, the stream cannot be read, or `take` fails.
pub fn read_rows(
    source: impl Read,
    name: &Path,
    options: &ReadOptions,
    take: &mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
) -> Result<ReadCounts, DataError> {
    let mut blocks = BlockReader::new(source, options.format.unit(), 0, 0);
    let names = &FeatureNames::default();
    let parser = BlockParser { name, options, stop_at_zero: false, names };
    let (mut block, mut row) = (InputBlock::default(), RowBuffer::default());
    let mut counts = ReadCounts::default();
    while blocks.next(&mut block).map_err(DataError::io("read", name))? {
        match parser.parse(&block, &mut row, take) {
            Ok(found) => {
                counts.rows += found.rows;
                counts.skipped += found.skipped;
            }
            Err(ReadStop::Error(error)) => return Err(error),
            Err(ReadStop::IndexZero | ReadStop::Sampled) => unreachable!("not asked for"),
        }
        counts.bytes = block.end_offset;
    }
    Ok(counts)
}

/// Parses blocks of a stream.
#[derive(Clone, Copy)]
pub(crate) struct BlockParser<'a> {
    /// The stream's name, for errors.
    pub(crate) name: &'a Path,
    pub(crate) options: &'a ReadOptions,
    /// Whether an index 0 in an otherwise good row is [`ReadStop::IndexZero`].
    pub(crate) stop_at_zero: bool,
    /// The names of features in TFRecords.
    pub(crate) names: &'a FeatureNames,
}

impl BlockParser<'_> {
    /// Calls `take` with each row of a block. `row` is scratch space.
    pub(crate) fn parse(
        &self,
        block: &InputBlock,
        row: &mut RowBuffer,
        take: &mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
    ) -> Result<ReadCounts, ReadStop> {
        let features = self.options.features.unwrap_or(MAX_FEATURES);
        let first_index = self.options.first_index;
        let mut rows = BlockRows { parser: self, block, take, counts: ReadCounts::default() };
        match self.options.format {
            SparseFormat::Libsvm => rows.text(row, |line, row| {
                if !libsvm::parse(line, first_index, row)? {
                    return Ok(None);
                }
                row.finish(features).map(Some)
            }),
            SparseFormat::Libffm => rows.text(row, |line, row| {
                if !libffm::parse(line, row)? {
                    return Ok(None);
                }
                row.finish(features).map(Some)
            }),
            SparseFormat::Criteo => rows.text(row, |line, row| {
                Ok(criteo::parse(line, features as u32, row)?.then(|| row.finish_ones()))
            }),
            SparseFormat::TfRecord => rows.records(row, features),
        }
    }
}

impl SparseFormat {
    /// What a stream of this format consists of.
    pub(crate) fn unit(self) -> BlockUnit {
        match self {
            SparseFormat::Libsvm | SparseFormat::Libffm | SparseFormat::Criteo => BlockUnit::Line,
            SparseFormat::TfRecord => BlockUnit::Record,
        }
    }

    /// The kind of file that has this format.
    pub(crate) fn file_kind(self) -> FileKind {
        match self {
            SparseFormat::Libsvm => FileKind::Libsvm,
            SparseFormat::Libffm => FileKind::Libffm,
            SparseFormat::Criteo => FileKind::Criteo,
            SparseFormat::TfRecord => FileKind::TfRecord,
        }
    }

    /// The value of `data.kind` for this format.
    fn name(self) -> &'static str {
        match self {
            SparseFormat::Libsvm => "libsvm",
            SparseFormat::Libffm => "libffm",
            SparseFormat::Criteo => "criteo",
            SparseFormat::TfRecord => "tfrecord",
        }
    }
}

/// What the loops over lines and records share.
struct BlockRows<'a, 'p> {
    parser: &'a BlockParser<'p>,
    block: &'a InputBlock,
    take: &'a mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
    counts: ReadCounts,
}

impl BlockRows<'_, '_> {
    fn text<P>(&mut self, row: &mut RowBuffer, parse: P) -> Result<ReadCounts, ReadStop>
    where
        P: for<'r> Fn(&[u8], &'r mut RowBuffer) -> Result<Option<SparseRow<'r>>, RowFault>,
    {
        let mut number = self.block.number;
        if self.block.is_long_line {
            self.bad_row("line", number + 1, RowFault::LongLine)?;
        }
        let mut rest = &self.block.bytes[..];
        if number == 0 {
            rest = rest.strip_prefix(BYTE_ORDER_MARK).unwrap_or(rest);
        }
        while !rest.is_empty() {
            number += 1;
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            let is_long = line.len() > MAX_LINE_BYTES;
            let parsed = if is_long { Err(RowFault::LongLine) } else { parse(line, row) };
            let fault = match parsed {
                Ok(None) => continue,
                Ok(Some(row)) => {
                    self.take_row(row)?;
                    continue;
                }
                Err(RowFault::IndexZero) if self.is_good_from_zero(line) => {
                    return Err(ReadStop::IndexZero);
                }
                Err(fault) => fault,
            };
            self.bad_row("line", number, fault)?;
        }
        Ok(self.counts)
    }

    fn records(&mut self, row: &mut RowBuffer, features: usize) -> Result<ReadCounts, ReadStop> {
        let (mut rest, mut number) = (&self.block.bytes[..], self.block.number);
        while !rest.is_empty() {
            let fault = match split_record(rest, MAX_RECORD_BYTES) {
                Ok(Some(SplitRecord { data, rest: after })) => {
                    rest = after;
                    let parsed = data.ok_or(RowFault::Checksum).and_then(|record| {
                        example::parse(record, self.parser.names, row)?;
                        row.finish(features)
                    });
                    match parsed {
                        Ok(row) => {
                            self.take_row(row)?;
                            number += 1;
                            continue;
                        }
                        Err(fault) => fault,
                    }
                }
                Ok(None) => {
                    rest = &[];
                    RowFault::Truncated
                }
                Err(kind) => return Err(self.damaged(number, rest, kind).into()),
            };
            self.bad_row("record", number, fault)?;
            number += 1;
        }
        Ok(self.counts)
    }

    /// A stream whose records cannot be told apart from here on.
    #[cold]
    fn damaged(&self, record: u64, rest: &[u8], kind: RecordErrorKind) -> DataError {
        if let Some(error) = self.wrong_kind() {
            return error;
        }
        let offset = self.block.end_offset - rest.len() as u64;
        let what = RecordError { record, offset, kind }.to_string();
        DataError::Sparse { path: self.parser.name.into(), what }
    }

    #[inline]
    fn take_row(&mut self, row: SparseRow<'_>) -> Result<(), DataError> {
        self.counts.rows += 1;
        (self.take)(row)
    }

    /// Counts a bad row as skipped, or returns it as an error.
    #[cold]
    fn bad_row(
        &mut self,
        unit: &'static str,
        number: u64,
        fault: RowFault,
    ) -> Result<(), DataError> {
        if self.parser.options.on_bad == OnBad::Skip {
            self.counts.skipped += 1;
            return Ok(());
        }
        if let Some(error) = self.wrong_kind() {
            return Err(error);
        }
        let (path, what) = (self.parser.name.into(), fault.to_string());
        Err(DataError::Row { path, unit, number, what })
    }

    /// An error that names the stream's kind, if its first row is bad because it has another kind
    /// than it should.
    fn wrong_kind(&self) -> Option<DataError> {
        let is_first = self.block.number == 0 && self.counts == ReadCounts::default();
        if !is_first {
            return None;
        }
        let (bytes, format) = (&self.block.bytes, self.parser.options.format);
        let found = sniff(&bytes[..bytes.len().min(SNIFF_BYTES)]);
        let is_wrong = found != format.file_kind() && found.advice().is_some();
        let (path, kind) = (self.parser.name.into(), format.name());
        (is_wrong && !bytes.is_empty()).then_some(DataError::WrongKind { path, kind, found })
    }

    /// Whether `stop_at_zero` is set and a line is a good row if indices count from 0.
    #[cold]
    fn is_good_from_zero(&self, line: &[u8]) -> bool {
        let mut row = RowBuffer::default();
        let features = self.parser.options.features.unwrap_or(MAX_FEATURES);
        self.parser.stop_at_zero
            && libsvm::parse(line, 0, &mut row).is_ok_and(|found| found)
            && row.finish(features).is_ok()
    }
}
