//! The rows of a Parquet file as the text of a table.
//!
//! Values become text and are then read as those of a CSV file are. So a model that was trained on
//! one of the two formats reads the other with the same code, and gets the same numbers.

use std::fs::File;
use std::io::{self, Read};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use paceline_data::DataError;
use parquet::basic::Type::{BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::parquet_cell::{CellForm, put, put_field};
use crate::parquet_lengths::CheckedLengths;
use crate::parquet_pages::{CheckedPages, MemoryClaim, check_footer, unsound};
use crate::table_text::MOST_COLUMNS;
use crate::text_format::PARQUET_FORMAT;

/// Rows that are converted at a time, unless they are long.
const BATCH_ROWS: usize = 1024;
/// How long the rows of a batch should be together, in bytes.
const BATCH_BYTES: u64 = 32 << 20;
/// How long the values of a batch may be together: a file may name one long text for each row.
const MOST_BATCH_BYTES: usize = 128 << 20;
/// Texts that the library decodes at a time: it gives each its own memory, however long it is.
const TEXTS_AT_ONCE: usize = 16;

const TOO_LONG: &str = "more than 128 MB of text in 1024 rows";

/// Reads a Parquet file as text.
pub(crate) struct ParquetText {
    file: File,
    reader: SerializedFileReader<File>,
    /// The row group that is read next.
    next_group: usize,
    columns: Vec<ColumnText>,
    /// Rows that are converted at a time in the current group.
    batch_rows: usize,
    /// Rows of the current group that are not yet read.
    rows_left: usize,
    /// Rows that were read, of all groups.
    rows_read: u64,
    /// Text that is not yet taken, from `taken`.
    text: Vec<u8>,
    taken: usize,
}

/// A column of the current row group.
struct ColumnText {
    reader: ColumnReader,
    /// The definition level of a value that is not missing.
    present: i16,
    form: CellForm,
    levels: Vec<i16>,
    /// The texts of a batch, and where each ends.
    cells: Vec<u8>,
    ends: Vec<usize>,
}

impl ParquetText {
    /// Opens a Parquet file.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let refused = |what: String| DataError::Sparse { path: path.into(), what };
        let file = File::open(path).map_err(DataError::io("open", path))?;
        let reader = caught(|| {
            check_footer(&file)?;
            SerializedFileReader::new(file.try_clone()?)
        });
        let reader = reader.map_err(|error| {
            refused(format!("not a sound Parquet file: {error}; write it again"))
        })?;
        let schema = reader.metadata().file_metadata().schema_descr();
        if schema.num_columns() > MOST_COLUMNS {
            return Err(refused(format!("more than {MOST_COLUMNS} columns")));
        }
        let mut text = Vec::new();
        for (index, column) in schema.columns().iter().enumerate() {
            let parts = column.path().parts();
            if parts.len() > 1 || column.max_rep_level() > 0 {
                return Err(refused(format!(
                    "the column {:?} is nested, and a table has plain columns; write its parts as \
                     columns of their own",
                    parts[0]
                )));
            }
            if index > 0 {
                text.push(PARQUET_FORMAT.delimiter);
            }
            put_field(&mut text, column.name().as_bytes(), false);
        }
        text.push(b'\n');
        Ok(Self {
            file,
            reader,
            next_group: 0,
            columns: Vec::new(),
            batch_rows: BATCH_ROWS,
            rows_left: 0,
            rows_read: 0,
            text,
            taken: 0,
        })
    }

    /// Reads as much of `content`, which has the same bytes, as corresponds to the rows read. So a
    /// reader that counts progress and wants to stop learns of them.
    pub(crate) fn metered_by(self, content: &mut dyn Read) -> MeteredParquet<'_> {
        MeteredParquet { text: self, content, read: 0 }
    }

    /// The bytes of the file that correspond to the rows read.
    fn bytes_read(&self) -> u64 {
        let about = self.reader.metadata();
        let bytes: i64 = about
            .row_groups()
            .iter()
            .map(|group| group.compressed_size())
            .fold(0, i64::saturating_add);
        let rows = about.file_metadata().num_rows().max(1) as f64;
        (bytes.max(0) as f64 * self.rows_read as f64 / rows) as u64
    }

    /// Writes the text of the next rows. Returns false at the end.
    fn convert_more(&mut self) -> Result<bool, ParquetError> {
        self.text.clear();
        self.taken = 0;
        while self.rows_left == 0 {
            if self.next_group == self.reader.num_row_groups() {
                return Ok(false);
            }
            let group = self.reader.metadata().row_group(self.next_group);
            self.next_group += 1;
            let columns = self.reader.metadata().file_metadata().schema_descr().num_columns();
            if group.num_columns() != columns {
                // Without any column, its rows would have no end.
                let what = "a group of rows has other columns than the file";
                return Err(ParquetError::General(what.into()));
            }
            self.rows_left = usize::try_from(group.num_rows()).unwrap_or_default();
            self.batch_rows = batch_rows(group);
            let claimed = Arc::default();
            let column = |index| ColumnText::new(group, index, &self.file, &claimed);
            self.columns = (0..columns).map(column).collect::<Result<_, _>>()?;
        }
        let rows = self.rows_left.min(self.batch_rows);
        self.rows_left -= rows;
        self.rows_read += rows as u64;
        let mut room = MOST_BATCH_BYTES;
        for column in &mut self.columns {
            column.read(rows, room)?;
            room = room.saturating_sub(column.cells.len());
        }
        for row in 0..rows {
            for (index, column) in self.columns.iter().enumerate() {
                if index > 0 {
                    self.text.push(PARQUET_FORMAT.delimiter);
                }
                put_field(&mut self.text, column.cell(row), self.columns.len() == 1);
            }
            self.text.push(b'\n');
        }
        Ok(true)
    }
}

/// How many rows of a group are converted at a time.
fn batch_rows(group: &RowGroupMetaData) -> usize {
    let bytes = u64::try_from(group.total_byte_size()).unwrap_or_default();
    let rows = u64::try_from(group.num_rows()).unwrap_or_default();
    let fitting = u128::from(rows) * u128::from(BATCH_BYTES) / u128::from(bytes.max(1));
    fitting.clamp(1, BATCH_ROWS as u128) as usize
}

impl Read for ParquetText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.text.len() && !caught(|| self.convert_more()).map_err(unreadable)? {
            return Ok(0);
        }
        let count = buffer.len().min(self.text.len() - self.taken);
        buffer[..count].copy_from_slice(&self.text[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

/// A Parquet file whose progress another reader counts.
pub(crate) struct MeteredParquet<'c> {
    pub(crate) text: ParquetText,
    content: &'c mut dyn Read,
    /// Bytes that were read of `content`.
    read: u64,
}

impl Read for MeteredParquet<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.text.read(buffer)?;
        let due = self.text.bytes_read().saturating_sub(self.read);
        if due > 0 || count == 0 {
            // At the end, the footer, too.
            let due = if count == 0 { u64::MAX } else { due };
            self.read += io::copy(&mut (&mut *self.content).take(due), &mut io::sink())?;
        }
        Ok(count)
    }
}

impl ColumnText {
    fn new(
        group: &RowGroupMetaData,
        index: usize,
        file: &File,
        claimed: &Arc<AtomicU64>,
    ) -> Result<Self, ParquetError> {
        let (chunk, rows) = (group.column(index), usize::try_from(group.num_rows())?);
        let about = chunk.column_descr_ptr();
        let (form, present) = (CellForm::of(&about), about.max_def_level());
        let pages = CheckedPages::new(file, MemoryClaim::of(claimed))?;
        let pages = SerializedPageReader::new(Arc::new(pages), chunk, rows, None)?;
        let pages = CheckedLengths::new(pages, present > 0, MemoryClaim::of(claimed));
        let reader = get_column_reader(about, Box::new(pages));
        Ok(Self { reader, present, form, levels: vec![], cells: vec![], ends: vec![] })
    }

    /// The text of a row of the batch; empty if its value is missing.
    fn cell(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.cells[start..self.ends[row]]
    }

    /// Reads the next rows as text of at most `room` bytes.
    fn read(&mut self, rows: usize, room: usize) -> Result<(), ParquetError> {
        self.cells.clear();
        self.ends.clear();
        self.levels.clear();
        let (form, present) = (self.form, self.present);
        let mut cells =
            Cells { text: &mut self.cells, ends: &mut self.ends, levels: &mut self.levels, room };
        match &mut self.reader {
            ColumnReader::BoolColumnReader(reader) => cells.fill(reader, rows, present, put),
            ColumnReader::Int32ColumnReader(reader) => {
                cells.fill(reader, rows, present, |text, value| form.put_i32(text, *value))
            }
            ColumnReader::Int64ColumnReader(reader) => {
                cells.fill(reader, rows, present, |text, value| form.put_i64(text, *value))
            }
            ColumnReader::Int96ColumnReader(reader) => {
                cells.fill(reader, rows, present, |text, value| put(text, &value.to_millis()))
            }
            ColumnReader::FloatColumnReader(reader) => cells.fill(reader, rows, present, put),
            ColumnReader::DoubleColumnReader(reader) => cells.fill(reader, rows, present, put),
            ColumnReader::ByteArrayColumnReader(reader) => {
                cells.fill(reader, rows, present, |text, value| form.put_bytes(text, value.data()))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                cells.fill(reader, rows, present, |text, value| form.put_bytes(text, value.data()))
            }
        }
    }
}

/// Where a batch of a column goes.
struct Cells<'a> {
    text: &'a mut Vec<u8>,
    ends: &'a mut Vec<usize>,
    levels: &'a mut Vec<i16>,
    /// The most bytes of text.
    room: usize,
}

impl Cells<'_> {
    fn fill<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        rows: usize,
        present: i16,
        mut put: impl FnMut(&mut Vec<u8>, &T::T),
    ) -> Result<(), ParquetError> {
        let is_text = matches!(T::get_physical_type(), BYTE_ARRAY | FIXED_LEN_BYTE_ARRAY);
        let at_once = if is_text { TEXTS_AT_ONCE } else { BATCH_ROWS };
        let mut values = Vec::with_capacity(rows.min(at_once));
        while self.ends.len() < rows {
            values.clear();
            self.levels.clear();
            let missing = (rows - self.ends.len()).min(at_once);
            let (read, ..) = reader.read_records(missing, Some(self.levels), None, &mut values)?;
            if read == 0 {
                return Err(ParquetError::EOF("a column has too few values".into()));
            }
            let mut values = values.iter();
            for row in 0..read {
                if present == 0 || self.levels.get(row) == Some(&present) {
                    let value = values.next();
                    let value = value.ok_or_else(|| ParquetError::EOF("too few values".into()))?;
                    put(self.text, value);
                    if self.text.len() > self.room {
                        return Err(unsound(TOO_LONG));
                    }
                }
                self.ends.push(self.text.len());
            }
        }
        Ok(())
    }
}

/// Calls the library, which panics on some damaged files.
fn caught<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    // What a panic has left half done is not used again: the file is given up.
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    result.unwrap_or_else(|_| Err(ParquetError::General("its pages contradict each other".into())))
}

/// The error of a file whose pages cannot be read. The footer of a file with encrypted columns may
/// be plain, and then only the pages show it.
fn unreadable(error: ParquetError) -> io::Error {
    let error = error.to_string();
    let remedy = if error.contains("Disabled feature") {
        "write it again, uncompressed or with snappy, gzip, zstd or lz4"
    } else if error.contains(TOO_LONG) {
        "write it again without the columns of long texts"
    } else {
        "the file is damaged, or has encrypted columns: write it again without them"
    };
    io::Error::other(format!("{error}; {remedy}"))
}
