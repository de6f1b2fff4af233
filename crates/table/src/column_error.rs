//! What is wrong with the columns of a table.

use paceline_data::DataError;

/// The error for columns that cannot be used as they are.
pub(crate) fn refused(what: impl Into<String>) -> DataError {
    DataError::SparseSpec { kind: "table", what: what.into() }
}

/// The error for a file that lacks a column.
pub(crate) fn missing_column(name: &str, names: &[String]) -> DataError {
    let likeness = |other: &str| strsim::normalized_damerau_levenshtein(other, name);
    let nearest = names.iter().map(|other| (likeness(other), other));
    let nearest = nearest.reduce(|best, next| if next.0 > best.0 { next } else { best });
    let hint = match nearest.filter(|(likeness, _)| *likeness > 0.5) {
        Some((_, other)) => format!("; did you mean {other:?}?"),
        None => {
            let shown: Vec<_> = names.iter().take(20).map(|name| format!("{name:?}")).collect();
            let more = if names.len() > 20 { ", …" } else { "" };
            format!("; there are {}{more}", shown.join(", "))
        }
    };
    refused(format!("there is no column {name:?}{hint}"))
}
