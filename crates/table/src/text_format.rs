//! How the text of a table is written: its delimiter, its quotes and its header.

use serde::{Deserialize, Serialize};

/// How the text of a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextFormat {
    /// The byte between two fields.
    #[serde(with = "delimiter_text")]
    pub delimiter: u8,
    /// Whether double quotes enclose fields that contain delimiters, quotes or line ends.
    pub quotes: bool,
    /// Whether the first record of every file has the names of the columns.
    pub header: bool,
}

impl Default for TextFormat {
    /// Commas, quotes and a header.
    fn default() -> Self {
        Self { delimiter: b',', quotes: true, header: true }
    }
}

/// A delimiter as text of one character.
mod delimiter_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(byte: &u8, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_char(char::from(*byte))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<u8, D::Error> {
        let text = char::deserialize(from)?;
        u8::try_from(text).ok().filter(u8::is_ascii).ok_or_else(|| D::Error::custom("not ASCII"))
    }
}

/// The format of the text that a Parquet file becomes.
#[cfg(feature = "parquet")]
pub(crate) const PARQUET_FORMAT: TextFormat =
    TextFormat { delimiter: b',', quotes: true, header: true };
