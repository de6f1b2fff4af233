//! The kinds of files, and how their content begins.

/// How many bytes of a file's content are looked at, at most.
pub const SNIFF_BYTES: usize = 64 * 1024;

/// What some programs write at the start of UTF-8 text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The kind of a file, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// No content at all.
    Empty,
    /// An array that numpy wrote.
    Npy,
    /// A zip archive, as `.npz` is.
    Zip,
    /// A document of an office program, such as an Excel workbook.
    Office,
    /// Packed by a program other than gzip.
    Packed,
    /// Parquet.
    Parquet,
    /// TFRecord: the first record's length has the right checksum.
    TfRecord,
    /// IDX, the format of MNIST.
    Idx,
    /// A JPEG picture.
    Jpeg,
    /// A PNG picture.
    Png,
    /// Text in UTF-16.
    Utf16,
    /// A cache of rows that Paceline wrote.
    RowCache,
    /// Text whose lines end with carriage returns alone.
    CarriageReturns,
    /// Packed by gzip twice.
    Gzip,
    /// LIBSVM text.
    Libsvm,
    /// LIBFFM text.
    Libffm,
    /// Criteo's click logs: 40 columns separated by tabs, the first of them a label.
    Criteo,
    /// Text in columns, separated by this byte: a comma, semicolon, tab or vertical bar.
    Table(u8),
    /// JSON: objects, or a list of them.
    Json,
    /// A web page.
    Html,
    /// Text of no known kind.
    Text,
    /// Bytes of no known kind.
    Binary,
}

impl FileKind {
    /// Whether the first bytes leave no doubt. Kinds of text are guesses.
    pub fn is_certain(self) -> bool {
        use FileKind::{Binary, Criteo, Json, Libffm, Libsvm, Table, Text};
        !matches!(self, Criteo | Json | Libffm | Libsvm | Table(_) | Text | Binary)
    }

    /// What the file is, with an article: "a numpy array".
    pub fn describe(self) -> &'static str {
        match self {
            FileKind::Empty => "an empty file",
            FileKind::Npy => "a numpy array (.npy)",
            FileKind::Zip => "a zip archive, as numpy's .npz is",
            FileKind::Office => "a document of an office program, such as an Excel workbook",
            FileKind::Packed => "packed by bzip2, xz or zstd",
            FileKind::Parquet => "a Parquet file",
            FileKind::TfRecord => "a TFRecord file",
            FileKind::Idx => "an IDX file, as MNIST's are",
            FileKind::Jpeg => "a JPEG picture",
            FileKind::Png => "a PNG picture",
            FileKind::Utf16 => "text in UTF-16",
            FileKind::RowCache => "a cache of rows that Paceline wrote",
            FileKind::CarriageReturns => {
                "text whose lines end with carriage returns alone, as on old Macs"
            }
            FileKind::Gzip => "packed by gzip twice",
            FileKind::Libsvm => "LIBSVM text",
            FileKind::Libffm => "LIBFFM text",
            FileKind::Criteo => "a click log of Criteo",
            FileKind::Table(b'\t') => "a table with columns separated by tabs",
            FileKind::Table(b',') => "a table with columns separated by commas (CSV)",
            FileKind::Table(b';') => "a table with columns separated by semicolons",
            FileKind::Table(_) => "a table with separated columns",
            FileKind::Json => "JSON",
            FileKind::Html => "a web page (HTML)",
            FileKind::Text => "text of an unknown kind",
            FileKind::Binary => "a binary file of an unknown kind",
        }
    }

    /// What to do to train on such a file, as an imperative; empty if there is nothing to say.
    pub fn remedy(self) -> &'static str {
        match self {
            FileKind::Npy | FileKind::Zip => "set data.kind = \"numpy\"",
            FileKind::Parquet | FileKind::Table(_) => "set data.kind = \"table\"",
            FileKind::Office => "save its table as CSV, and set data.kind = \"table\"",
            FileKind::Packed => "unpack it, or pack it with gzip",
            FileKind::TfRecord => "set data.kind = \"tfrecord\"",
            FileKind::Idx => "set data.kind = \"mnist\" and data.path to its directory",
            FileKind::Jpeg | FileKind::Png => {
                "set data.kind = \"images\" and data.path to the directory of the pictures"
            }
            FileKind::Utf16 => "convert it first: iconv -f UTF-16 -t UTF-8",
            FileKind::RowCache => "set data.path to the file that it was made from",
            FileKind::CarriageReturns => "convert it first: tr '\\r' '\\n' < OLD > NEW",
            FileKind::Gzip => "unpack it once: gunzip",
            FileKind::Libsvm => "set data.kind = \"libsvm\"",
            FileKind::Libffm => "set data.kind = \"libffm\"",
            FileKind::Criteo => "set data.kind = \"criteo\"",
            FileKind::Json => "convert it to CSV or Parquet, and set data.kind = \"table\"",
            FileKind::Html => {
                "fetch the file again: the server has sent a page, perhaps with an error"
            }
            FileKind::Empty => "set data.path to a file with examples",
            FileKind::Text | FileKind::Binary => "",
        }
    }

    /// "it is a Parquet file; set data.kind = …", for an error; `None` if the kind is unknown.
    pub fn advice(self) -> Option<String> {
        let remedy = self.remedy();
        let verb = if self.is_certain() { "is" } else { "looks like" };
        (!remedy.is_empty()).then(|| format!("it {verb} {}; {remedy}", self.describe()))
    }
}

/// The kind of a file whose content begins with these bytes; `head` is the whole content if it has
/// fewer than [`SNIFF_BYTES`].
///
/// ```
/// use paceline_data::sniff::{FileKind, sniff};
///
/// assert_eq!(sniff(b"\x93NUMPY\x01\x00"), FileKind::Npy);
/// assert_eq!(sniff(b"age,income\n31,20000\n"), FileKind::Table(b','));
/// assert_eq!(sniff(b"+1 3:1 7:0.5\n"), FileKind::Libsvm);
/// ```
pub fn sniff(head: &[u8]) -> FileKind {
    const MAGIC: [(&[u8], FileKind); 13] = [
        (b"\x93NUMPY", FileKind::Npy),
        (b"PK\x03\x04", FileKind::Zip),
        (b"PK\x05\x06", FileKind::Zip),
        (b"PAR1", FileKind::Parquet),
        (b"PARE", FileKind::Parquet),
        (b"\x00\x00\x08\x01", FileKind::Idx),
        (b"\x00\x00\x08\x03", FileKind::Idx),
        (b"\xff\xd8\xff", FileKind::Jpeg),
        (b"\x89PNG\r\n\x1a\n", FileKind::Png),
        (b"\xff\xfe", FileKind::Utf16),
        (b"\xfe\xff", FileKind::Utf16),
        (b"PACEROWS", FileKind::RowCache),
        (b"\x1f\x8b", FileKind::Gzip),
    ];
    if head.is_empty() {
        return FileKind::Empty;
    }
    if is_office_document(head) {
        return FileKind::Office;
    }
    let is_bzip2 = head.starts_with(b"BZh") && head.get(4..10) == Some(b"1AY&SY");
    if is_bzip2 || head.starts_with(b"\xfd7zXZ\0") || head.starts_with(b"\x28\xb5\x2f\xfd") {
        return FileKind::Packed;
    }
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return *kind;
    }
    if let Some((length, rest)) = head.split_first_chunk::<8>()
        && rest.starts_with(&paceline_tfrecord::crc::masked(length).to_le_bytes())
    {
        return FileKind::TfRecord;
    }
    // A model file: the length of its header, which may be longer than what is looked at.
    if head.get(4..9) == Some(b"\0\0\0\0{") {
        return FileKind::Binary;
    }
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let controls = text.iter().filter(|&&byte| byte < 9 || (14..32).contains(&byte)).count();
    if controls > text.len() / 200 {
        return FileKind::Binary;
    }
    if has_carriage_returns_alone(text) {
        return FileKind::CarriageReturns;
    }
    sniff_text(text)
}

/// Whether a zip archive begins as those of office programs do, by the name of its first member.
fn is_office_document(head: &[u8]) -> bool {
    const FIRST: [&[u8]; 5] =
        [b"[Content_Types].xml", b"_rels/", b"xl/", b"docProps/", b"mimetype"];
    let name = head.get(30..).filter(|_| head.starts_with(b"PK\x03\x04"));
    name.is_some_and(|name| FIRST.iter().any(|first| name.starts_with(first)))
}

/// Whether lines end with carriage returns, and none with a newline.
fn has_carriage_returns_alone(text: &[u8]) -> bool {
    let line_end = text.iter().position(|&byte| byte == b'\r');
    let is_line_end = line_end.is_some_and(|at| !text[at..].trim_ascii().is_empty());
    is_line_end && !text.contains(&b'\n')
}

/// The kind of text. The last line is ignored if others are there: it may be cut off.
fn sniff_text(text: &[u8]) -> FileKind {
    let mut lines: Vec<&[u8]> = text
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .take(16)
        .collect();
    if lines.len() > 1 && !text.ends_with(b"\n") {
        lines.pop();
    }
    let Some(&first) = lines.first() else { return FileKind::Text };
    let count = |line: &[u8], separator: u8| line.iter().filter(|&&b| b == separator).count();
    let has_entry = lines.iter().any(|line| line.contains(&b':'));
    if has_entry && lines.iter().all(|line| has_entries(line, 2)) {
        return FileKind::Libsvm;
    }
    if has_entry && lines.iter().all(|line| has_entries(line, 3)) {
        return FileKind::Libffm;
    }
    let start = first.trim_ascii_start().to_ascii_lowercase();
    let is_list = start == b"[" || start.starts_with(b"[{") || start.starts_with(b"[ {");
    if is_list || start.starts_with(b"{") {
        return FileKind::Json;
    }
    if start.starts_with(b"<!doctype html") || start.starts_with(b"<html") {
        return FileKind::Html;
    }
    if count(first, b'\t') == 39 && matches!(first, [b'0' | b'1', b'\t', ..]) {
        return FileKind::Criteo;
    }
    let separated = |separator: u8| {
        let columns = count(first, separator);
        columns > 0 && lines.iter().all(|line| count(line, separator).abs_diff(columns) <= 2)
    };
    let separator = b"\t,;|".iter().copied().find(|&separator| separated(separator));
    separator.map_or(FileKind::Text, FileKind::Table)
}

/// Whether a line is a label followed by entries of this many numbers: index and value, or field,
/// index and value.
fn has_entries(line: &[u8], numbers: usize) -> bool {
    let is_number = |text: &[u8]| {
        let digits = text.iter().any(u8::is_ascii_digit);
        digits && text.iter().all(|byte| b"+-.eE0123456789".contains(byte))
    };
    let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let is_entry = |field: &[u8]| {
        let mut parts = field.split(|&byte| byte == b':');
        let is_pair_of_id = numbers == 2 && field.starts_with(b"qid:");
        let are_numbers = (0..numbers).all(|at| {
            parts.next().is_some_and(|part| is_number(part) || (at == 0 && is_pair_of_id))
        });
        are_numbers && parts.next().is_none()
    };
    fields.next().is_some_and(is_number) && fields.all(is_entry)
}

#[cfg(test)]
#[path = "file_kind_tests.rs"]
mod tests;
