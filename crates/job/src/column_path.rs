//! The keys of a table's columns. `data.columns.age.scale` is the key `data.columns.#.scale` of the
//! column `age`: the schema describes the keys of all columns once.

use std::borrow::Cow;

/// The section of columns.
pub(super) const COLUMNS: &str = "data.columns";

/// The column whose key this is, as TOML writes its name, and the part of the path after it.
pub(super) fn split_column(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix(COLUMNS)?.strip_prefix('.')?;
    let end = match rest.strip_prefix('"') {
        Some(quoted) => closing_quote(quoted)? + 2,
        None => rest.find('.').unwrap_or(rest.len()),
    };
    (end > 0).then(|| rest.split_at(end))
}

/// The index of the quote that ends a quoted name.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// The name of a column that is written as TOML writes it.
pub(super) fn column_name(written: &str) -> String {
    match toml::de::DeValue::parse(written).map(|value| value.into_inner()) {
        Ok(toml::de::DeValue::String(name)) if written.starts_with('"') => name.into_owned(),
        _ => written.to_owned(),
    }
}

/// A path whose column's name is quoted if it must be, as in a file.
pub(super) fn with_quoted_column(path: &str) -> Cow<'_, str> {
    let is_bare = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    match split_column(path) {
        Some((name, rest)) if !name.starts_with('"') && !is_bare(name) => {
            Cow::Owned(format!("{COLUMNS}.{name:?}{rest}"))
        }
        _ => Cow::Borrowed(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_may_be_quoted() {
        assert_eq!(split_column("data.columns.age.scale"), Some(("age", ".scale")));
        assert_eq!(split_column("data.columns.age"), Some(("age", "")));
        let quoted = r#"data.columns."a.b \"c\"".as"#;
        assert_eq!(split_column(quoted), Some((r#""a.b \"c\"""#, ".as")));
        assert_eq!(column_name(r#""a.b \"c\"""#), r#"a.b "c""#);
        assert_eq!(column_name("age"), "age");
        for other in ["data.columns", "data.columns.", "data.path", r#"data.columns."a"#] {
            assert_eq!(split_column(other), None, "{other}");
        }
        assert_eq!(with_quoted_column("data.columns.my age.as"), r#"data.columns."my age".as"#);
        assert_eq!(with_quoted_column("data.path"), "data.path");
    }
}
