//! Criteo's click logs: a label, 13 counts and 26 categories a line, separated by tabs.
//!
//! Every row becomes 39 keys of value 1, one for each column; an empty column has its own key. A
//! count is bucketed by its logarithm, because clicks depend on its magnitude. Column and token are
//! then hashed into the features by a fixed function:
//!
//! ```text
//! token  = 0                            for an empty column
//!        = 2^32 + bucket (mod 2^32)     for a count
//!        = 2^32 + category              for a category, read as hexadecimal
//! bucket = x                            for a count x of at most 2, including negative ones
//!        = 2 + floor(ln(x)^2)           for greater counts
//! hash   = mix(column * 2^40 + token)   column from 0 (first count) to 38 (last category)
//! key    = ((hash >> 32) * features) >> 32
//! ```
//!
//! where `mix` is the finaliser of splitmix64 ([`mix`]). The key is a scaled
//! fraction instead of a remainder: as uniform, and many times faster.

use std::sync::LazyLock;

use paceline_generate::random::mix;
use paceline_generate::{CLICK_FIELDS as FIELDS, COUNT_FIELDS as COUNTS};

use super::libsvm;
use super::number;
use super::row::RowBuffer;
use super::row_fault::RowFault;

/// Set in the token of every column that is not empty.
const PRESENT: u64 = 1 << 32;

/// Greater counts are treated as this one, so that every bucket fits.
const MAX_COUNT: i64 = 1 << 52;

/// Parses a line into `row`. Returns false if the line is empty.
#[inline]
pub(crate) fn parse(line: &[u8], features: u32, row: &mut RowBuffer) -> Result<bool, RowFault> {
    row.clear();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Ok(false);
    }
    let (label, mut rest) = column(line);
    row.set_label(libsvm::label(label)?)?;
    for field in 0..FIELDS {
        let Some(line) = rest else { return Err(RowFault::Columns(field + 1)) };
        let read = if field < COUNTS { count(line) } else { category(line) };
        let (token, after) = read.ok_or(RowFault::Column { column: field + 2 })?;
        row.keys.push(key(field, token, features));
        rest = after;
    }
    match rest {
        None => {
            if row.has_fields() {
                row.fields.extend(0..FIELDS as u16);
            }
            Ok(true)
        }
        Some(more) => {
            Err(RowFault::Columns(FIELDS + 2 + more.iter().filter(|&&byte| byte == b'\t').count()))
        }
    }
}

/// Whether a line has one column too few, as lines without a label have.
pub(crate) fn lacks_label(line: &[u8]) -> bool {
    memchr::memchr_iter(b'\t', line).count() == FIELDS - 1
}

/// The columns after one column, if there are any.
type MoreColumns<'a> = Option<&'a [u8]>;

/// Splits the first column from a line.
#[inline]
fn column(line: &[u8]) -> (&[u8], MoreColumns<'_>) {
    // Columns are a few bytes long, so a simple loop is fastest.
    match line.iter().position(|&byte| byte == b'\t') {
        Some(at) => (&line[..at], Some(&line[at + 1..])),
        None => (line, None),
    }
}

/// The token of a column with a count.
#[inline]
fn count(line: &[u8]) -> Option<(u64, MoreColumns<'_>)> {
    if let [b'\t', rest @ ..] = line {
        return Some((0, Some(rest)));
    }
    // Fast path: digits up to a tab.
    let (count, rest) = match number::whole(line) {
        Some((count, [b'\t', rest @ ..])) => (count as i64, Some(rest)), // 18 digits fit
        _ => {
            let (text, rest) = column(line);
            if text.is_empty() {
                return Some((0, rest));
            }
            (number::signed(text)?, rest)
        }
    };
    Some((PRESENT | u64::from(bucket(count) as u32), rest))
}

/// The token of a column with a category.
#[inline]
fn category(line: &[u8]) -> Option<(u64, MoreColumns<'_>)> {
    // Fast path: eight digits and a tab.
    if let [digits @ .., b'\t'] = line.first_chunk::<9>().map_or(&[][..], |chunk| chunk)
        && let Some(category) = hexadecimal(digits)
    {
        return Some((PRESENT | u64::from(category), Some(&line[9..])));
    }
    let (text, rest) = column(line);
    match text.len() {
        0 => Some((0, rest)),
        1..=8 => Some((PRESENT | u64::from(hexadecimal(text)?), rest)),
        _ => None,
    }
}

/// The bucket of a count.
#[inline]
pub(crate) fn bucket(count: i64) -> i32 {
    // Most counts are small, and their table fits in the first-level cache.
    static SMALL: LazyLock<[u8; 1024]> =
        LazyLock::new(|| std::array::from_fn(|count| logarithmic(count as i64) as u8));
    match usize::try_from(count).ok().and_then(|count| SMALL.get(count)) {
        Some(&bucket) => bucket.into(),
        None => logarithmic(count),
    }
}

fn logarithmic(count: i64) -> i32 {
    if count <= 2 {
        return count.max(i64::from(i32::MIN)) as i32;
    }
    let ln = (count.min(MAX_COUNT) as f64).ln();
    2 + (ln * ln) as i32
}

/// The key of a column's token.
#[inline]
pub(crate) fn key(field: usize, token: u64, features: u32) -> u32 {
    let hash = mix((field as u64) << 40 | token);
    (((hash >> 32) * u64::from(features)) >> 32) as u32
}

/// Parses a category of at most 8 digits.
#[inline]
fn hexadecimal(text: &[u8]) -> Option<u32> {
    let (mut value, mut wrong) = (0, 0);
    for &byte in text {
        let digit = HEX[usize::from(byte)];
        wrong |= digit & 0xf0;
        value = value << 4 | u32::from(digit);
    }
    (wrong == 0).then_some(value)
}

/// The value of each byte as a hexadecimal digit; above 15 for other bytes.
const HEX: [u8; 256] = {
    let mut value = [0xff; 256];
    let mut digit = 0;
    while digit < 10 {
        value[b'0' as usize + digit] = digit as u8;
        digit += 1;
    }
    while digit < 16 {
        value[b'a' as usize + digit - 10] = digit as u8;
        value[b'A' as usize + digit - 10] = digit as u8;
        digit += 1;
    }
    value
};

#[cfg(test)]
#[path = "criteo_tests.rs"]
mod tests;
