//! Opens a file of a table by its content: text, packed text or Parquet.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use paceline_data::{DataError, unpack};

use crate::format_choice::FormatChoice;
use crate::table_text::TableText;

/// Opens a table. `content` is the file, unpacked; a Parquet file is opened again by its path.
pub(crate) fn open_table_file<'s>(
    path: &'s Path,
    content: &'s mut TableContent<'_>,
    choice: &FormatChoice,
) -> Result<TableText<'s>, DataError> {
    match content {
        TableContent::Text(text) => TableText::open(path, *text, choice),
        #[cfg(feature = "parquet")]
        TableContent::Parquet(text) => {
            let format = crate::parquet_text::PARQUET_FORMAT;
            Ok(TableText::open(path, text, &format.into())?.counting_rows())
        }
    }
}

/// The content of a file.
pub(crate) enum TableContent<'c> {
    Text(&'c mut dyn Read),
    #[cfg(feature = "parquet")]
    Parquet(crate::parquet_text::MeteredParquet<'c>),
}

impl<'c> TableContent<'c> {
    /// The content of a file whose text, if it is text, is `text`.
    pub(crate) fn of(path: &Path, text: &'c mut dyn Read) -> Result<Self, DataError> {
        match &first_bytes(path) {
            b"PAR1" => {}
            b"PARE" => {
                let what = "this is an encrypted Parquet file; decrypt it first".into();
                return Err(DataError::Sparse { path: path.into(), what });
            }
            _ => return Ok(TableContent::Text(text)),
        }
        #[cfg(feature = "parquet")]
        {
            let parquet = crate::parquet_text::ParquetText::open(path)?;
            Ok(TableContent::Parquet(parquet.metered_by(text)))
        }
        #[cfg(not(feature = "parquet"))]
        Err(DataError::Sparse {
            path: path.into(),
            what:
                "this is a Parquet file, but this program was built without the feature parquet; \
                   build it with that feature, or convert the file to CSV"
                    .into(),
        })
    }
}

/// The text of a file, plain, packed or Parquet, whose rows then are lines of CSV with a header.
///
/// # Errors
/// If the file cannot be opened, or is a Parquet file that cannot be read.
pub fn open_table_stream(path: &Path) -> Result<Box<dyn Read + Send>, DataError> {
    let mut unpacked = unpack::open(path)?;
    match TableContent::of(path, &mut unpacked)? {
        TableContent::Text(_) => {}
        #[cfg(feature = "parquet")]
        TableContent::Parquet(parquet) => return Ok(Box::new(parquet.text)),
    }
    Ok(Box::new(unpacked))
}

/// The first bytes of a file; zeros if it has none.
fn first_bytes(path: &Path) -> [u8; 4] {
    let mut first = [0; 4];
    match File::open(path).and_then(|mut file| file.read_exact(&mut first)) {
        Ok(()) => first,
        Err(_) => [0; 4],
    }
}
