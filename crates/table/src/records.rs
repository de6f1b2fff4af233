//! The records and fields of a block of text.
//!
//! A record ends with a newline, with or without a carriage return before it; empty lines are no
//! records. A quote opens a field only as its first character. Inside, two quotes are one, and
//! delimiters and line ends are text. What follows a closing quote belongs to the field. This is
//! how the crate `csv` reads, and tests compare with it.
//!
//! RecordFields are slices of the block. Only the fields of a record with quotes are copied.

use memchr::{memchr, memchr2, memrchr};

use crate::text_format::TextFormat;

const QUOTE: u8 = b'"';

/// The fields of one record, reused from record to record.
#[derive(Debug, Default)]
pub struct RecordFields<'a> {
    /// The record, if its fields are slices of it.
    record: &'a [u8],
    /// The text of the fields of a record with quotes.
    unquoted: Vec<u8>,
    is_unquoted: bool,
    /// Start and end of each field.
    bounds: Vec<(u32, u32)>,
}

impl<'a> RecordFields<'a> {
    /// The number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// The field at an index.
    ///
    /// # Panics
    /// If there is no such field.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let (start, end) = self.bounds[index];
        &self.text()[start as usize..end as usize]
    }

    /// All fields, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let text = self.text();
        self.bounds.iter().map(|&(start, end)| &text[start as usize..end as usize])
    }

    #[inline]
    fn text(&self) -> &[u8] {
        if self.is_unquoted { &self.unquoted } else { self.record }
    }

    /// Splits a record without quotes.
    #[inline]
    fn split(&mut self, record: &'a [u8], delimiter: u8) {
        (self.record, self.is_unquoted) = (record, false);
        self.bounds.clear();
        let mut start = 0;
        // RecordFields are a few bytes long, so a simple loop is fastest.
        for (at, &byte) in (0u32..).zip(record) {
            if byte == delimiter {
                self.bounds.push((start, at));
                start = at + 1;
            }
        }
        self.bounds.push((start, record.len() as u32));
    }

    /// Splits a record that may have quotes.
    fn split_quoted(&mut self, record: &'a [u8], delimiter: u8) {
        self.is_unquoted = true;
        self.unquoted.clear();
        self.bounds.clear();
        let mut rest = record;
        loop {
            let start = self.unquoted.len() as u32;
            if let [QUOTE, inside @ ..] = rest {
                rest = self.copy_quoted(inside);
            }
            let end = memchr(delimiter, rest);
            self.unquoted.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            self.bounds.push((start, self.unquoted.len() as u32));
            match end {
                Some(end) => rest = &rest[end + 1..],
                None => return,
            }
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
    at: usize,
    /// Where the last record began.
    started: usize,
    format: TextFormat,
    has_quotes: bool,
}

impl<'a> Records<'a> {
    /// The records of a text.
    pub fn new(text: &'a [u8], format: TextFormat) -> Self {
        let has_quotes = format.quotes && memchr(QUOTE, text).is_some();
        Self { text, at: 0, started: 0, format, has_quotes }
    }

    /// Moves to the next record. Returns false at the end.
    #[inline]
    pub fn next(&mut self, fields: &mut RecordFields<'a>) -> bool {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            self.started = self.at;
            let mut end = memchr(b'\n', rest).unwrap_or(rest.len());
            let is_quoted = self.has_quotes && memchr(QUOTE, &rest[..end]).is_some();
            if is_quoted {
                end = match record_end(rest, self.format.delimiter) {
                    RecordEnd::At(end) => end - 1,
                    RecordEnd::None | RecordEnd::OpenQuote => rest.len(),
                };
            }
            self.at += end + 1;
            let record = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            if record.is_empty() {
                continue;
            }
            if is_quoted {
                fields.split_quoted(record, self.format.delimiter);
            } else {
                fields.split(record, self.format.delimiter);
            }
            return true;
        }
        false
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
pub(crate) enum RecordEnd {
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

/// The end of the last whole record of a text that begins with a record. If there is none, the
/// result says why.
pub(crate) fn last_record_end(text: &[u8], format: TextFormat) -> RecordEnd {
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

    proptest! {
        #[test]
        fn fields_are_those_of_the_crate_csv(text in "[a\",\n]{0,40}") {
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
