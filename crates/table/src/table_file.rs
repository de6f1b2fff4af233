//! Opens a file of a table by its content: text, packed text or Parquet.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use paceline_data::{DataError, unpack};

use crate::format_choice::FormatChoice;
use crate::table_text::TableText;
use crate::text_format::PARQUET_FORMAT;

/// Opens a table. `text` is the file, unpacked; a Parquet file is opened again by its path.
pub(crate) fn open_table_file<'s>(
    path: &'s Path,
    text: &'s mut dyn Read,
    choice: &FormatChoice,
) -> Result<TableText<'s>, DataError> {
    match parquet_text(path)? {
        None => TableText::open(path, Box::new(text), choice),
        Some(text) => Ok(TableText::open(path, text, &PARQUET_FORMAT.into())?.counting_rows()),
    }
}

/// The text of a file, plain, packed or Parquet, whose rows then are lines of CSV with a header.
///
/// # Errors
/// If the file cannot be opened, or is a Parquet file that cannot be read.
pub fn open_table_stream(path: &Path) -> Result<Box<dyn Read + Send>, DataError> {
    let unpacked = unpack::open(path)?;
    match parquet_text(path)? {
        None => Ok(Box::new(unpacked)),
        Some(text) => Ok(text),
    }
}

/// The text of a file, if it is a Parquet file.
fn parquet_text(path: &Path) -> Result<Option<Box<dyn Read + Send>>, DataError> {
    match &first_bytes(path) {
        b"PAR1" => {}
        b"PARE" => {
            let what = "this is an encrypted Parquet file; decrypt it first".into();
            return Err(DataError::Sparse { path: path.into(), what });
        }
        _ => return Ok(None),
    }
    #[cfg(feature = "parquet")]
    return Ok(Some(Box::new(crate::parquet_text::ParquetText::open(path)?)));
    #[cfg(not(feature = "parquet"))]
    Err(DataError::Sparse {
        path: path.into(),
        what: "this is a Parquet file, but this program was built without the feature parquet; \
               build it with that feature, or convert the file to CSV"
            .into(),
    })
}

/// The first bytes of a file; zeros if it has none.
fn first_bytes(path: &Path) -> [u8; 4] {
    let mut first = [0; 4];
    match File::open(path).and_then(|mut file| file.read_exact(&mut first)) {
        Ok(()) => first,
        Err(_) => [0; 4],
    }
}
