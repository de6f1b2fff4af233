//! Reads the rows of a stream in any format: the loop around the parsers.
//!
//! A parser handles one row. This module counts lines and records, and decides whether a bad row is
//! an error or is skipped and counted. Damage that affects more than one row (a wrong length, a
//! damaged gzip stream) is always an error, because the number of lost rows is unknown. Only a last
//! record that is cut short counts as a bad row.

use std::io::Read;
use std::path::Path;

use paceline_tfrecord::{RecordErrorKind, RecordReader};

use super::format::SparseFormat;
use super::limits::{MAX_FEATURES, MAX_RECORD_BYTES};
use super::lines::{LineReader, TextLine};
use super::row::{RowBuffer, SparseRow};
use super::row_fault::RowFault;
use super::{criteo, example, libsvm};
use crate::error::DataError;
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
}

impl From<DataError> for ReadStop {
    fn from(error: DataError) -> Self {
        ReadStop::Error(error)
    }
}

/// Reads a stream of rows to its end and calls `take` with each. `name` is for errors.
///
/// The stream must be plain (not gzip). Text is read in blocks, so only a stream of TFRecords needs
/// a buffered reader.
///
/// # Errors
/// If a row is bad and must not be skipped, the stream cannot be read, or `take` fails.
pub fn read_rows(
    source: impl Read,
    name: &Path,
    options: &ReadOptions,
    take: &mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
) -> Result<ReadCounts, DataError> {
    match read(source, name, options, false, take) {
        Ok(counts) => Ok(counts),
        Err(ReadStop::Error(error)) => Err(error),
        Err(ReadStop::IndexZero) => unreachable!("reported only if `stop_at_zero` is set"),
    }
}

/// As [`read_rows`]; with `stop_at_zero`, an index 0 in an otherwise good row is
/// [`ReadStop::IndexZero`].
pub(crate) fn read(
    source: impl Read,
    name: &Path,
    options: &ReadOptions,
    stop_at_zero: bool,
    take: &mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
) -> Result<ReadCounts, ReadStop> {
    let stream = RowStream { name, options, stop_at_zero, take, counts: ReadCounts::default() };
    match options.format {
        SparseFormat::Libsvm => stream.text(source, "line", |stream, line, row| {
            if !libsvm::parse(line, stream.options.first_index, row)? {
                return Ok(None);
            }
            row.finish(stream.options.features.unwrap_or(MAX_FEATURES)).map(Some)
        }),
        SparseFormat::Criteo => stream.text(source, "line", |stream, line, row| {
            let features = stream.options.features.unwrap_or(MAX_FEATURES) as u32;
            Ok(criteo::parse(line, features, row)?.then(|| row.finish_ones()))
        }),
        SparseFormat::TfRecord => stream.records(source),
    }
}

/// What the loops over lines and records share.
struct RowStream<'a> {
    name: &'a Path,
    options: &'a ReadOptions,
    stop_at_zero: bool,
    take: &'a mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
    counts: ReadCounts,
}

impl RowStream<'_> {
    fn text<P>(
        mut self,
        source: impl Read,
        unit: &'static str,
        parse: P,
    ) -> Result<ReadCounts, ReadStop>
    where
        P: for<'r> Fn(&Self, &[u8], &'r mut RowBuffer) -> Result<Option<SparseRow<'r>>, RowFault>,
    {
        let mut lines = LineReader::new(source);
        let mut row = RowBuffer::default();
        loop {
            let number = lines.lines() + 1;
            let fault = match lines.next().map_err(DataError::io("read", self.name))? {
                None => break,
                Some(TextLine::TooLong) => RowFault::LongLine,
                Some(TextLine::Text(line)) => match parse(&self, line, &mut row) {
                    Ok(None) => continue,
                    Ok(Some(row)) => {
                        self.take_row(row)?;
                        continue;
                    }
                    Err(RowFault::IndexZero) if self.is_good_from_zero(line) => {
                        return Err(ReadStop::IndexZero);
                    }
                    Err(fault) => fault,
                },
            };
            self.bad_row(unit, number, fault)?;
        }
        self.counts.bytes = lines.bytes();
        Ok(self.counts)
    }

    fn records(mut self, source: impl Read) -> Result<ReadCounts, ReadStop> {
        let mut records = RecordReader::with_max_len(source, MAX_RECORD_BYTES);
        let (mut record, mut row) = (Vec::new(), RowBuffer::default());
        let features = self.options.features.unwrap_or(MAX_FEATURES);
        loop {
            let number = records.records();
            let fault = match records.next(&mut record) {
                Ok(false) => break,
                Ok(true) => {
                    match example::parse(&record, &mut row).and_then(|()| row.finish(features)) {
                        Ok(row) => {
                            self.take_row(row)?;
                            continue;
                        }
                        Err(fault) => fault,
                    }
                }
                Err(error) => match error.kind {
                    RecordErrorKind::DataChecksum => RowFault::Checksum,
                    RecordErrorKind::Truncated { .. } => {
                        self.bad_row("record", number, RowFault::Truncated)?;
                        break;
                    }
                    RecordErrorKind::Io(error) => {
                        return Err(DataError::io("read", self.name)(error).into());
                    }
                    _ => {
                        let what = error.to_string();
                        return Err(DataError::Sparse { path: self.name.into(), what }.into());
                    }
                },
            };
            self.bad_row("record", number, fault)?;
        }
        self.counts.bytes = records.offset();
        Ok(self.counts)
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
        if self.options.on_bad == OnBad::Skip {
            self.counts.skipped += 1;
            return Ok(());
        }
        Err(DataError::Row { path: self.name.into(), unit, number, what: fault.to_string() })
    }

    /// Whether `stop_at_zero` is set and a line is a good row if indices count from 0.
    #[cold]
    fn is_good_from_zero(&self, line: &[u8]) -> bool {
        let mut row = RowBuffer::default();
        let features = self.options.features.unwrap_or(MAX_FEATURES);
        self.stop_at_zero
            && libsvm::parse(line, 0, &mut row).is_ok_and(|found| found)
            && row.finish(features).is_ok()
    }
}
