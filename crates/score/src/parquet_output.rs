//! Writes answers as a Parquet file.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use parquet::basic::{Compression, ConvertedType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use crate::answer_columns::{AnswerColumn, AnswerColumns, ColumnType, ColumnValues};
use crate::error::ScoreError;

/// Rows of a row group: memory has a bound, and readers can take parts.
const GROUP_ROWS: usize = 128 << 10;

/// A Parquet file that grows by blocks of answers.
pub(crate) struct ParquetOutput {
    writer: SerializedFileWriter<ByteQueue>,
    bytes: ByteQueue,
    columns: Vec<AnswerColumn>,
    /// Rows that are not yet written.
    waiting: AnswerColumns,
}

/// Bytes on their way to the output.
#[derive(Clone, Default)]
struct ByteQueue(Arc<Mutex<Vec<u8>>>);

impl Write for ByteQueue {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ParquetOutput {
    pub(crate) fn new(columns: Vec<AnswerColumn>) -> Result<Self, ScoreError> {
        let bytes = ByteQueue::default();
        let fields: Result<Vec<_>, _> = columns.iter().map(field).collect();
        let schema = fields.and_then(|fields| {
            let fields = fields.into_iter().map(Arc::new).collect();
            Type::group_type_builder("answers").with_fields(fields).build()
        });
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = schema.and_then(|schema| {
            SerializedFileWriter::new(bytes.clone(), Arc::new(schema), Arc::new(properties))
        });
        let waiting = AnswerColumns::new(&columns);
        Ok(Self { writer: writer.map_err(unwritable)?, bytes, columns, waiting })
    }

    /// Adds answers, and writes a row group if there are enough.
    pub(crate) fn add(
        &mut self,
        answers: AnswerColumns,
        out: &mut dyn Write,
    ) -> Result<(), ScoreError> {
        self.waiting.append(answers);
        if self.waiting.rows < GROUP_ROWS {
            return Ok(());
        }
        self.write_group(out)
    }

    fn write_group(&mut self, out: &mut dyn Write) -> Result<(), ScoreError> {
        let group = mem::replace(&mut self.waiting, AnswerColumns::new(&self.columns));
        if group.rows > 0 {
            self.encode(&group).map_err(unwritable)?;
        }
        self.drain(out)
    }

    fn encode(&mut self, group: &AnswerColumns) -> Result<(), ParquetError> {
        let mut writer = self.writer.next_row_group()?;
        let columns = group.columns.iter().zip(&group.present).zip(&self.columns);
        for ((values, present), about) in columns {
            let Some(column) = writer.next_column()? else { break };
            let levels: Option<Vec<i16>> =
                about.is_optional.then(|| present.iter().map(|&is| i16::from(is)).collect());
            match values {
                ColumnValues::Whole(values) => write::<Int64Type>(column, values, levels)?,
                ColumnValues::Float(values) => write::<FloatType>(column, values, levels)?,
                ColumnValues::Text(values) => {
                    let texts: Vec<ByteArray> =
                        values.iter().map(|text| text.as_str().into()).collect();
                    write::<ByteArrayType>(column, &texts, levels)?;
                }
            }
        }
        writer.close()?;
        Ok(())
    }

    fn drain(&self, out: &mut dyn Write) -> Result<(), ScoreError> {
        let bytes = mem::take(&mut *self.bytes.0.lock().unwrap_or_else(PoisonError::into_inner));
        out.write_all(&bytes).map_err(ScoreError::output)
    }

    /// Writes the rows that wait, and the end of the file.
    pub(crate) fn finish(mut self, out: &mut dyn Write) -> Result<(), ScoreError> {
        self.write_group(out)?;
        self.writer.finish().map_err(unwritable)?;
        self.drain(out)
    }
}

fn field(column: &AnswerColumn) -> Result<Type, ParquetError> {
    let (kind, meaning) = match column.kind {
        ColumnType::Whole => (PhysicalType::INT64, ConvertedType::NONE),
        ColumnType::Float => (PhysicalType::FLOAT, ConvertedType::NONE),
        ColumnType::Text => (PhysicalType::BYTE_ARRAY, ConvertedType::UTF8),
    };
    let optional = Repetition::OPTIONAL;
    Type::primitive_type_builder(&column.name, kind)
        .with_converted_type(meaning)
        .with_repetition(if column.is_optional { optional } else { Repetition::REQUIRED })
        .build()
}

fn write<T: DataType>(
    mut column: SerializedColumnWriter<'_>,
    values: &[T::T],
    levels: Option<Vec<i16>>,
) -> Result<(), ParquetError> {
    column.typed::<T>().write_batch(values, levels.as_deref(), None)?;
    column.close()
}

fn unwritable(error: ParquetError) -> ScoreError {
    ScoreError::Io { what: "cannot write Parquet".into(), source: io::Error::other(error) }
}
