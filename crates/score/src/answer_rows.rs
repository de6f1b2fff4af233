//! Turns answers into lines of text or columns, and writes them.

use std::io::Write;

use crate::answer::{AnswerStyle, AnswerValue};
#[cfg(feature = "parquet")]
use crate::answer_columns::{AnswerColumn, AnswerColumns, ColumnType};
use crate::error::ScoreError;
use crate::output_rows::{IdValue, OutputFormat, OutputRows};
#[cfg(feature = "parquet")]
use crate::parquet_output::ParquetOutput;

/// Some answers, ready to be written.
pub(crate) enum AnswerBlock {
    Text(Vec<u8>),
    #[cfg(feature = "parquet")]
    Columns(AnswerColumns),
}

/// Collects answers, on the threads that score.
#[derive(Clone)]
pub(crate) enum AnswerRows {
    Text(OutputRows),
    #[cfg(feature = "parquet")]
    Columns {
        columns: Vec<AnswerColumn>,
        classes: Vec<String>,
    },
}

/// The columns of answers.
#[cfg_attr(
    not(feature = "parquet"),
    expect(dead_code, reason = "the columns of text have no types, which style and number decide")
)]
pub(crate) struct AnswerLayout<'a> {
    pub(crate) style: AnswerStyle,
    /// The names of the columns that identify a row, and which of them is its number.
    pub(crate) ids: &'a [String],
    pub(crate) number: Option<usize>,
    pub(crate) answers: &'a [String],
    pub(crate) classes: &'a [String],
    /// Whether rows that cannot be scored are among the answers, with their error.
    pub(crate) has_errors: bool,
}

impl AnswerRows {
    pub(crate) fn new(format: OutputFormat, layout: &AnswerLayout<'_>) -> Self {
        #[cfg(feature = "parquet")]
        if format == OutputFormat::Parquet {
            let (columns, classes) = (layout.columns(), layout.classes.to_vec());
            return AnswerRows::Columns { columns, classes };
        }
        let AnswerLayout { ids, answers, classes, has_errors, .. } = *layout;
        AnswerRows::Text(OutputRows::new(format, ids, answers, classes, has_errors))
    }

    /// A block without rows.
    pub(crate) fn block(&self) -> AnswerBlock {
        match self {
            AnswerRows::Text(_) => AnswerBlock::Text(Vec::new()),
            #[cfg(feature = "parquet")]
            AnswerRows::Columns { columns, .. } => {
                AnswerBlock::Columns(AnswerColumns::new(columns))
            }
        }
    }

    /// Appends a row with its answer, or with the error of a row that cannot be scored.
    #[inline]
    pub(crate) fn push(
        &self,
        ids: &[IdValue<'_>],
        answer: Result<&[AnswerValue], &str>,
        block: &mut AnswerBlock,
    ) {
        match (self, block) {
            (AnswerRows::Text(rows), AnswerBlock::Text(text)) => match answer {
                Ok(answer) => rows.row(ids, answer, text),
                Err(error) => rows.bad_row(ids, error, text),
            },
            #[cfg(feature = "parquet")]
            (AnswerRows::Columns { classes, .. }, AnswerBlock::Columns(block)) => {
                block.push(ids, answer, classes);
            }
            #[cfg(feature = "parquet")]
            _ => unreachable!("a block of other rows"),
        }
    }
}

#[cfg(feature = "parquet")]
impl AnswerLayout<'_> {
    fn columns(&self) -> Vec<AnswerColumn> {
        let column = |name: &String, kind, is_optional| {
            let name = name.clone();
            AnswerColumn { name, kind, is_optional }
        };
        let id = |(index, name): (usize, &String)| {
            let is_number = self.number == Some(index);
            column(name, if is_number { ColumnType::Whole } else { ColumnType::Text }, false)
        };
        let answer = |(index, name): (usize, &String)| {
            let is_class = match self.style {
                AnswerStyle::Class => true,
                AnswerStyle::Top(_) => index % 2 == 0,
                AnswerStyle::Probabilities | AnswerStyle::Scores => false,
            };
            let kind = if is_class { ColumnType::Text } else { ColumnType::Float };
            column(name, kind, self.has_errors)
        };
        let ids = self.ids.iter().enumerate().map(id);
        let answers = self.answers.iter().enumerate().map(answer);
        let error = self.has_errors.then(|| column(&"error".into(), ColumnType::Text, true));
        ids.chain(answers).chain(error).collect()
    }
}

/// Writes blocks of answers to an output.
pub(crate) enum AnswerSink {
    Text,
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetOutput>),
}

impl AnswerSink {
    /// Begins the output.
    pub(crate) fn start(rows: &AnswerRows, out: &mut dyn Write) -> Result<Self, ScoreError> {
        match rows {
            AnswerRows::Text(rows) => {
                let header = out.write_all(&rows.header()).and_then(|()| out.flush());
                header.map_err(ScoreError::output)?;
                Ok(AnswerSink::Text)
            }
            #[cfg(feature = "parquet")]
            AnswerRows::Columns { columns, .. } => {
                Ok(AnswerSink::Parquet(Box::new(ParquetOutput::new(columns.clone())?)))
            }
        }
    }

    pub(crate) fn write(
        &mut self,
        block: AnswerBlock,
        out: &mut dyn Write,
    ) -> Result<(), ScoreError> {
        match (self, block) {
            (AnswerSink::Text, AnswerBlock::Text(text)) => {
                out.write_all(&text).map_err(ScoreError::output)
            }
            #[cfg(feature = "parquet")]
            (AnswerSink::Parquet(file), AnswerBlock::Columns(block)) => file.add(block, out),
            #[cfg(feature = "parquet")]
            _ => unreachable!("a block of other rows"),
        }
    }

    /// Ends the output.
    pub(crate) fn finish(self, out: &mut dyn Write) -> Result<(), ScoreError> {
        match self {
            AnswerSink::Text => {}
            #[cfg(feature = "parquet")]
            AnswerSink::Parquet(file) => file.finish(out)?,
        }
        out.flush().map_err(ScoreError::output)
    }
}
