//! What can be wrong with one row.
//!
//! A fault says only what is wrong. The reader of the file adds the path and the line or record,
//! and decides whether to skip the row, so a skipped row costs no formatting.

use std::fmt;

use super::limits::{MAX_LINE_BYTES, MAX_ROW_ENTRIES};
use paceline_tfrecord::proto::ProtoError;

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFault {
    /// The label is not 0, 1, -1 or +1, or there is not exactly one.
    Label,
    /// The label of a class is not a whole number from -1 to 254.
    ClassLabel,
    /// An entry is not `index:value`.
    Entry {
        /// The byte of the line at which the entry begins, from 1.
        at: usize,
    },
    /// An entry is not `field:index:value`.
    FieldEntry {
        /// The byte of the line at which the entry begins, from 1.
        at: usize,
    },
    /// A field above the greatest one.
    Field {
        /// The field.
        field: u64,
        /// The byte of the line at which the entry begins, from 1.
        at: usize,
    },
    /// A field that is not below the number of fields.
    FieldOutOfRange {
        /// The field.
        field: u16,
        /// The byte of the line at which the entry begins, from 1.
        at: usize,
        /// The number of fields.
        fields: usize,
    },
    /// An index 0 where indices count from 1.
    IndexZero,
    /// An index that is negative or needs more than 32 bits.
    Index,
    /// A key that is not below the number of features.
    KeyOutOfRange {
        /// The key, from 0.
        key: u32,
        /// The number of features.
        features: usize,
    },
    /// A value is infinite or not a number.
    NotFinite,
    /// More than [`MAX_ROW_ENTRIES`] entries.
    TooManyEntries,
    /// A line of more than [`MAX_LINE_BYTES`] bytes.
    LongLine,
    /// A line of Criteo's data does not have 40 columns.
    Columns(usize),
    /// A column of Criteo's data is malformed.
    Column {
        /// The column, from 1; the first is the label.
        column: usize,
    },
    /// The numbers of indices and values differ.
    Lengths { indices: usize, values: usize },
    /// A record is not a `tf.train.Example`.
    Proto(ProtoError),
    /// A feature of an Example has the wrong type.
    Type(&'static str),
    /// A record's data does not match its checksum.
    Checksum,
    /// The file ends within a record.
    Truncated,
}

impl From<ProtoError> for RowFault {
    fn from(error: ProtoError) -> Self {
        RowFault::Proto(error)
    }
}

impl fmt::Display for RowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label => f.write_str(
                "the label is not one of 0, 1, -1, +1; for more classes in LIBSVM text set \
                 model.kind = \"softmax\" or \"sparse-softmax\"",
            ),
            Self::ClassLabel => f.write_str("the label is not a whole number from -1 to 254"),
            Self::Entry { at } => write!(f, "byte {at}: not an entry such as 17:1 or 17:0.5"),
            Self::FieldEntry { at } => {
                write!(f, "byte {at}: not an entry such as 3:17:1, with field, index and value")
            }
            Self::Field { field, at } => write!(f, "byte {at}: the field {field} is above 65535"),
            Self::FieldOutOfRange { field, at, fields } => write!(
                f,
                "byte {at}: the field {field} is not below data.fields, {fields}; an entry has \
                 room for all fields up to the greatest, so set data.fields = {} only if the field \
                 is meant",
                usize::from(*field) + 1
            ),
            Self::IndexZero => f.write_str("index 0, but indices count from 1"),
            Self::Index => f.write_str("an index is negative or needs more than 32 bits"),
            Self::KeyOutOfRange { key, features } => {
                write!(f, "key {key} (from 0) is not below the number of features, {features}")
            }
            Self::NotFinite => f.write_str("a value is infinite, beyond 3.4e38 or not a number"),
            Self::TooManyEntries => write!(f, "more than {MAX_ROW_ENTRIES} entries"),
            Self::LongLine => write!(f, "longer than {MAX_LINE_BYTES} bytes"),
            Self::Columns(count) => {
                write!(f, "{count} columns instead of 40: a label, 13 counts and 26 categories")
            }
            Self::Column { column: column @ 2..=14 } => {
                write!(f, "column {column} is neither a whole number nor empty")
            }
            Self::Column { column } => {
                write!(f, "column {column} is neither 1 to 8 hexadecimal digits nor empty")
            }
            Self::Lengths { indices, values } => write!(f, "{indices} indices but {values} values"),
            Self::Proto(error) => write!(f, "not a tf.train.Example: {error}"),
            Self::Type(name) => write!(f, "the feature with its {name} has the wrong type"),
            Self::Checksum => f.write_str("the data fails its checksum"),
            Self::Truncated => f.write_str("the file ends within the record"),
        }
    }
}
