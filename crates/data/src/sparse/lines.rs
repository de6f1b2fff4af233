//! The lines of a stream, without copying them.
//!
//! The stream is read in blocks, and a line is a slice of the block; only a line that crosses from
//! one block into the next is moved. A line above the limit is skipped and reported. Memory never
//! grows beyond the block.

use std::io::{self, Read};
use std::ops::Range;

use memchr::memchr;

use super::limits::MAX_LINE_BYTES;

/// The size of a block, in bytes: the longest line and some more.
const BLOCK_BYTES: usize = MAX_LINE_BYTES + (256 << 10);

/// Reads the lines of a stream.
pub(crate) struct LineReader<R> {
    source: R,
    block: Box<[u8]>,
    /// The bytes of the block that were read from the stream but are not yet part of a line.
    start: usize,
    end: usize,
    ended: bool,
    lines: u64,
    bytes: u64,
}

/// One line.
pub(crate) enum TextLine<'a> {
    /// Its bytes, without the newline.
    Text(&'a [u8]),
    /// A line above the limit, which was skipped.
    TooLong,
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(source: R) -> Self {
        let block = vec![0; BLOCK_BYTES].into_boxed_slice();
        LineReader { source, block, start: 0, end: 0, ended: false, lines: 0, bytes: 0 }
    }

    /// The number of lines read: the number of the last one, from 1.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// The number of bytes in the lines read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<TextLine<'_>>> {
        let mut searched = 0;
        loop {
            if let Some(len) = memchr(b'\n', &self.block[self.start + searched..self.end]) {
                let line = self.start..self.start + searched + len;
                self.take(line.len() + 1);
                return Ok(Some(self.text(line)));
            }
            searched = self.end - self.start;
            if self.ended {
                if searched == 0 {
                    return Ok(None);
                }
                // The last line need not end with a newline.
                let line = self.start..self.end;
                self.take(searched);
                return Ok(Some(self.text(line)));
            }
            if searched > MAX_LINE_BYTES {
                self.skip_line()?;
                return Ok(Some(TextLine::TooLong));
            }
            self.read_more()?;
        }
    }

    #[inline]
    fn text(&self, line: Range<usize>) -> TextLine<'_> {
        if line.len() > MAX_LINE_BYTES {
            return TextLine::TooLong;
        }
        TextLine::Text(&self.block[line])
    }

    fn take(&mut self, len: usize) {
        self.start += len;
        self.lines += 1;
        self.bytes += len as u64;
    }

    /// Appends bytes to the block, after moving the unused ones to the front if it is full.
    fn read_more(&mut self) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.block.len() {
            self.block.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        loop {
            match self.source.read(&mut self.block[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }

    /// Skips the rest of the line.
    fn skip_line(&mut self) -> io::Result<()> {
        self.lines += 1;
        loop {
            let found = memchr(b'\n', &self.block[self.start..self.end]);
            let dropped = found.map_or(self.end - self.start, |at| at + 1);
            self.start += dropped;
            self.bytes += dropped as u64;
            if found.is_some() || self.ended {
                return Ok(());
            }
            self.read_more()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A source that returns at most a few bytes at a time.
    struct SlowSource<'a>(&'a [u8], usize);

    impl Read for SlowSource<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(self.1).min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    fn all(bytes: &[u8], step: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = LineReader::new(SlowSource(bytes, step));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(match line {
                TextLine::Text(text) => Some(text.to_vec()),
                TextLine::TooLong => None,
            });
        }
        assert_eq!(lines.bytes(), bytes.len() as u64);
        assert_eq!(lines.lines(), found.len() as u64);
        found
    }

    proptest! {
        #[test]
        fn lines_are_the_text_between_newlines(bytes in "[a\n]{0,40}", step in 1usize..50) {
            let expected: Vec<_> =
                bytes.lines().map(|line| Some(line.as_bytes().to_vec())).collect();
            prop_assert_eq!(all(bytes.as_bytes(), step), expected);
        }
    }

    #[test]
    fn a_line_above_the_limit_is_skipped() {
        for (len, fits) in [(MAX_LINE_BYTES, true), (MAX_LINE_BYTES + 1, false), (5 << 20, false)] {
            for end in ["", "\n", "\nafter", "\nafter\n"] {
                let text = ["before\n", &"x".repeat(len), end].concat();
                let found = all(text.as_bytes(), 100_000);
                assert_eq!(found[0].as_deref(), Some(&b"before"[..]));
                assert_eq!(found[1].is_some(), fits, "{len}");
                assert_eq!(found.len(), if end.len() > 1 { 3 } else { 2 });
            }
        }
    }
}
