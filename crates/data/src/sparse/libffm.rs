//! LIBFFM text: `label field:index:value field:index:value … # comment`, one row a line.
//!
//! It is LIBSVM text in which each entry also has a field, as field-aware factorization machines
//! need it. Fields and indices count from 0. The order of entries does not matter, and a line that
//! is empty or only a comment is not a row.

use super::libsvm::{ends, label, skip_blanks, token_len};
use super::number;
use super::row::RowBuffer;
use super::row_fault::RowFault;

/// Parses a line into `row`. Returns false if the line has no row.
pub(crate) fn parse(line: &[u8], row: &mut RowBuffer) -> Result<bool, RowFault> {
    row.clear();
    let mut rest = skip_blanks(line);
    if ends(rest) {
        return Ok(false);
    }
    let len = token_len(rest);
    row.set_label(label(&rest[..len])?)?;
    rest = skip_blanks(&rest[len..]);
    while !ends(rest) {
        let len = token_len(rest);
        let at = line.len() - rest.len() + 1;
        let (field, index, value) = entry(&rest[..len], at)?;
        row.keys.push(index);
        row.values.push(value);
        if row.has_fields() {
            row.push_field(field, at)?;
        }
        rest = skip_blanks(&rest[len..]);
    }
    Ok(true)
}

/// Parses the entry at a byte of the line: its field, index and value.
fn entry(token: &[u8], at: usize) -> Result<(u16, u32, f32), RowFault> {
    let fault = || RowFault::FieldEntry { at };
    let (field, index) = number::whole(token).ok_or_else(fault)?;
    let index = index.strip_prefix(b":").ok_or_else(fault)?;
    let (index, value) = number::whole(index).ok_or_else(fault)?;
    let value = value.strip_prefix(b":").ok_or_else(fault)?;
    let value = if value == b"1" { 1.0 } else { number::float(value).ok_or_else(fault)? };
    let field = u16::try_from(field).map_err(|_| RowFault::Field { field, at })?;
    Ok((field, u32::try_from(index).map_err(|_| RowFault::Index)?, value))
}

#[cfg(test)]
#[path = "libffm_tests.rs"]
mod tests;
