//! Checks what the pages of a Parquet file claim, before the library makes room for it.
//!
//! A page's header says how long the page is when it is unpacked, and the header of a dictionary
//! how many values it has. The library takes both at their word and clears that much memory, so a
//! file of two kilobytes could take seven gigabytes. [`CheckedPages`] stands between the library
//! and the file: when the library asks for the bytes of a page, it has just read their header.

use std::fs::File;
use std::io::BufReader;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// How many bytes the pages of all columns together may claim beyond [`MOST_TIMES`] their size in
/// the file. A usual page has 1 MB.
const MOST_BYTES: u64 = 128 << 20;
/// How many times as long any page may become when it is unpacked.
const MOST_TIMES: u64 = 100;
/// The longest header, in bytes. A header contains the least and the greatest of its page's texts,
/// which may be long.
const LONGEST_HEADER: u64 = 16 << 20;

/// A part of [`MOST_BYTES`], which all columns share.
pub(crate) struct MemoryClaim {
    all: Arc<AtomicU64>,
    own: u64,
}

impl MemoryClaim {
    /// A claim of nothing yet, where `all` is the sum of the claims of all columns.
    pub(crate) fn of(all: &Arc<AtomicU64>) -> Self {
        Self { all: all.clone(), own: 0 }
    }

    /// Raises the claim to these bytes, if it is lower. Returns whether all claims together are
    /// within the limit.
    pub(crate) fn raise(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.own);
        self.own += more;
        let before = self.all.fetch_add(more, Ordering::Relaxed);
        before.saturating_add(more) <= MOST_BYTES
    }
}

/// The bytes of one column of a file.
pub(crate) struct CheckedPages {
    file: File,
    state: Mutex<PageReads>,
}

struct PageReads {
    /// Where the library began to read, the last two times.
    reads: [u64; 2],
    /// What the longest page claims beyond [`MOST_TIMES`] its bytes.
    claim: MemoryClaim,
}

impl CheckedPages {
    /// A column of a file, with a claim of its own.
    pub(crate) fn new(file: &File, claim: MemoryClaim) -> Result<Self> {
        let state = Mutex::new(PageReads { reads: [0; 2], claim });
        Ok(Self { file: file.try_clone()?, state })
    }

    /// Checks the header of the page at `start` with a length of `packed`.
    fn check(&self, start: u64, packed: u64) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let header_at = state.reads.into_iter().filter(|&read| read < start).max();
        let header_at = header_at.ok_or_else(|| unsound("a page without a header"))?;
        if start - header_at > LONGEST_HEADER {
            return Err(unsound("a page with a header of more than 16 MB"));
        }
        let header = self.file.get_bytes(header_at, (start - header_at) as usize)?;
        let claims = PageClaims::parse(&header);
        let claims = claims.ok_or_else(|| unsound("a page with an unusual header"))?;
        if claims.dictionary_values > claims.unpacked {
            return Err(unsound("a dictionary with more values than bytes"));
        }
        let beyond = claims.unpacked.saturating_sub(MOST_TIMES.saturating_mul(packed));
        if !state.claim.raise(beyond) {
            return Err(unsound(&format!(
                "pages that would take {} MB when they are unpacked, from {packed} bytes",
                claims.unpacked >> 20
            )));
        }
        Ok(())
    }
}

/// The error of a file that has this.
pub(crate) fn unsound(what: &str) -> ParquetError {
    ParquetError::General(format!("it has {what}"))
}

/// Takes a number of as many bytes as it needs, the lowest first, from the beginning. `None` if
/// the bytes do not begin with one.
pub(crate) fn take_unsigned(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..10 {
        let byte = bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

impl Length for CheckedPages {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for CheckedPages {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reads = [state.reads[1], start];
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.check(start, length as u64)?;
        self.file.get_bytes(start, length)
    }
}

/// What a page's header says of its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PageClaims {
    /// The length of the page when it is unpacked, in bytes.
    unpacked: u64,
    /// The values of a dictionary; 0 for other pages.
    dictionary_values: u64,
}

// Types of fields in the compact form of Thrift. The type of a flag is its value.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const STRUCT: u8 = 12;

/// How deep structs are nested at most, with fields of later versions of the format.
const MOST_DEPTH: u8 = 8;

/// The types of the fields of a header's structs, by their numbers from 1. The library reads a
/// field by its number alone, so this module and the library would read a field of another type
/// differently.
const DATA_PAGE: &[u8] = &[I32, I32, I32, I32, STRUCT];
const DICTIONARY_PAGE: &[u8] = &[I32, I32, TRUE];
const DATA_PAGE_V2: &[u8] = &[I32, I32, I32, I32, I32, I32, TRUE, STRUCT];
const STATISTICS: &[u8] = &[BINARY, BINARY, I64, I64, BINARY, BINARY, TRUE, TRUE, I64];

impl PageClaims {
    /// Reads a header, which must end with the bytes.
    fn parse(header: &[u8]) -> Option<Self> {
        let (mut input, mut claims, mut number) = (ThriftInput(header), Self::default(), 0);
        while let Some(kind) = input.field(&mut number)? {
            match (number, kind) {
                (2, I32) => claims.unpacked = u64::try_from(input.int32()?).ok()?,
                (7, STRUCT) => {
                    let values = input.plain_struct(DICTIONARY_PAGE, 0)?;
                    claims.dictionary_values = u64::try_from(values).ok()?;
                }
                (1 | 3 | 4, I32) => drop(input.int32()?),
                (5, STRUCT) => drop(input.plain_struct(DATA_PAGE, 0)?),
                (6, STRUCT) => drop(input.plain_struct(&[], 0)?),
                (8, STRUCT) => drop(input.plain_struct(DATA_PAGE_V2, 0)?),
                (..=8, _) => return None,
                (_, kind) => input.skip(kind, &[], 0)?,
            }
        }
        input.0.is_empty().then_some(claims)
    }
}

/// The rest of a header. Every function returns `None` if the bytes are not what it reads.
struct ThriftInput<'a>(&'a [u8]);

impl ThriftInput<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn int64(&mut self) -> Option<i64> {
        let value = take_unsigned(&mut self.0)?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn int32(&mut self) -> Option<i32> {
        i32::try_from(self.int64()?).ok()
    }

    /// The type of the next field of a struct, after the field with this number, which becomes its
    /// own. The inner `None` stands for the struct's end.
    fn field(&mut self, number: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let step = i64::from(head >> 4);
        // A number that does not grow is written in full.
        *number = if step == 0 { self.int64()? } else { *number + step };
        Some(Some(head & 0xf))
    }

    /// Reads a struct whose first fields have these types. Returns the first one if that is an
    /// `I32`, or 0.
    fn plain_struct(&mut self, types: &[u8], depth: u8) -> Option<i32> {
        let (mut number, mut first) = (0, 0);
        while let Some(kind) = self.field(&mut number)? {
            let place = usize::try_from(number.checked_sub(1)?).ok()?;
            let expected = types.get(place).copied().unwrap_or(kind);
            if expected != kind && (expected, kind) != (TRUE, FALSE) {
                return None;
            }
            match (place, kind) {
                (0, I32) => first = self.int32()?,
                _ if place < types.len() => self.skip(kind, STATISTICS, depth)?,
                _ => self.skip(kind, &[], depth)?,
            }
        }
        Some(first)
    }

    /// Reads a field of this type; if it is a struct, its first fields have the other types.
    fn skip(&mut self, kind: u8, types: &[u8], depth: u8) -> Option<()> {
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            I32 => drop(self.int32()?),
            I16 | I64 => drop(self.int64()?),
            DOUBLE => drop(self.0.split_off(..8)?),
            BINARY => {
                let length = usize::try_from(take_unsigned(&mut self.0)?).ok()?;
                self.0.split_off(..length)?;
            }
            STRUCT if depth < MOST_DEPTH => drop(self.plain_struct(types, depth + 1)?),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
#[path = "parquet_pages_tests.rs"]
mod tests;
