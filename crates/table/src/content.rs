//! Recognises a file by its content, for files that are given as something else.

use std::io::Read;
use std::path::Path;

use paceline_data::{DataError, unpack};

use crate::records::{Fields, Records};
use crate::text_format::FormatChoice;

/// How much of a file is examined, in bytes.
const EXAMINED_BYTES: u64 = 64 << 10;
/// How many lines of text are examined.
const EXAMINED_LINES: usize = 20;
/// The columns of a line of Criteo's logs.
const CRITEO_COLUMNS: usize = 40;

/// What a file contains, as far as its first bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// CSV, TSV or the like.
    Table,
    /// A Parquet file.
    Parquet,
    /// A Parquet file whose footer is encrypted.
    EncryptedParquet,
    /// LIBSVM text.
    Libsvm,
    /// Criteo's logs.
    Criteo,
    /// TFRecords.
    TfRecord,
    /// A numpy array, or an archive of such.
    Numpy,
    /// An IDX file, as MNIST has.
    Idx,
    /// A JPEG or PNG picture.
    Picture,
    /// Text in UTF-16.
    Utf16,
    /// Bytes that are neither text nor known.
    Binary,
}

impl FileContent {
    /// Recognises a file by its first bytes; `None` if they say nothing clear.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let begins = |magic: &[u8]| bytes.starts_with(magic);
        if begins(b"PAR1") {
            return Some(FileContent::Parquet);
        }
        if begins(b"PARE") {
            return Some(FileContent::EncryptedParquet);
        }
        if begins(b"\x93NUMPY") || begins(b"PK\x03\x04") {
            return Some(FileContent::Numpy);
        }
        if begins(b"\xff\xd8\xff") || begins(b"\x89PNG\r\n") {
            return Some(FileContent::Picture);
        }
        if begins(b"\xff\xfe") || begins(b"\xfe\xff") {
            return Some(FileContent::Utf16);
        }
        if begins(b"\0\0\x08")
            && bytes.get(3).is_some_and(|dimensions| (1..=4).contains(dimensions))
        {
            return Some(FileContent::Idx);
        }
        if is_tfrecord(bytes) {
            return Some(FileContent::TfRecord);
        }
        if bytes.contains(&0) {
            let odd = bytes.iter().skip(1).step_by(2).filter(|&&byte| byte == 0).count();
            let even = bytes.iter().step_by(2).filter(|&&byte| byte == 0).count();
            let is_wide = odd.max(even) * 10 > bytes.len() * 4 && odd.min(even) * 20 < bytes.len();
            return Some(if is_wide { FileContent::Utf16 } else { FileContent::Binary });
        }
        text_content(bytes)
    }

    /// Recognises a file, unpacked if it is gzip.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_file(path: &Path) -> Result<Option<Self>, DataError> {
        let mut bytes = Vec::new();
        let read = unpack::open(path)?.take(EXAMINED_BYTES).read_to_end(&mut bytes);
        read.map_err(DataError::io("read", path))?;
        Ok(Self::of_bytes(&bytes))
    }

    /// What the file is and what to do with it, for errors about data of this kind.
    pub fn remedy(self, kind: &str) -> Option<String> {
        let (what, right) = match self {
            FileContent::Table => ("a table (CSV or TSV)", "table"),
            FileContent::Parquet => ("a Parquet file", "table"),
            FileContent::Libsvm => ("LIBSVM text", "libsvm"),
            FileContent::Criteo => ("one of Criteo's logs", "criteo"),
            FileContent::TfRecord => ("a file of TFRecords", "tfrecord"),
            FileContent::Numpy => ("a file of numpy", "numpy"),
            FileContent::Idx => ("an IDX file", "mnist"),
            FileContent::Picture => ("a picture", "images"),
            FileContent::EncryptedParquet => {
                return Some("this is an encrypted Parquet file; decrypt it first".into());
            }
            FileContent::Utf16 => {
                return Some(
                    "this is text in UTF-16; convert it with iconv -f UTF-16 -t UTF-8".into(),
                );
            }
            FileContent::Binary => return Some("this is not text, nor a known format".into()),
        };
        // Criteo's logs are a table, too.
        let fits = right == kind || (kind == "table" && self == FileContent::Criteo);
        (!fits).then(|| format!("this looks like {what}; set data.kind = {right:?}"))
    }
}

/// Whether the first 12 bytes are the length of a record and its checksum.
fn is_tfrecord(bytes: &[u8]) -> bool {
    let Some(head) = bytes.first_chunk::<12>() else { return false };
    let (length, checksum) = head.split_at(8);
    let masked = crc32c::crc32c(length).rotate_right(15).wrapping_add(0xa282_ead8);
    checksum == masked.to_le_bytes()
}

fn text_content(bytes: &[u8]) -> Option<FileContent> {
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').take(EXAMINED_LINES).collect();
    if lines.len() > 1 && lines.len() < EXAMINED_LINES {
        lines.pop(); // It may be cut, or empty.
    }
    let lines: Vec<&[u8]> =
        lines.into_iter().map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return None;
    }
    if lines.iter().all(|line| is_libsvm(line)) {
        return Some(FileContent::Libsvm);
    }
    let format = FormatChoice::default().detect(bytes);
    let (mut records, mut fields) = (Records::new(bytes, format), Fields::default());
    let mut widths = Vec::new();
    while widths.len() < EXAMINED_LINES && records.next(&mut fields) {
        widths.push(fields.len());
    }
    let width = widths[0];
    let equal = widths.iter().filter(|&&other| other == width).count();
    if width < 2 || equal * 10 < widths.len() * 8 {
        return None;
    }
    let is_criteo = format.delimiter == b'\t' && width == CRITEO_COLUMNS && !format.header;
    Some(if is_criteo { FileContent::Criteo } else { FileContent::Table })
}

/// Whether a line is a number followed by entries such as `3:0.5`.
fn is_libsvm(line: &[u8]) -> bool {
    let text = line.split(|&byte| byte == b'#').next().unwrap_or_default();
    let mut tokens = text.split(u8::is_ascii_whitespace).filter(|token| !token.is_empty());
    let is_number = |token: &[u8]| crate::number::parse(token).is_ok();
    let is_entry = |token: &[u8]| match token.iter().position(|&byte| byte == b':') {
        Some(colon) => {
            let index = &token[..colon];
            is_number(&token[colon + 1..])
                && (index == b"qid" || index.iter().all(u8::is_ascii_digit))
        }
        None => false,
    };
    match tokens.next() {
        None => true,
        Some(label) => is_number(label) && tokens.clone().count() > 0 && tokens.all(is_entry),
    }
}

/// Refuses what cannot be the text of a table.
pub(crate) fn check_is_text(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    let head = &bytes[..bytes.len().min(EXAMINED_BYTES as usize)];
    match FileContent::of_bytes(head) {
        None | Some(FileContent::Table | FileContent::Criteo) => Ok(()),
        Some(FileContent::Parquet) => {
            let what = "a Parquet file is not read from a stream; give its path, unpacked".into();
            Err(DataError::Sparse { path: path.into(), what })
        }
        Some(other) => match other.remedy("table") {
            Some(what) => Err(DataError::Sparse { path: path.into(), what }),
            None => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognised_by_their_first_bytes() {
        let criteo = format!("1{}\n", "\t1".repeat(39)).repeat(3);
        let utf16: Vec<u8> = "a,b\n1,2\n".bytes().flat_map(|byte| [byte, 0]).collect();
        let check = |bytes: &[u8], expected| assert_eq!(FileContent::of_bytes(bytes), expected);
        check(b"PAR1\x15\x00", Some(FileContent::Parquet));
        check(b"PARE", Some(FileContent::EncryptedParquet));
        check(b"\x93NUMPY\x01", Some(FileContent::Numpy));
        check(b"a,b\n1,2\n3,4\n", Some(FileContent::Table));
        check(b"a\tb\n1\t2\n", Some(FileContent::Table));
        check(criteo.as_bytes(), Some(FileContent::Criteo));
        check(b"+1 3:1 7:0.5\n-1 2:1 # x\n", Some(FileContent::Libsvm));
        check(b"2 qid:3 1:1\n", Some(FileContent::Libsvm));
        check(&utf16, Some(FileContent::Utf16));
        check(b"\xff\xfea\0", Some(FileContent::Utf16));
        check(b"\x01\x00\x02\x00\x00\x05\x07", Some(FileContent::Binary));
        check(b"one\ntwo\n", None);
        check(b"", None);
    }

    #[test]
    fn the_remedy_names_the_right_kind() {
        let remedy = FileContent::Table.remedy("libsvm").unwrap();
        assert!(remedy.contains("data.kind = \"table\""), "{remedy}");
        assert_eq!(FileContent::Table.remedy("table"), None);
        assert_eq!(FileContent::Criteo.remedy("table"), None);
        assert!(FileContent::Libsvm.remedy("table").unwrap().contains("\"libsvm\""));
    }
}
