//! What can be wrong with one row.
//!
//! A fault says what; the file and the line or record are known to whoever reads the file, and
//! so is whether the row is skipped instead. So a fault costs nothing until somebody prints it.

use std::fmt;

use super::limits::{MAX_LINE_BYTES, MAX_ROW_ENTRIES};
use paceline_tfrecord::proto::ProtoError;

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFault {
    /// The label is none of 0, 1, -1 and +1, or there is not exactly one.
    Label,
    /// An entry is not `index:value`.
    Entry {
        /// The byte of the line at which it begins, from 1.
        at: usize,
    },
    /// An index below the first one.
    BelowBase,
    /// An index that no key can hold.
    Index,
    /// A key outside the features.
    Beyond {
        /// The key, from 0.
        key: u32,
        /// How many features there are.
        features: usize,
    },
    /// A value is infinite or not a number.
    NotFinite,
    /// Too many entries.
    Entries,
    /// A line beyond the limit.
    LongLine,
    /// Not the 40 columns of Criteo's data.
    Columns(usize),
    /// A column of Criteo's data is not what it should be.
    Column {
        /// Which one, from 1, the label being the first.
        column: usize,
    },
    /// As many indices as values were due.
    Lengths {
        /// Indices there are.
        indices: usize,
        /// Values there are.
        values: usize,
    },
    /// A record is not a `tf.train.Example`.
    Proto(ProtoError),
    /// A feature of an Example is of another type.
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
            Self::Label => f.write_str("the label is not one of 0, 1, -1, +1"),
            Self::Entry { at } => write!(f, "byte {at}: not an entry such as 17:1 or 17:0.5"),
            Self::BelowBase => f.write_str("index 0, but indices count from 1 here"),
            Self::Index => f.write_str("an index is negative or needs more than 32 bits"),
            Self::Beyond { key, features } => {
                write!(f, "key {key} (from 0) is outside the {features} features")
            }
            Self::NotFinite => f.write_str("a value is infinite or not a number"),
            Self::Entries => write!(f, "more than {MAX_ROW_ENTRIES} entries"),
            Self::LongLine => write!(f, "longer than {MAX_LINE_BYTES} bytes"),
            Self::Columns(count) => {
                write!(f, "{count} columns where a label, 13 counts and 26 categories are due")
            }
            Self::Column { column: column @ 2..=14 } => {
                write!(f, "column {column} is not a whole number, nor empty")
            }
            Self::Column { column } => {
                write!(f, "column {column} is not 1 to 8 hexadecimal digits, nor empty")
            }
            Self::Lengths { indices, values } => write!(f, "{indices} indices but {values} values"),
            Self::Proto(error) => write!(f, "not a tf.train.Example: {error}"),
            Self::Type(name) => write!(f, "the feature {name:?} has the wrong type"),
            Self::Checksum => f.write_str("the data fails its checksum"),
            Self::Truncated => f.write_str("the file ends within the record"),
        }
    }
}
