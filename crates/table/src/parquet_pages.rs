//! Checks what a Parquet file says of itself, before the library believes it.
//!
//! A page's header says how long the page is when it is unpacked, and the header of a dictionary
//! how many values it has. The library takes both at their word and clears that much memory, so a
//! file of two kilobytes could take seven gigabytes. It also counts the elements of lists that it
//! does not know one by one, although there may be more of them than bytes. [`check_footer`] looks
//! at the description of the whole file first. [`CheckedPages`] stands between the library and the
//! pages, and gives the library no header that it has not read itself.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::thrift::{I32, STRUCT, TRUE, ThriftInput};

/// How many bytes the pages of all columns together may claim beyond [`MOST_TIMES`] their size in
/// the file. A usual page has 1 MB.
const MOST_BYTES: u64 = 128 << 20;
/// How many times as long any page may become when it is unpacked.
const MOST_TIMES: u64 = 100;
/// How many bytes are read for a header at first, and how many times as many if it is longer: it
/// contains the least and the greatest of its page's texts, which may be long.
const HEADER_BYTES: u64 = 4 << 10;
const MORE_TIMES: u64 = 16;
/// The longest header, in bytes.
const LONGEST_HEADER: u64 = 16 << 20;
/// The end of a file: the length of the footer before it, and what makes the file one of these.
const END_BYTES: u64 = 8;
const MAGIC: &[u8] = b"PAR1";

/// Checks the footer of a file. Whether the file ends with one is left to the library.
pub(crate) fn check_footer(file: &File) -> Result<()> {
    let Some(end_at) = file.len().checked_sub(END_BYTES) else { return Ok(()) };
    let end = file.get_bytes(end_at, END_BYTES as usize)?;
    let (Some(length), MAGIC) = (end.first_chunk(), &end[4..]) else { return Ok(()) };
    let length = u32::from_le_bytes(*length);
    let Some(start) = end_at.checked_sub(length.into()) else { return Ok(()) };
    let footer = file.get_bytes(start, length as usize)?;
    let sound = ThriftInput(&footer).skip_with_lists(STRUCT, 0);
    sound.ok_or_else(|| unsound("an unusual footer"))
}

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
    /// Where the last two headers end, and what they claim.
    headers: [(u64, PageClaims); 2],
    /// What the longest page claims beyond [`MOST_TIMES`] its bytes.
    claim: MemoryClaim,
}

impl CheckedPages {
    /// A column of a file, with a claim of its own.
    pub(crate) fn new(file: &File, claim: MemoryClaim) -> Result<Self> {
        let state = Mutex::new(PageReads { headers: Default::default(), claim });
        Ok(Self { file: file.try_clone()?, state })
    }

    /// The header at a place, and what it claims.
    fn header(&self, start: u64) -> Result<(Bytes, PageClaims)> {
        let (left, mut most) = (self.len().saturating_sub(start), HEADER_BYTES);
        loop {
            let bytes = self.file.get_bytes(start, most.min(left) as usize)?;
            if let Some((claims, length)) = PageClaims::parse(&bytes) {
                return Ok((bytes.slice(..length), claims));
            }
            if most >= left.min(LONGEST_HEADER) {
                return Err(unsound("a page with an unusual header"));
            }
            most *= MORE_TIMES;
        }
    }

    /// Checks the page of `packed` bytes at `start` by the header in front of it.
    fn check(&self, start: u64, packed: u64) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let header = state.headers.iter().find(|&&(end, _)| end == start);
        let (_, claims) = *header.ok_or_else(|| unsound("a page without a header"))?;
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

impl Length for CheckedPages {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for CheckedPages {
    type T = Reader<Bytes>;

    /// The header of the page at a place, and nothing behind it. The library reads no other bytes
    /// this way.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let (header, claims) = self.header(start)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.headers = [state.headers[1], (start + header.len() as u64, claims)];
        Ok(header.reader())
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

/// The types of the fields of a header's structs, by their numbers from 1. The library reads a
/// field by its number alone, so this module and the library would read a field of another type
/// differently.
const DATA_PAGE: &[u8] = &[I32, I32, I32, I32, STRUCT];
const DICTIONARY_PAGE: &[u8] = &[I32, I32, TRUE];
const DATA_PAGE_V2: &[u8] = &[I32, I32, I32, I32, I32, I32, TRUE, STRUCT];

impl PageClaims {
    /// Reads the header that some bytes begin with. Returns its length as well.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (mut input, mut claims, mut number) = (ThriftInput(bytes), Self::default(), 0);
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
        Some((claims, bytes.len() - input.0.len()))
    }
}

#[cfg(test)]
#[path = "parquet_pages_tests.rs"]
mod tests;
