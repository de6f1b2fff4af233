//! Opens a file of a table by its content: text, packed text or Parquet.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use paceline_data::{DataError, unpack};

use crate::format_choice::FormatChoice;
#[cfg(feature = "parquet")]
use crate::parquet_text::ParquetText;
use crate::table_text::TableText;
#[cfg(feature = "parquet")]
use crate::text_format::PARQUET_FORMAT;

/// Opens a table. `text` is the file, unpacked; a Parquet file is opened again by its path.
pub(crate) fn open_table_file<'s>(
    path: &'s Path,
    text: &'s mut dyn Read,
    choice: &FormatChoice,
) -> Result<TableText<'s>, DataError> {
    if !is_parquet(path)? {
        return TableText::open(path, Box::new(text), choice);
    }
    #[cfg(feature = "parquet")]
    {
        let text = Box::new(ParquetText::open(path)?.metered_by(text));
        Ok(TableText::open(path, text, &PARQUET_FORMAT.into())?.counting_rows())
    }
    #[cfg(not(feature = "parquet"))]
    Err(needs_parquet(path))
}

/// The text of a file, plain, packed or Parquet, whose rows then are lines of CSV with a header.
///
/// # Errors
/// If the file cannot be opened, or is a Parquet file that cannot be read.
pub fn open_table_stream(path: &Path) -> Result<Box<dyn Read + Send>, DataError> {
    if !is_parquet(path)? {
        return Ok(Box::new(unpack::open(path)?));
    }
    #[cfg(feature = "parquet")]
    return Ok(Box::new(ParquetText::open(path)?));
    #[cfg(not(feature = "parquet"))]
    Err(needs_parquet(path))
}

/// Whether a file begins as Parquet files do, so that its rows have no lines.
pub fn is_parquet_file(path: &Path) -> bool {
    first_bytes(path) == *b"PAR1"
}

#[cfg(not(feature = "parquet"))]
fn needs_parquet(path: &Path) -> DataError {
    DataError::Sparse {
        path: path.into(),
        what: "this is a Parquet file, and this program was built without the feature parquet; \
               build it again with `--features parquet`, or convert the file to CSV"
            .into(),
    }
}

/// Whether a file is a Parquet file. An encrypted one is an error.
fn is_parquet(path: &Path) -> Result<bool, DataError> {
    match &first_bytes(path) {
        b"PAR1" => Ok(true),
        b"PARE" => {
            let what = "this is an encrypted Parquet file; decrypt it first".into();
            Err(DataError::Sparse { path: path.into(), what })
        }
        _ => Ok(false),
    }
}

/// The first bytes of a file; zeros if it has none.
fn first_bytes(path: &Path) -> [u8; 4] {
    let mut first = [0; 4];
    match File::open(path).and_then(|mut file| file.read_exact(&mut first)) {
        Ok(()) => first,
        Err(_) => [0; 4],
    }
}
