//! Cuts a stream into blocks of whole lines or records, which can be parsed in any order.
//!
//! A block is some megabytes; what is left of the last line or record goes to the next block. A
//! line above the limit is skipped and reported. Memory never grows beyond a block and the longest
//! record.

use std::io::{self, Read};

use memchr::{memchr, memchr_iter, memrchr};
use paceline_tfrecord::record_len;

use super::limits::{MAX_LINE_BYTES, MAX_RECORD_BYTES, MAX_SKIPPED_BYTES, endless_line};

/// The size of a block, in bytes; smaller in tests, so that they need not read much.
const BLOCK_BYTES: usize = if cfg!(test) { 5 << 18 } else { 4 << 20 };

// A block without a line's end is a line above the limit.
const _: () = assert!(BLOCK_BYTES > MAX_LINE_BYTES, "a block holds the longest line");

/// What a stream consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockUnit {
    /// Lines of text. The last one need not end with a newline.
    Line,
    /// TFRecords.
    Record,
}

/// Some whole lines or records of a stream.
#[derive(Debug, Default)]
pub(crate) struct InputBlock {
    pub(crate) bytes: Vec<u8>,
    /// The number of lines or records before the block, and after it.
    pub(crate) number: u64,
    pub(crate) end_number: u64,
    /// The byte of the stream after the block.
    pub(crate) end_offset: u64,
    /// Whether the block stands for one line above the limit, which was skipped.
    pub(crate) is_long_line: bool,
}

/// Reads the blocks of a stream.
pub(crate) struct BlockReader<R> {
    source: R,
    unit: BlockUnit,
    /// What was read from the stream but is not yet part of a block.
    carry: Vec<u8>,
    offset: u64,
    number: u64,
    ended: bool,
}

impl<R: Read> BlockReader<R> {
    /// Reads a stream that continues at a byte, after a number of lines or records.
    pub(crate) fn new(source: R, unit: BlockUnit, offset: u64, number: u64) -> Self {
        BlockReader { source, unit, carry: Vec::new(), offset, number, ended: false }
    }

    /// Replaces `block` with the next one; false at the end.
    pub(crate) fn next(&mut self, block: &mut InputBlock) -> io::Result<bool> {
        block.bytes.clear();
        block.bytes.append(&mut self.carry);
        block.is_long_line = false;
        let cut = loop {
            self.read_more(&mut block.bytes)?;
            if block.bytes.is_empty() {
                return Ok(false);
            }
            let cut = match self.unit {
                BlockUnit::Line => cut_lines(&block.bytes, self.ended),
                BlockUnit::Record => cut_records(&block.bytes, self.ended),
            };
            match cut {
                Some(cut) => break cut,
                None if self.unit == BlockUnit::Line => {
                    let skipped = self.skip_line(&mut block.bytes)?;
                    block.is_long_line = true;
                    return Ok(self.end_block(block, skipped, 1));
                }
                // A record that is longer than a block.
                None => {}
            }
        };
        self.carry.extend_from_slice(&block.bytes[cut.end..]);
        block.bytes.truncate(cut.end);
        Ok(self.end_block(block, cut.end as u64, cut.units))
    }

    fn end_block(&mut self, block: &mut InputBlock, bytes: u64, units: u64) -> bool {
        block.number = self.number;
        self.number += units;
        self.offset += bytes;
        (block.end_number, block.end_offset) = (self.number, self.offset);
        true
    }

    /// Appends bytes up to the next multiple of a block, or fewer at the end of the stream. Where
    /// a block ends therefore depends on where it begins alone, not on the blocks before it.
    fn read_more(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        if !self.ended {
            let wanted = BLOCK_BYTES - bytes.len() % BLOCK_BYTES;
            let read = self.source.by_ref().take(wanted as u64).read_to_end(bytes)?;
            self.ended = read < wanted;
        }
        Ok(())
    }

    /// Skips the line that `bytes` is the beginning of, and returns its length. What follows it
    /// goes to the next block.
    fn skip_line(&mut self, bytes: &mut Vec<u8>) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            if let Some(at) = memchr(b'\n', bytes) {
                self.carry.extend_from_slice(&bytes[at + 1..]);
                bytes.clear();
                return Ok(skipped + at as u64 + 1);
            }
            skipped += bytes.len() as u64;
            bytes.clear();
            if skipped > MAX_SKIPPED_BYTES {
                let what = format!("line {}: {}", self.number + 1, endless_line());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            if self.ended {
                return Ok(skipped);
            }
            self.read_more(bytes)?;
        }
    }
}

/// The end of the last whole line or record of some bytes, and the number of lines or records.
struct BlockCut {
    end: usize,
    units: u64,
}

/// `None` if there is no whole line and more bytes follow.
fn cut_lines(bytes: &[u8], ended: bool) -> Option<BlockCut> {
    let newline = memrchr(b'\n', bytes).map(|at| at + 1);
    let end = if ended { bytes.len() } else { newline? };
    let newlines = memchr_iter(b'\n', &bytes[..end]).count() as u64;
    Some(BlockCut { end, units: newlines + u64::from(newline != Some(end)) })
}

/// `None` if there is no whole record and more bytes follow. The rest of a damaged stream is one
/// block, whose parser finds the fault.
fn cut_records(bytes: &[u8], ended: bool) -> Option<BlockCut> {
    let (mut rest, mut units) = (bytes, 0);
    loop {
        match record_len(rest, MAX_RECORD_BYTES) {
            Ok(Some(len)) => (rest, units) = (&rest[len..], units + 1),
            Ok(None) if !ended && units == 0 => return None,
            Ok(None) if !ended => break,
            Ok(None) | Err(_) => return Some(BlockCut { end: bytes.len(), units: units + 1 }),
        }
        if rest.is_empty() {
            break;
        }
    }
    Some(BlockCut { end: bytes.len() - rest.len(), units })
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;
