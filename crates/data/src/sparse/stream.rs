//! Rows out of a stream, whatever its format: the loop around the parsers.
//!
//! Each parser knows one row. Here is what they have in common: which line or record it was,
//! and whether a bad one ends the reading or is counted. Damage to what holds the rows together
//! (a broken length, a gzip stream that fails) is always an error, because nobody can tell how
//! many rows it cost; only a last record that was cut short counts as a bad row.

use std::io::Read;
use std::path::Path;

use paceline_tfrecord::{RecordErrorKind, RecordReader};

use super::format::SparseFormat;
use super::limits::{MAX_FEATURES, MAX_RECORD_BYTES};
use super::lines::{Line, Lines};
use super::row::{RowBuffer, SparseRow};
use super::row_fault::RowFault;
use super::{criteo, example, libsvm};
use crate::error::DataError;
use crate::on_bad::OnBad;

/// How to read a stream of rows.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// What the stream is.
    pub format: SparseFormat,
    /// How many features there are; None: as many as keys can tell apart. Criteo's rows are
    /// hashed into just so many.
    pub features: Option<usize>,
    /// What the first feature is called in LIBSVM text: 0 or 1.
    pub first_index: u32,
    /// What to do about rows that cannot be read.
    pub on_bad: OnBad,
}

/// What came of reading a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Rows read.
    pub rows: u64,
    /// Rows left out because they could not be read.
    pub skipped: u64,
    /// Content read, in bytes.
    pub bytes: u64,
}

/// Why reading ended before the end.
pub(crate) enum Stop {
    /// Something is wrong.
    Error(DataError),
    /// An index 0 stands in a good row, where indices were taken to count from 1.
    FromZero,
}

impl From<DataError> for Stop {
    fn from(error: DataError) -> Self {
        Stop::Error(error)
    }
}

/// Reads a stream of rows to its end and hands over each. `name` is for errors.
///
/// The stream must be plain (not gzip) and is read in blocks: it needs no buffer around it,
/// unless it holds TFRecords.
///
/// # Errors
/// If a row cannot be read (unless such rows are skipped), the stream is broken, or `take`
/// says so.
pub fn read_rows(
    source: impl Read,
    name: &Path,
    options: &ReadOptions,
    take: &mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
) -> Result<ReadCounts, DataError> {
    match read(source, name, options, false, take) {
        Ok(tally) => Ok(tally),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::FromZero) => unreachable!("only said to those who ask for it"),
    }
}

/// [`read_rows`], and if `watch_for_zero` an index 0 is told apart from other faults.
pub(crate) fn read(
    source: impl Read,
    name: &Path,
    options: &ReadOptions,
    watch_for_zero: bool,
    take: &mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
) -> Result<ReadCounts, Stop> {
    let state = State { name, options, watch_for_zero, take, tally: ReadCounts::default() };
    match options.format {
        SparseFormat::Libsvm => state.text(source, "line", |state, line, row| {
            if !libsvm::parse(line, state.options.first_index, row)? {
                return Ok(None);
            }
            row.finish(state.options.features.unwrap_or(MAX_FEATURES)).map(Some)
        }),
        SparseFormat::Criteo => state.text(source, "line", |state, line, row| {
            let features = state.options.features.unwrap_or(MAX_FEATURES) as u32;
            Ok(criteo::parse(line, features, row)?.then(|| row.finish_ones()))
        }),
        SparseFormat::TfRecord => state.records(source),
    }
}

/// What the loops share.
struct State<'a> {
    name: &'a Path,
    options: &'a ReadOptions,
    watch_for_zero: bool,
    take: &'a mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
    tally: ReadCounts,
}

impl State<'_> {
    fn text<P>(
        mut self,
        source: impl Read,
        unit: &'static str,
        parse: P,
    ) -> Result<ReadCounts, Stop>
    where
        P: for<'r> Fn(&Self, &[u8], &'r mut RowBuffer) -> Result<Option<SparseRow<'r>>, RowFault>,
    {
        let mut lines = Lines::new(source);
        let mut row = RowBuffer::default();
        loop {
            let number = lines.lines() + 1;
            let fault = match lines.next().map_err(DataError::io("read", self.name))? {
                None => break,
                Some(Line::TooLong) => RowFault::LongLine,
                Some(Line::Text(line)) => match parse(&self, line, &mut row) {
                    Ok(None) => continue,
                    Ok(Some(row)) => {
                        self.hand_over(row)?;
                        continue;
                    }
                    Err(RowFault::BelowBase) if self.good_from_zero(line) => {
                        return Err(Stop::FromZero);
                    }
                    Err(fault) => fault,
                },
            };
            self.bad(unit, number, fault)?;
        }
        self.tally.bytes = lines.bytes();
        Ok(self.tally)
    }

    fn records(mut self, source: impl Read) -> Result<ReadCounts, Stop> {
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
                            self.hand_over(row)?;
                            continue;
                        }
                        Err(fault) => fault,
                    }
                }
                Err(error) => match error.kind {
                    RecordErrorKind::DataChecksum => RowFault::Checksum,
                    RecordErrorKind::Truncated { .. } => {
                        self.bad("record", number, RowFault::Truncated)?;
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
            self.bad("record", number, fault)?;
        }
        self.tally.bytes = records.offset();
        Ok(self.tally)
    }

    #[inline]
    fn hand_over(&mut self, row: SparseRow<'_>) -> Result<(), DataError> {
        self.tally.rows += 1;
        (self.take)(row)
    }

    /// A bad row: an error, or one more that was skipped.
    #[cold]
    fn bad(&mut self, unit: &'static str, number: u64, fault: RowFault) -> Result<(), DataError> {
        if self.options.on_bad == OnBad::Skip {
            self.tally.skipped += 1;
            return Ok(());
        }
        Err(DataError::Row { path: self.name.into(), unit, number, what: fault.to_string() })
    }

    /// Whether a line is a good row if indices count from 0, and somebody wants to know.
    #[cold]
    fn good_from_zero(&self, line: &[u8]) -> bool {
        let mut row = RowBuffer::default();
        let features = self.options.features.unwrap_or(MAX_FEATURES);
        self.watch_for_zero
            && libsvm::parse(line, 0, &mut row).is_ok_and(|found| found)
            && row.finish(features).is_ok()
    }
}
