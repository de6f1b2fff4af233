//! The texts that mean a missing value.

/// What programs write where a value is missing, in lower case.
const MISSING: [&[u8]; 8] = [b"na", b"n/a", b"nan", b"null", b"none", b"?", b"\\n", b"-nan"];

/// Whether a field of a number has no value.
#[inline]
pub(crate) fn is_missing(field: &[u8]) -> bool {
    match field {
        [] => true,
        [b'0'..=b'9', ..] => false,
        _ => field.len() <= 4 && is_missing_word(field),
    }
}

#[cold]
fn is_missing_word(field: &[u8]) -> bool {
    MISSING.iter().any(|word| field.eq_ignore_ascii_case(word))
}

/// A field without blanks at its ends.
#[inline]
pub(crate) fn trim(field: &[u8]) -> &[u8] {
    match field {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => field.trim_ascii(),
        _ => field,
    }
}
