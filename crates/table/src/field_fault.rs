//! What can be wrong with a row. A fault is formatted only if the row is not skipped.

use crate::number::NumberFault;
use crate::records::RecordFields;

/// The longest part of a field that an error shows, in characters.
const SHOWN: usize = 40;

/// What is wrong with a row. Indices of fields count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldFault {
    /// The row does not have a field for each column of the table.
    Count {
        /// Fields of the row.
        found: usize,
        /// Columns of the table.
        expected: usize,
    },
    /// The field is not a number that can be used.
    Number {
        /// The field.
        index: usize,
        /// Why not.
        fault: NumberFault,
    },
    /// The label is missing.
    NoLabel,
    /// The label is not one of the classes.
    UnseenLabel {
        /// The field.
        index: usize,
    },
    /// The weight is not a number from 0 up.
    Weight {
        /// The field.
        index: usize,
    },
}

impl FieldFault {
    /// Says what is wrong with a row of these fields, in a table with these columns.
    pub fn describe(&self, fields: &RecordFields<'_>, names: &[String]) -> String {
        let column = |index: usize| match names.get(index) {
            Some(name) if *name != (index + 1).to_string() => {
                format!("column {} ({name:?})", index + 1)
            }
            _ => format!("column {}", index + 1),
        };
        let text = |index: usize| {
            let text = String::from_utf8_lossy(fields.get(index));
            let mut shown: String = text.chars().take(SHOWN).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            format!("{shown:?}")
        };
        match *self {
            FieldFault::Count { found, expected } => {
                let fields = if found == 1 { "field" } else { "fields" };
                format!("{found} {fields}, but there are {expected} columns")
            }
            FieldFault::Number { index, fault } => {
                let why = match fault {
                    NumberFault::Text => {
                        "is not a number; declare the column a category or text, or leave the \
                         field empty if its value is missing"
                    }
                    NumberFault::Grouped => "has commas between its digits; write it without them",
                    NumberFault::Infinite => {
                        "is infinite or beyond 3.4e38; leave the field empty if its value is \
                         missing"
                    }
                };
                format!("{}: {} {why}", column(index), text(index))
            }
            FieldFault::NoLabel => "the label is missing".into(),
            FieldFault::UnseenLabel { index } => format!(
                "{}: the label {} is none of the classes; name all of them in the column's classes",
                column(index),
                text(index)
            ),
            FieldFault::Weight { index } => {
                format!("{}: the weight {} is not a number from 0 up", column(index), text(index))
            }
        }
    }
}
