//! Reads a stream in blocks of whole records.
//!
//! A block ends where a record ends; what follows is carried over into the next block. Memory never
//! grows beyond the blocks: a line above the limit is skipped and reported.

use std::io::{self, Read};
use std::ops::Range;

use memchr::memchr;
use paceline_data::sparse::{MAX_LINE_BYTES, MAX_SKIPPED_BYTES};

use crate::records::{RecordEnd, last_record_end};
use crate::text_format::TextFormat;

/// The size of a block, in bytes: the longest record and some more.
const BLOCK_BYTES: usize = MAX_LINE_BYTES + (256 << 10);

/// A block of text.
#[derive(Debug)]
pub(crate) struct Block {
    /// As long as a block may be.
    bytes: Vec<u8>,
    range: Range<usize>,
}

impl Default for Block {
    fn default() -> Self {
        Self { bytes: vec![0; BLOCK_BYTES], range: 0..0 }
    }
}

impl Block {
    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }

    /// A block that uses memory of an earlier one.
    pub(crate) fn with_memory(mut bytes: Vec<u8>) -> Self {
        bytes.resize(BLOCK_BYTES, 0);
        Self { bytes, range: 0..0 }
    }

    /// The memory of the block, and where in it the text is.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Range<usize>) {
        (self.bytes, self.range)
    }

    /// Removes the first bytes.
    pub(crate) fn drop_front(&mut self, bytes: usize) {
        self.range.start += bytes;
    }
}

/// What was read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextBlock {
    /// A block of whole records.
    Records,
    /// A line above the limit, which is skipped with the next call.
    LongLine,
    /// The last line was too long even to be skipped.
    EndlessLine,
    /// A quote that does not end within the limit, or before the end of the stream.
    OpenQuote,
    /// The end of the stream.
    End,
}

/// Reads the blocks of a stream.
pub(crate) struct TableBlocks<'s> {
    source: Box<dyn Read + 's>,
    pub(crate) format: TextFormat,
    /// What the next block begins with.
    carried: Vec<u8>,
    ended: bool,
    /// Whether the beginning of a line above the limit was read last.
    is_in_line: bool,
}

impl<'s> TableBlocks<'s> {
    pub(crate) fn new(source: Box<dyn Read + 's>, format: TextFormat) -> Self {
        Self { source, format, carried: Vec::new(), ended: false, is_in_line: false }
    }

    /// The beginning of what is read next: as much as a block has room for.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        let room = BLOCK_BYTES - self.carried.len();
        let mut more = self.source.by_ref().take(room as u64);
        self.ended |= more.read_to_end(&mut self.carried)? < room;
        Ok(&self.carried)
    }

    /// Drops the beginning of what is read next.
    pub(crate) fn drop_front(&mut self, bytes: usize) {
        self.carried.drain(..bytes);
    }

    /// Whether the source has ended within quotes, so that what is left is no record.
    pub(crate) fn ends_in_quotes(&self) -> bool {
        self.ended && !self.carried.is_empty()
    }

    /// Reads the next block. Without [`NextBlock::Records`], the block is empty.
    pub(crate) fn read(&mut self, block: &mut Block) -> io::Result<NextBlock> {
        block.range = 0..0;
        if std::mem::take(&mut self.is_in_line) && !self.skip_line()? {
            return Ok(NextBlock::EndlessLine);
        }
        let mut len = self.carried.len();
        block.bytes[..len].copy_from_slice(&self.carried);
        self.carried.clear();
        while len < BLOCK_BYTES && !self.ended {
            match self.source.read(&mut block.bytes[len..]) {
                Ok(0) => self.ended = true,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if len == 0 {
            return Ok(NextBlock::End);
        }
        let text = &block.bytes[..len];
        let whole = match last_record_end(text, self.format) {
            RecordEnd::At(end) => end,
            RecordEnd::OpenQuote => return Ok(NextBlock::OpenQuote),
            RecordEnd::None if self.ended => len,
            RecordEnd::None => {
                self.is_in_line = true;
                return Ok(NextBlock::LongLine);
            }
        };
        let rest = &text[whole..];
        // The last record need not end with a newline, but its quotes must be closed.
        let is_last = self.ended && last_record_end(rest, self.format) != RecordEnd::OpenQuote;
        block.range = 0..if is_last { len } else { whole };
        if !is_last {
            self.carried.extend_from_slice(rest);
        }
        Ok(NextBlock::Records)
    }

    /// Skips the rest of the line whose beginning was read; false if it is too long for that.
    fn skip_line(&mut self) -> io::Result<bool> {
        let mut buffer = vec![0; 64 << 10];
        let mut skipped = 0;
        loop {
            let read = match self.source.read(&mut buffer) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.ended = read == 0;
            if let Some(end) = memchr(b'\n', &buffer[..read]) {
                self.carried.extend_from_slice(&buffer[end + 1..read]);
                return Ok(true);
            }
            if self.ended {
                return Ok(true);
            }
            skipped += read as u64;
            if skipped > MAX_SKIPPED_BYTES {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::records::{RecordFields, Records};

    const COMMAS: TextFormat = TextFormat { delimiter: b',', quotes: true, header: false };

    fn read_all(text: &[u8]) -> Vec<(NextBlock, Vec<u8>)> {
        let mut reader = TableBlocks::new(Box::new(text), COMMAS);
        let (mut block, mut found) = (Block::default(), Vec::new());
        loop {
            let next = reader.read(&mut block).unwrap();
            found.push((next, block.text().to_vec()));
            if !matches!(next, NextBlock::Records | NextBlock::LongLine) {
                return found;
            }
        }
    }

    #[test]
    fn blocks_are_the_whole_text_cut_between_records() {
        let text: String = (0..300_000).map(|row| format!("{row},\"a\n{row}\",b\n")).collect();
        let found = read_all(text.as_bytes());
        assert!(found.len() > 3);
        let whole: Vec<u8> = found.iter().flat_map(|(_, text)| text.clone()).collect();
        assert_eq!(whole, text.as_bytes());
        let mut rows = 0;
        for (_, text) in &found {
            let (mut records, mut fields) = (Records::new(text, COMMAS), RecordFields::default());
            while records.next(&mut fields) {
                assert_eq!(fields.len(), 3);
                rows += 1;
            }
        }
        assert_eq!(rows, 300_000);
    }

    #[test]
    fn a_line_above_the_limit_is_skipped() {
        let long = "x".repeat(3 << 20);
        let text = format!("a,b\n{long}\nc,d\n");
        let found = read_all(text.as_bytes());
        let kinds: Vec<_> = found.iter().map(|(next, _)| *next).collect();
        use NextBlock::{End, LongLine, Records};
        assert_eq!(kinds, [Records, LongLine, Records, End]);
        assert_eq!(found[2].1, b"c,d\n");
    }

    #[test]
    fn a_line_without_end_is_noticed_at_once_and_given_up_at_a_limit() {
        let mut reader = TableBlocks::new(Box::new(io::repeat(b'x')), COMMAS);
        let mut block = Block::default();
        assert_eq!(reader.read(&mut block).unwrap(), NextBlock::LongLine);
        assert_eq!(reader.read(&mut block).unwrap(), NextBlock::EndlessLine);
    }

    #[test]
    fn a_quote_that_stays_open_is_reported_after_the_records_before_it() {
        for text in ["a,b\nc,\"d\ne,f\n".to_owned(), format!("a,b\n\"{}", "x\n".repeat(1 << 20))] {
            let found = read_all(text.as_bytes());
            assert_eq!(found[0], (NextBlock::Records, b"a,b\n".to_vec()));
            assert_eq!(found[1].0, NextBlock::OpenQuote);
        }
    }

    proptest! {
        #[test]
        fn short_texts_are_one_block(text in "[a,\n]{1,40}") {
            let found = read_all(text.as_bytes());
            prop_assert_eq!(&found[0], &(NextBlock::Records, text.into_bytes()));
            prop_assert_eq!(found.len(), 2);
        }
    }
}
