//! The values in a field that is a list.

use memchr::memmem;

use crate::missing::trim;

/// Calls `visit` with each value of a list that is not empty, without the blanks around it.
#[inline]
pub(crate) fn for_each_list_value(field: &[u8], separator: &[u8], mut visit: impl FnMut(&[u8])) {
    let mut rest = field;
    while !rest.is_empty() {
        let end = memmem::find(rest, separator).unwrap_or(rest.len());
        let value = trim(&rest[..end]);
        if !value.is_empty() {
            visit(value);
        }
        rest = rest.get(end + separator.len()..).unwrap_or_default();
    }
}
