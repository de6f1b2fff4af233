//! Recognises what a file is from its first bytes, for better errors.

use std::io::Read;
use std::path::Path;

use paceline_data::sparse::is_row_cache;
use paceline_data::unpack;

/// How much of a file is looked at, in bytes.
const LOOK_BYTES: u64 = 4096;

/// What a file seems to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Libsvm,
    Criteo,
    Csv,
    Idx,
    Picture,
    TfRecord,
    RowCache,
    Parquet,
    Numpy,
    Utf16,
    Model,
}

impl FileKind {
    /// In words, with its article.
    pub(crate) fn words(self) -> &'static str {
        match self {
            FileKind::Libsvm => "LIBSVM text",
            FileKind::Criteo => "a Criteo log",
            FileKind::Csv => "a table of text",
            FileKind::Idx => "an IDX file",
            FileKind::Picture => "a picture",
            FileKind::TfRecord => "a TFRecord file",
            FileKind::RowCache => "a cache of rows",
            FileKind::Parquet => "a Parquet file",
            FileKind::Numpy => "a numpy file",
            FileKind::Utf16 => "text in UTF-16",
            FileKind::Model => "a model file",
        }
    }
}

/// What a file seems to be; `None` if it cannot be told.
pub(crate) fn recognise(path: &Path) -> Option<FileKind> {
    if is_row_cache(path) {
        return Some(FileKind::RowCache);
    }
    let mut head = Vec::new();
    unpack::open(path).ok()?.take(LOOK_BYTES).read_to_end(&mut head).ok()?;
    recognise_bytes(&head)
}

fn recognise_bytes(head: &[u8]) -> Option<FileKind> {
    let begins: [(&[u8], FileKind); 8] = [
        (b"PAR1", FileKind::Parquet),
        (b"\x93NUMPY", FileKind::Numpy),
        (b"PK\x03\x04", FileKind::Numpy),
        (b"\x89PNG", FileKind::Picture),
        (b"\xff\xd8\xff", FileKind::Picture),
        (b"\x00\x00\x08", FileKind::Idx),
        (b"\xff\xfe", FileKind::Utf16),
        (b"\xfe\xff", FileKind::Utf16),
    ];
    if let Some((_, kind)) = begins.iter().find(|(begin, _)| head.starts_with(begin)) {
        return Some(*kind);
    }
    if head.get(8) == Some(&b'{') && head.get(7) == Some(&0) {
        return Some(FileKind::Model);
    }
    // The length of a record has 8 bytes, of which the last ones are zero.
    if head.len() > 16 && head[3..8] == [0; 5] && head[..3] != [0; 3] {
        return Some(FileKind::TfRecord);
    }
    let text = std::str::from_utf8(head)
        .or_else(|error| std::str::from_utf8(&head[..error.valid_up_to()]));
    let line = text.ok()?.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'))?;
    let tabs = line.matches('\t').count();
    if tabs == 39 || tabs == 38 {
        return Some(FileKind::Criteo);
    }
    let is_entry = |token: &str| {
        let entry = token.split_once(':');
        entry.is_some_and(|(key, value)| {
            key.bytes().all(|byte| byte.is_ascii_digit()) && value.parse::<f32>().is_ok()
        })
    };
    let mut tokens = line.split_whitespace();
    let first = tokens.next().unwrap_or_default();
    // The last token may be cut off.
    if (first.parse::<f32>().is_ok() || is_entry(first))
        && !first.contains(',')
        && line.contains(':')
        && tokens.take(3).all(|token| is_entry(token) || token.starts_with("qid:"))
    {
        return Some(FileKind::Libsvm);
    }
    (line.contains(',') || tabs > 0 || line.contains(';')).then_some(FileKind::Csv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognised_by_their_first_bytes() {
        let check = |head: &[u8], kind: Option<FileKind>| {
            assert_eq!(recognise_bytes(head), kind, "{:?}", String::from_utf8_lossy(head));
        };
        check(b"1 3:1 7:0.5\n", Some(FileKind::Libsvm));
        check(b"# a comment\n-1 qid:3 3:1\n", Some(FileKind::Libsvm));
        check(b"3:1 4:1", Some(FileKind::Libsvm));
        check(b"id,age,city\n1,2,Rome\n", Some(FileKind::Csv));
        check("1\t".repeat(40).trim_end().as_bytes(), Some(FileKind::Criteo));
        check(b"PAR1....", Some(FileKind::Parquet));
        check(b"\x93NUMPY\x01", Some(FileKind::Numpy));
        check(b"\x89PNG\r\n", Some(FileKind::Picture));
        check(b"\x00\x00\x08\x03", Some(FileKind::Idx));
        check(b"\xff\xfe1\x00", Some(FileKind::Utf16));
        check(b"", None);
        check(b"hello", None);
    }
}
