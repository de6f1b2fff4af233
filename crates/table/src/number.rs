//! Numbers in fields.

use paceline_data::sparse::parse_float;

/// Why a field is not a number that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFault {
    /// It is not a number.
    Text,
    /// It is a number with commas between digits, as in `1,234`.
    Grouped,
    /// It is infinite, or too large for 32 bits.
    Infinite,
}

/// Parses a field that is not missing.
#[inline]
pub(crate) fn parse(field: &[u8]) -> Result<f32, NumberFault> {
    match parse_float(field) {
        Some(value) if value.is_finite() => Ok(value),
        Some(_) => Err(NumberFault::Infinite),
        None => Err(fault(field)),
    }
}

#[cold]
fn fault(field: &[u8]) -> NumberFault {
    let without: Vec<u8> = field.iter().copied().filter(|&byte| byte != b',').collect();
    if without.len() < field.len() && parse_float(&without).is_some() {
        NumberFault::Grouped
    } else {
        NumberFault::Text
    }
}
