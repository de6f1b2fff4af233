//! The names of a table's columns.

use crate::records::RecordFields;

/// The beginning of the name of a column with an empty header, as programs write row numbers.
const UNNAMED: &str = "unnamed ";

/// The names that the header of a table gives its columns. One that has none is `unnamed` with its
/// number, from 1.
///
/// # Errors
/// The number of the first column, from 1, whose name is not UTF-8.
pub fn column_names(header: &RecordFields<'_>) -> Result<Vec<String>, usize> {
    let name = |(column, name)| match std::str::from_utf8(name).map(str::trim) {
        Ok("") => Ok(format!("{UNNAMED}{column}")),
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(column),
    };
    (1..).zip(header.iter()).map(name).collect()
}

/// Whether a name, in lower case, was not in the header; that of pandas is `Unnamed: 0`.
pub(crate) fn is_unnamed(name: &str) -> bool {
    let number = name.strip_prefix(UNNAMED).or_else(|| name.strip_prefix("unnamed: "));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Records;
    use crate::text_format::TextFormat;

    #[test]
    fn a_column_without_a_name_has_its_number() {
        let mut fields = RecordFields::default();
        Records::new(b",\"a b\", c\n", TextFormat::default()).next(&mut fields);
        let names = column_names(&fields).unwrap();
        assert_eq!(names, ["unnamed 1", "a b", "c"]);
        assert!(is_unnamed(&names[0]) && is_unnamed("unnamed: 0") && !is_unnamed("unnamed one"));
        Records::new(b"a,\xff\n", TextFormat::default()).next(&mut fields);
        assert_eq!(column_names(&fields), Err(2));
    }
}
