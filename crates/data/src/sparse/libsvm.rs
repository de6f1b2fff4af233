//! LIBSVM text: `label index:value index:value … # comment`, one row a line.
//!
//! Blanks separate the fields. `qid:` is ignored, indices need not be sorted, and a line that is
//! empty or only a comment is not a row. The format does not say whether indices count from 0 or
//! from 1; the caller does.

use super::number;
use super::row::RowBuffer;
use super::row_fault::RowFault;

/// Parses a line into `row`. Returns false if the line has no row.
#[inline]
pub(crate) fn parse(line: &[u8], base: u32, row: &mut RowBuffer) -> Result<bool, RowFault> {
    row.clear();
    let mut rest = skip_blanks(line);
    if ends(rest) {
        return Ok(false);
    }
    let len = token_len(rest);
    row.set_label(label(&rest[..len])?)?;
    rest = skip_blanks(&rest[len..]);
    while !ends(rest) {
        let at = || RowFault::Entry { at: line.len() - rest.len() + 1 };
        let Some((index, after)) = number::whole(rest) else {
            let len = token_len(rest);
            if !rest[..len].starts_with(b"qid:") {
                return Err(if is_index_out_of_range(&rest[..len]) {
                    RowFault::Index
                } else {
                    at()
                });
            }
            rest = skip_blanks(&rest[len..]);
            continue;
        };
        let Some((b':', text)) = after.split_first() else { return Err(at()) };
        // Almost every value of click data is 1.
        let (value, after) = match text {
            [b'1', b' ' | b'\t', ..] => (1.0, &text[1..]),
            _ => {
                let len = token_len(text);
                (number::float(&text[..len]).ok_or_else(at)?, &text[len..])
            }
        };
        let index = u32::try_from(index).map_err(|_| RowFault::Index)?;
        row.keys.push(index.checked_sub(base).ok_or(RowFault::IndexZero)?);
        row.values.push(value);
        rest = skip_blanks(after);
    }
    Ok(true)
}

/// Whether a line begins with an entry and not with a label.
#[inline]
pub(crate) fn lacks_label(line: &[u8]) -> bool {
    let line = skip_blanks(line);
    let first = &line[..token_len(line)];
    first.contains(&b':') && !first.starts_with(b"qid:")
}

/// Parses a label, which may be written as a decimal.
#[inline]
pub(crate) fn label(text: &[u8]) -> Result<i64, RowFault> {
    if let Some(label) = number::signed(text) {
        return Ok(label);
    }
    match number::float(text) {
        Some(value) if value.fract() == 0.0 => Ok(value as i64),
        _ => Err(RowFault::Label),
    }
}

#[inline]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

#[inline]
pub(crate) fn skip_blanks(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_blank(*first)
    {
        text = rest;
    }
    text
}

#[inline]
pub(crate) fn token_len(text: &[u8]) -> usize {
    text.iter().position(|&byte| is_blank(byte) || byte == b'#').unwrap_or(text.len())
}

#[inline]
pub(crate) fn ends(text: &[u8]) -> bool {
    matches!(text, [] | [b'#', ..])
}

/// Whether this is an entry whose index is negative or too long; for a better message.
fn is_index_out_of_range(token: &[u8]) -> bool {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    let index = digits.split(|&byte| byte == b':').next().unwrap_or_default();
    !index.is_empty() && index.iter().all(u8::is_ascii_digit) && index.len() < digits.len()
}

#[cfg(test)]
#[path = "libsvm_tests.rs"]
mod tests;
