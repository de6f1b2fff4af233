//! Cuts text into chunks of whole lines, which threads take one by one.
//!
//! A file is read in large blocks. A stream is handed over as soon as it has a whole line, so that
//! every line is answered when it arrives. Memory has a bound: a line above the limit is dropped
//! while it is read, and counts as a bad row.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use memchr::{memchr, memchr_iter, memchr2_iter};
use paceline_data::sniff::BYTE_ORDER_MARK;
use paceline_data::sparse::{MAX_LINE_BYTES, MAX_SKIPPED_BYTES, endless_line};
use paceline_data::unpack;
use paceline_table::{
    Featurizer, RecordEnd, TextFormat, first_record_end, is_parquet_file, last_record_end,
    open_table_stream,
};

use crate::error::ScoreError;
use crate::header_format::header_format;
use crate::text_stream::TextStream;

/// The size of a chunk of a file, in bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// What one read asks for, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Where text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextSource {
    /// A file, plain or gzip.
    File(PathBuf),
    /// Standard input, plain or gzip.
    StandardInput,
}

impl TextSource {
    /// Its name in messages and in the column `file`.
    pub fn name(&self) -> String {
        match self {
            TextSource::File(path) => path.display().to_string(),
            TextSource::StandardInput => "standard input".into(),
        }
    }

    /// What its rows are counted in.
    pub(crate) fn unit(&self) -> RowNumbering {
        match self {
            TextSource::File(path) if is_parquet_file(path) => RowNumbering::Row,
            TextSource::File(_) | TextSource::StandardInput => RowNumbering::Line,
        }
    }

    fn open(&self) -> Result<Box<dyn Read + Send>, ScoreError> {
        match self {
            TextSource::File(path) => Ok(open_table_stream(path)?),
            TextSource::StandardInput => {
                let unpacked = unpack::Unpacked::new(io::stdin());
                let unpacked = unpacked.map_err(|source| self.unreadable(source))?;
                Ok(Box::new(TextStream::check(unpacked)?))
            }
        }
    }

    fn unreadable(&self, source: io::Error) -> ScoreError {
        ScoreError::Io { what: format!("cannot read {}", self.name()), source }
    }
}

/// What the rows of a source are counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RowNumbering {
    /// Lines, from 1, as in a text file; a header is one.
    #[default]
    Line,
    /// Rows, from 1, of a Parquet file, which becomes lines only here.
    Row,
}

impl RowNumbering {
    /// The name in messages and of the column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RowNumbering::Line => "line",
            RowNumbering::Row => "row",
        }
    }

    /// Counts the lines or rows that end in a text, which begins outside quotes.
    pub(crate) fn count(self, text: &[u8]) -> u64 {
        if self == RowNumbering::Line {
            return memchr_iter(b'\n', text).count() as u64;
        }
        let mut in_quotes = false;
        let ends = memchr2_iter(b'\n', b'"', text).filter(|&at| {
            in_quotes ^= text[at] == b'"';
            text[at] == b'\n' && !in_quotes
        });
        ends.count() as u64
    }
}

/// How text is cut.
#[derive(Clone, Debug, Default)]
pub(crate) enum TextLayout {
    /// Every line is a row.
    #[default]
    Lines,
    /// The records of tables that this featuriser takes.
    Table(Arc<Featurizer>),
}

impl TextLayout {
    /// How the rows of a source are written, before its header is known.
    fn format(&self) -> TextFormat {
        match self {
            TextLayout::Lines => TextFormat { quotes: false, header: false, ..Default::default() },
            TextLayout::Table(featurizer) => featurizer.format,
        }
    }

    /// How the rows below a header are written.
    fn format_below(&self, header: &[u8]) -> TextFormat {
        match self {
            TextLayout::Lines => self.format(),
            TextLayout::Table(featurizer) => header_format(featurizer, header),
        }
    }
}

/// Why a row was dropped while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkFault {
    /// It is above the limit.
    TooLong,
    /// A quote is not closed.
    OpenQuote,
}

/// Some whole rows of one source.
#[derive(Clone, Debug)]
pub(crate) struct TextChunk {
    /// The rows. Only the last one of a source may lack its newline.
    pub(crate) bytes: Vec<u8>,
    /// The first row of the source, if it has the names of the columns; it is not among `bytes`.
    pub(crate) header: Option<Arc<[u8]>>,
    /// How the rows are written.
    pub(crate) format: TextFormat,
    /// The number of the first line or row, from 1.
    pub(crate) first_line: u64,
    /// What is counted.
    pub(crate) unit: RowNumbering,
    /// The name of the source.
    pub(crate) source: Arc<str>,
    /// What is wrong with the row that it stands for, whose bytes are dropped.
    pub(crate) fault: Option<ChunkFault>,
}

impl TextChunk {
    /// The rows, without the mark that some programs write at the start of a file.
    pub(crate) fn text(&self) -> &[u8] {
        let mark: &[u8] = if self.first_line == 1 { BYTE_ORDER_MARK } else { b"" };
        self.bytes.strip_prefix(mark).unwrap_or(&self.bytes)
    }
}

/// Reads sources one after another.
pub(crate) struct TextChunks {
    sources: std::vec::IntoIter<TextSource>,
    layout: TextLayout,
    open: Option<OpenSource>,
}

struct OpenSource {
    source: TextSource,
    name: Arc<str>,
    stream: Box<dyn Read + Send>,
    layout: TextLayout,
    format: TextFormat,
    header: Option<Arc<[u8]>>,
    /// The beginning of a line whose end is not read yet.
    rest: Vec<u8>,
    line: u64,
    unit: RowNumbering,
    ended: bool,
}

impl TextChunks {
    pub(crate) fn new(sources: Vec<TextSource>, layout: TextLayout) -> Self {
        Self { sources: sources.into_iter(), layout, open: None }
    }

    /// The next chunk; `None` at the end of all sources.
    pub(crate) fn next(&mut self) -> Result<Option<TextChunk>, ScoreError> {
        loop {
            if let Some(open) = &mut self.open {
                let chunk = open.chunk().map_err(|error| open.source.unreadable(error))?;
                if chunk.is_some() {
                    return Ok(chunk);
                }
            }
            let Some(source) = self.sources.next() else { return Ok(None) };
            let stream = source.open()?;
            let (name, unit) = (source.name().into(), source.unit());
            self.open = Some(OpenSource {
                source,
                name,
                stream,
                layout: self.layout.clone(),
                format: self.layout.format(),
                header: None,
                rest: vec![],
                line: 1,
                unit,
                ended: false,
            });
        }
    }
}

impl OpenSource {
    fn chunk(&mut self) -> io::Result<Option<TextChunk>> {
        let least = match self.source {
            TextSource::File(_) => CHUNK_BYTES,
            TextSource::StandardInput => 1,
        };
        if self.format.header && self.header.is_none() {
            self.take_header()?;
        }
        let mut bytes = std::mem::take(&mut self.rest);
        let whole = loop {
            match last_record_end(&bytes, self.format) {
                RecordEnd::At(whole) if bytes.len() >= least && !self.ended => break whole,
                RecordEnd::None if bytes.len() > MAX_LINE_BYTES && !self.ended => {
                    return self.skip_line(bytes).map(Some);
                }
                RecordEnd::OpenQuote if bytes.len() > MAX_LINE_BYTES || self.ended => {
                    self.ended = true;
                    return Ok(Some(self.bad_row(ChunkFault::OpenQuote)));
                }
                // What is whole comes before a quote that stays open.
                RecordEnd::At(whole) if self.ended => {
                    let rest = last_record_end(&bytes[whole..], self.format);
                    break if rest == RecordEnd::OpenQuote { whole } else { bytes.len() };
                }
                RecordEnd::None if self.ended => break bytes.len(),
                _ => self.ended = self.read(&mut bytes)? == 0,
            }
        };
        self.rest = bytes.split_off(whole);
        if bytes.is_empty() {
            return Ok(None);
        }
        let first_line = self.line;
        self.line += self.unit.count(&bytes);
        Ok(Some(self.chunk_of(bytes, first_line, None)))
    }

    /// Reads the first row, which has the names of the columns.
    fn take_header(&mut self) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.rest);
        let header = loop {
            let end = match first_record_end(&bytes, self.format) {
                RecordEnd::At(end) => end,
                _ if self.ended || bytes.len() > MAX_LINE_BYTES => bytes.len(),
                _ => {
                    self.ended = self.read(&mut bytes)? == 0;
                    continue;
                }
            };
            let rest = bytes.split_off(end);
            if self.unit == RowNumbering::Line {
                self.line += self.unit.count(&bytes);
            }
            // Empty lines are no rows.
            if bytes.is_empty() || !matches!(&bytes[..], b"\n" | b"\r\n") {
                self.rest = rest;
                break bytes;
            }
            bytes = rest;
        };
        self.format = self.layout.format_below(&header);
        self.header = Some(header.into());
        Ok(())
    }

    /// Appends the bytes of one read, and returns their number.
    fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let start = bytes.len();
        bytes.resize(start + READ_BYTES, 0);
        let read = loop {
            match self.stream.read(&mut bytes[start..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        bytes.truncate(start + read);
        Ok(read)
    }

    /// Drops a line that is too long. `bytes` is its beginning.
    fn skip_line(&mut self, mut bytes: Vec<u8>) -> io::Result<TextChunk> {
        let mut skipped = 0;
        loop {
            bytes.clear();
            self.ended = self.read(&mut bytes)? == 0;
            skipped += bytes.len() as u64;
            if skipped > MAX_SKIPPED_BYTES {
                let what = format!("{} {}: {}", self.unit.name(), self.line, endless_line());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            let end = memchr(b'\n', &bytes);
            if let Some(end) = end {
                self.rest = bytes.split_off(end + 1);
            }
            if end.is_some() || self.ended {
                break;
            }
        }
        Ok(self.bad_row(ChunkFault::TooLong))
    }

    /// A chunk in place of a row that is dropped.
    fn bad_row(&mut self, fault: ChunkFault) -> TextChunk {
        let first_line = self.line;
        self.line += 1;
        self.chunk_of(Vec::new(), first_line, Some(fault))
    }

    fn chunk_of(&self, bytes: Vec<u8>, first_line: u64, fault: Option<ChunkFault>) -> TextChunk {
        let (source, header) = (self.name.clone(), self.header.clone());
        let (format, unit) = (self.format, self.unit);
        TextChunk { bytes, header, format, first_line, unit, source, fault }
    }
}

/// The lines of a chunk with their numbers, without newlines.
pub(crate) fn lines(chunk: &TextChunk) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = chunk.text();
    (chunk.first_line..).map_while(move |number| {
        if rest.is_empty() {
            return None;
        }
        let (line, after) = match memchr(b'\n', rest) {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, &[][..]),
        };
        rest = after;
        Some((number, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(u64, Option<String>)> {
        all_with(text, TextLayout::default())
    }

    /// Tables with the columns `id` and `text`.
    fn table_layout() -> TextLayout {
        let text = r#"{"version":1,"kind":"table",
            "format":{"delimiter":",","quotes":true,"header":true},
            "columns":[{"name":"id","as":"id"},{"name":"text","as":"text","bits":4,"ngrams":1}],
            "crosses":[]}"#;
        TextLayout::Table(Arc::new(Featurizer::from_json(text).unwrap()))
    }

    fn all_with(text: &str, layout: TextLayout) -> Vec<(u64, Option<String>)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        std::fs::write(&path, text).unwrap();
        let mut chunks = TextChunks::new(vec![TextSource::File(path)], layout);
        let mut found = Vec::new();
        while let Some(chunk) = chunks.next().unwrap() {
            if chunk.fault.is_some() {
                found.push((chunk.first_line, None));
            }
            let text = |line: &[u8]| String::from_utf8(line.to_vec()).unwrap();
            found.extend(lines(&chunk).map(|(number, line)| (number, Some(text(line)))));
        }
        found
    }

    #[test]
    fn every_line_has_its_number_wherever_chunks_are_cut() {
        for (count, end) in [(0, ""), (1, ""), (3, "\n"), (60_000, "\n"), (60_000, "")] {
            let text = (1..=count).map(|i| format!("line {i}")).collect::<Vec<_>>().join("\n");
            let found = all(&(text + if count > 0 { end } else { "" }));
            assert_eq!(found.len(), count);
            for (number, line) in found {
                assert_eq!(line.unwrap(), format!("line {number}"));
            }
        }
    }

    #[test]
    fn a_line_above_the_limit_is_dropped_and_the_next_ones_keep_their_numbers() {
        for len in [MAX_LINE_BYTES + 2 * READ_BYTES, 5 << 20] {
            let found = all(&format!("a\n{}\nb\nc", "x".repeat(len)));
            let [first, .., last] = &found[..] else { panic!("{found:?}") };
            assert_eq!(first, &(1, Some("a".into())));
            assert_eq!(last, &(4, Some("c".into())));
            assert_eq!(found[1], (2, None));
        }
        assert_eq!(all(&"x".repeat(3 << 20)), [(1, None)]);
    }

    #[test]
    fn an_empty_file_has_no_lines() {
        assert_eq!(all(""), []);
        assert_eq!(all("\n"), [(1, Some(String::new()))]);
    }

    #[test]
    fn rows_with_quoted_line_ends_stay_whole_and_the_header_is_kept_apart() {
        let layout = table_layout();
        let rows = (0..40_000).map(|i| format!("{i},\"a\nb \"\"c\"\"\"\n")).collect::<String>();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        std::fs::write(&path, format!("id,\"te\nxt\"\n{rows}")).unwrap();
        let mut chunks = TextChunks::new(vec![TextSource::File(path)], layout.clone());
        let (mut seen, mut first_line) = (0, 3);
        while let Some(chunk) = chunks.next().unwrap() {
            assert_eq!(chunk.header.as_deref(), Some(&b"id,\"te\nxt\"\n"[..]));
            assert_eq!(chunk.first_line, first_line);
            assert!(chunk.bytes.starts_with(format!("{seen},").as_bytes()));
            let lines = memchr_iter(b'\n', &chunk.bytes).count() as u64;
            assert!(chunk.bytes.ends_with(b"\"\n") && lines.is_multiple_of(2));
            (seen, first_line) = (seen + lines / 2, first_line + lines);
        }
        assert_eq!(seen, 40_000);
        assert_eq!(all_with("id,text\n", layout.clone()), [], "a header alone has no rows");
        let unclosed = format!("id,text\n1,\"{}\n2,b\n", "x\n".repeat(MAX_LINE_BYTES));
        let found = all_with(&unclosed, layout.clone());
        assert!(found.iter().any(|(line, text)| *line == 2 && text.is_none()), "dropped");
        let found = all_with("id,text\n1,a\n2,\"b\n3,c\n", layout.clone());
        assert_eq!(found, [(2, Some("1,a".into())), (3, None)], "the quote is not closed");
        // Only a quote at the beginning of a field opens one, as in training.
        let found = all_with("\n\r\nid;text\n1;a 5\" pipe\n2,\"b\n", layout);
        assert_eq!(found, [(4, Some("1;a 5\" pipe".into())), (5, Some("2,\"b".into()))]);
    }
}
