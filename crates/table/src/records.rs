//! The records and fields of a block of text.
//!
//! A record ends with a newline, with or without a carriage return before it; empty lines are not
//! records. A quote opens a field only as its first character. Inside, two quotes are one, and
//! delimiters and line ends are text. What follows a closing quote belongs to the field. This is
//! how the crate `csv` reads, and tests compare with it.
//!
//! Fields are slices of the block. Only the fields of a record with quotes are copied.

use memchr::{memchr, memchr2, memrchr};

use crate::byte_scan::ByteScan;
use crate::text_format::TextFormat;

const QUOTE: u8 = b'"';
/// The least length of a run of empty lines that is skipped at once, in bytes.
const RUN_BYTES: usize = 256;

/// The fields of one record, reused from record to record.
#[derive(Debug, Default)]
pub struct RecordFields<'a> {
    /// The text that the record is part of, if its fields are slices of it.
    text: &'a [u8],
    /// The text of the fields of a record with quotes.
    unquoted: Vec<u8>,
    is_unquoted: bool,
    /// Where the first field begins.
    start: u32,
    /// Where each field ends. The next one begins after a byte between them.
    ends: Vec<u32>,
}

impl<'a> RecordFields<'a> {
    /// The number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The field at an index.
    ///
    /// # Panics
    /// If there is no such field.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(self.start, |before| self.ends[before] + 1);
        &self.text()[start as usize..self.ends[index] as usize]
    }

    /// All fields, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (text, mut start) = (self.text(), self.start as usize);
        self.ends.iter().map(move |&end| {
            let field = &text[start..end as usize];
            start = end as usize + 1;
            field
        })
    }

    #[inline]
    fn text(&self) -> &[u8] {
        if self.is_unquoted { &self.unquoted } else { self.text }
    }

    /// Begins a record without quotes.
    #[inline]
    fn begin(&mut self, text: &'a [u8], start: usize) {
        (self.text, self.is_unquoted) = (text, false);
        self.start = start as u32;
        self.ends.clear();
    }

    /// Splits a record that may have quotes.
    fn split_quoted(&mut self, record: &[u8], delimiter: u8) {
        (self.is_unquoted, self.start) = (true, 0);
        self.unquoted.clear();
        self.ends.clear();
        let mut rest = record;
        loop {
            if let [QUOTE, inside @ ..] = rest {
                rest = self.copy_quoted(inside);
            }
            let end = memchr(delimiter, rest);
            self.unquoted.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            self.ends.push(self.unquoted.len() as u32);
            match end {
                Some(end) => rest = &rest[end + 1..],
                None => return,
            }
            self.unquoted.push(delimiter);
        }
    }

    /// Copies the text up to the closing quote. Returns what follows it.
    fn copy_quoted<'t>(&mut self, mut inside: &'t [u8]) -> &'t [u8] {
        loop {
            let Some(quote) = memchr(QUOTE, inside) else {
                self.unquoted.extend_from_slice(inside);
                return &[];
            };
            self.unquoted.extend_from_slice(&inside[..quote]);
            inside = &inside[quote + 1..];
            let [QUOTE, after @ ..] = inside else { return inside };
            self.unquoted.push(QUOTE);
            inside = after;
        }
    }
}

/// Walks through the records of a text.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    text: &'a [u8],
    scan: ByteScan,
    at: usize,
    /// Where the last record began.
    started: usize,
    format: TextFormat,
}

impl<'a> Records<'a> {
    /// The records of a text.
    ///
    /// # Panics
    /// If the text has 4 GiB or more.
    pub fn new(text: &'a [u8], format: TextFormat) -> Self {
        assert!(u32::try_from(text.len()).is_ok(), "a text of 4 GiB");
        let quote = if format.quotes { QUOTE } else { b'\n' };
        let scan = ByteScan::new(format.delimiter, quote);
        Self { text, scan, at: 0, started: 0, format }
    }

    /// Moves to the next record. Returns false at the end.
    #[inline]
    pub fn next(&mut self, fields: &mut RecordFields<'a>) -> bool {
        while self.at < self.text.len() {
            self.started = self.at;
            fields.begin(self.text, self.at);
            let end = loop {
                match self.scan.next(self.text) {
                    Some(found) if !found.is_special => fields.ends.push(found.at as u32),
                    Some(found) if self.text[found.at] == b'\n' => break found.at,
                    Some(_) => break self.split_quoted(fields),
                    None => break self.text.len(),
                }
            };
            self.at = end + 1;
            if fields.is_unquoted {
                return true;
            }
            let has_return = end > self.started && self.text[end - 1] == b'\r';
            let end = end - usize::from(has_return);
            if end > self.started {
                fields.ends.push(end as u32);
                return true;
            }
            self.skip_empty_lines();
        }
        false
    }

    /// Skips a long run of empty lines; a short one is left to [`Records::next`].
    #[cold]
    fn skip_empty_lines(&mut self) {
        let is_run = |lines: &&[u8]| lines.iter().fold(true, |all, &byte| all & (byte == b'\n'));
        let rest = self.text.get(self.at..).unwrap_or_default();
        let run: usize = rest.chunks(RUN_BYTES).take_while(is_run).map(<[u8]>::len).sum();
        if run >= RUN_BYTES {
            self.at += run;
            self.scan.restart(self.at);
        }
    }

    /// Splits the record at `started`, which has quotes. Returns where it ends.
    #[cold]
    fn split_quoted(&mut self, fields: &mut RecordFields<'a>) -> usize {
        let rest = &self.text[self.started..];
        let end = match record_end(rest, self.format.delimiter) {
            RecordEnd::At(end) => end - 1,
            RecordEnd::None | RecordEnd::OpenQuote => rest.len(),
        };
        let record = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        fields.split_quoted(record, self.format.delimiter);
        self.scan.restart(self.started + end + 1);
        self.started + end
    }

    /// The byte after the last record.
    pub(crate) fn end(&self) -> usize {
        self.at.min(self.text.len())
    }

    /// The byte at which the last record began.
    pub fn started(&self) -> usize {
        self.started
    }
}

/// Where a record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordEnd {
    /// The index after its newline.
    At(usize),
    /// The text has no end of the record.
    None,
    /// The text ends inside quotes.
    OpenQuote,
}

/// The end of the record at the start of a text that has quotes.
fn record_end(text: &[u8], delimiter: u8) -> RecordEnd {
    let mut at = 0;
    loop {
        if text.get(at) == Some(&QUOTE) {
            at += 1;
            loop {
                let Some(quote) = memchr(QUOTE, &text[at..]) else { return RecordEnd::OpenQuote };
                at += quote + 1;
                if text.get(at) != Some(&QUOTE) {
                    break;
                }
                at += 1;
            }
        }
        match memchr2(delimiter, b'\n', &text[at..]) {
            None => return RecordEnd::None,
            Some(found) if text[at + found] == b'\n' => return RecordEnd::At(at + found + 1),
            Some(found) => at += found + 1,
        }
    }
}

/// The end of the first record of a text.
pub fn first_record_end(text: &[u8], format: TextFormat) -> RecordEnd {
    let line = memchr(b'\n', text).map_or(RecordEnd::None, |at| RecordEnd::At(at + 1));
    if format.quotes { record_end(text, format.delimiter) } else { line }
}

/// The end of the last whole record of a text that begins with a record. If there is none, the
/// result says why.
pub fn last_record_end(text: &[u8], format: TextFormat) -> RecordEnd {
    if !format.quotes || memchr(QUOTE, text).is_none() {
        return memrchr(b'\n', text).map_or(RecordEnd::None, |at| RecordEnd::At(at + 1));
    }
    let mut end = 0;
    loop {
        let rest = &text[end..];
        let line = memchr(b'\n', rest);
        let has_quote = memchr(QUOTE, &rest[..line.unwrap_or(rest.len())]).is_some();
        let found = match line {
            Some(line) if !has_quote => RecordEnd::At(line + 1),
            None if !has_quote => RecordEnd::None,
            _ => record_end(rest, format.delimiter),
        };
        match found {
            RecordEnd::At(len) => end += len,
            none if end == 0 => return none,
            _ => return RecordEnd::At(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COMMAS: TextFormat = TextFormat { delimiter: b',', quotes: true, header: false };

    fn read(text: &[u8], format: TextFormat) -> Vec<Vec<Vec<u8>>> {
        let (mut records, mut fields) = (Records::new(text, format), RecordFields::default());
        let mut found = Vec::new();
        while records.next(&mut fields) {
            found.push(fields.iter().map(<[u8]>::to_vec).collect());
        }
        found
    }

    fn read_by_crate_csv(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut reader = csv::ReaderBuilder::new();
        reader.has_headers(false).flexible(true).terminator(csv::Terminator::Any(b'\n'));
        let records = reader.from_reader(text).into_byte_records();
        let records = records.map(|record| record.unwrap());
        records.map(|record| record.iter().map(<[u8]>::to_vec).collect()).collect()
    }

    #[test]
    fn runs_of_empty_lines_are_no_records() {
        for run in [1, 63, 64, 255, 256, 257, 300, 511, 512, 513, 1000, 5000] {
            let lines = "\n".repeat(run);
            let text = format!("{lines}a,b{lines}{lines}\"c\nd\",e{lines}f,g{lines}");
            let expected = read_by_crate_csv(text.as_bytes());
            assert_eq!(expected.len(), 3);
            assert_eq!(read(text.as_bytes(), COMMAS), expected, "{run}");
        }
    }

    proptest! {
        #[test]
        fn fields_are_those_of_the_crate_csv(text in "[a\",\n]{0,200}") {
            prop_assert_eq!(read(text.as_bytes(), COMMAS), read_by_crate_csv(text.as_bytes()));
        }

        #[test]
        fn a_text_cut_after_its_last_record_gives_the_same_records(text in "[a\",\n]{0,40}") {
            let text = text.as_bytes();
            if let RecordEnd::At(end) = last_record_end(text, COMMAS) {
                let mut found = read(&text[..end], COMMAS);
                found.extend(read(&text[end..], COMMAS));
                prop_assert_eq!(found, read(text, COMMAS));
            }
        }
    }

    #[test]
    fn line_ends_of_windows_and_empty_lines_make_no_difference() {
        let expected = read(b"a,b\n1,2\n", COMMAS);
        assert_eq!(read(b"a,b\r\n\r\n1,2", COMMAS), expected);
        assert_eq!(read(b"\n\n\"a\",b\r\n1,\"2\"\r\n", COMMAS), expected);
    }

    #[test]
    fn quotes_are_text_if_the_format_has_none() {
        let plain = TextFormat { quotes: false, ..COMMAS };
        assert_eq!(read(b"5\" pipe,\"x\n", plain), [[b"5\" pipe".to_vec(), b"\"x".to_vec()]]);
    }

    #[test]
    fn an_open_quote_is_noticed() {
        assert_eq!(last_record_end(b"a,\"b\n", COMMAS), RecordEnd::OpenQuote);
        assert_eq!(last_record_end(b"a\nb,\"b\n", COMMAS), RecordEnd::At(2));
        assert_eq!(last_record_end(b"a,b", COMMAS), RecordEnd::None);
        assert_eq!(last_record_end(b"a,\"b\nc\"\nd", COMMAS), RecordEnd::At(8));
    }
}
