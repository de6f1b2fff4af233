//! Answers as columns of values, which a file of columns stores.

use crate::answer::AnswerValue;
use crate::output_rows::IdValue;

/// The type of a column of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    /// Numbers of rows.
    Whole,
    /// Probabilities or scores.
    Float,
    Text,
}

/// A column of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnswerColumn {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    /// Whether a row may lack it.
    pub(crate) is_optional: bool,
}

/// The values of a column, without those that are missing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnValues {
    Whole(Vec<i64>),
    Float(Vec<f32>),
    Text(Vec<String>),
}

/// Some rows, column by column.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerColumns {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ColumnValues>,
    /// For each column, whether each row has a value.
    pub(crate) present: Vec<Vec<bool>>,
}

impl AnswerColumns {
    pub(crate) fn new(columns: &[AnswerColumn]) -> Self {
        let values = |column: &AnswerColumn| match column.kind {
            ColumnType::Whole => ColumnValues::Whole(Vec::new()),
            ColumnType::Float => ColumnValues::Float(Vec::new()),
            ColumnType::Text => ColumnValues::Text(Vec::new()),
        };
        let present = vec![Vec::new(); columns.len()];
        Self { rows: 0, columns: columns.iter().map(values).collect(), present }
    }

    /// Appends a row with its answer; without one, with an error in the last column.
    pub(crate) fn push(
        &mut self,
        ids: &[IdValue<'_>],
        answer: Result<&[AnswerValue], &str>,
        classes: &[String],
    ) {
        for (column, id) in ids.iter().enumerate() {
            match (&mut self.columns[column], id) {
                (ColumnValues::Whole(values), IdValue::Number(number)) => {
                    values.push(*number as i64);
                }
                (ColumnValues::Text(values), IdValue::Text(text)) => values.push((*text).into()),
                // The ids of a bad line are unknown.
                _ => continue,
            }
            self.mark(column);
        }
        match answer {
            Ok(answer) => {
                for (column, value) in (ids.len()..).zip(answer) {
                    match (&mut self.columns[column], *value) {
                        (ColumnValues::Float(values), AnswerValue::Number(number)) => {
                            values.push(number);
                        }
                        (ColumnValues::Text(values), AnswerValue::Class(class)) => {
                            values.push(classes[class].clone());
                        }
                        _ => continue,
                    }
                    self.mark(column);
                }
            }
            Err(error) => {
                let last = self.columns.len() - 1;
                if let ColumnValues::Text(values) = &mut self.columns[last] {
                    values.push(error.into());
                }
                self.mark(last);
            }
        }
        self.rows += 1;
        self.present.iter_mut().for_each(|present| present.resize(self.rows, false));
    }

    /// Notes that the row that is being appended has a value.
    fn mark(&mut self, column: usize) {
        self.present[column].push(true);
    }

    /// Appends the rows of another block.
    pub(crate) fn append(&mut self, other: Self) {
        self.rows += other.rows;
        for (values, more) in self.columns.iter_mut().zip(other.columns) {
            match (values, more) {
                (ColumnValues::Whole(values), ColumnValues::Whole(more)) => values.extend(more),
                (ColumnValues::Float(values), ColumnValues::Float(more)) => values.extend(more),
                (ColumnValues::Text(values), ColumnValues::Text(more)) => values.extend(more),
                _ => unreachable!("all blocks have the same columns"),
            }
        }
        for (present, more) in self.present.iter_mut().zip(other.present) {
            present.extend(more);
        }
    }
}
