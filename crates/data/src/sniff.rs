//! Recognises the kind of a file by its content.
//!
//! A file under the wrong `data.kind` would otherwise end in a message about its first line, which
//! helps little if the file has no lines. Readers therefore name what they found instead: before
//! they read, if the first bytes leave no doubt, and for kinds of text after a line failed.

use std::io::{self, Read};
use std::path::Path;

use crate::error::DataError;
pub use crate::file_kind::{BYTE_ORDER_MARK, FileKind, SNIFF_BYTES, sniff};
use crate::unpack;

/// The kind of a file, plain or gzip.
///
/// # Errors
/// If the file cannot be read.
pub fn sniff_file(path: &Path) -> Result<FileKind, DataError> {
    let mut head = Vec::new();
    match unpack::open(path)?.take(SNIFF_BYTES as u64).read_to_end(&mut head) {
        Ok(_) => Ok(sniff(&head)),
        // What was unpacked before the stream broke off is enough.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !head.is_empty() => {
            Ok(sniff(&head))
        }
        Err(error) => Err(DataError::io("read", path)(error)),
    }
}

/// Checks that a file is not of a kind other than `expected`. `kind` is the value of `data.kind`,
/// for the error. A kind of text is only a guess, so text passes as any other kind of text.
///
/// # Errors
/// If the file is of another kind, is empty or cannot be read.
pub fn check_kind(path: &Path, kind: &'static str, expected: FileKind) -> Result<(), DataError> {
    let found = sniff_file(path)?;
    let is_known = !matches!(found, FileKind::Binary | FileKind::Text);
    if found != expected && is_known && (found.is_certain() || expected.is_certain()) {
        return Err(DataError::WrongKind { path: path.into(), kind, found });
    }
    Ok(())
}
