//! Detects how a table is written from its header.

use std::collections::HashSet;

use paceline_data::sniff::BYTE_ORDER_MARK;
use paceline_table::{Featurizer, RecordFields, Records, TextFormat, column_names};

/// What may separate the fields of a table.
const DELIMITERS: [u8; 4] = *b",\t;|";

/// How a table with this header is written: its delimiter need not be that of the training files.
pub(crate) fn header_format(featurizer: &Featurizer, header: &[u8]) -> TextFormat {
    let own = featurizer.format;
    let known: HashSet<&str> = featurizer.columns.iter().map(|c| c.name.as_str()).collect();
    let formats = [own.delimiter].into_iter().chain(DELIMITERS);
    let formats = formats.map(|delimiter| TextFormat { delimiter, ..own });
    // The delimiter that divides the header into the most known names; the first of equals.
    let best = formats.map(|format| {
        (
            header_names(header, format)
                .iter()
                .filter(|name| known.contains(name.as_str()))
                .count(),
            format,
        )
    });
    let best = best.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map_or(own, |(_, format)| format)
}

/// The names of a header's columns.
pub(crate) fn header_names(header: &[u8], format: TextFormat) -> Vec<String> {
    let text = header.strip_prefix(BYTE_ORDER_MARK).unwrap_or(header);
    let mut fields = RecordFields::default();
    Records::new(text, format).next(&mut fields);
    column_names(&fields).unwrap_or_else(|_| {
        fields.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_the_one_that_divides_the_header_into_known_names() {
        let text = r#"{"version":1,"kind":"table",
            "format":{"delimiter":",","quotes":true,"header":true},
            "columns":[{"name":"a;b","as":"id"},{"name":"c","as":"text","bits":4,"ngrams":1}],
            "crosses":[]}"#;
        let featurizer = Featurizer::from_json(text).unwrap();
        for (header, delimiter) in [
            ("a;b,c\n", b','),
            ("\u{feff}a;b\tc\n", b'\t'),
            ("\"a;b\"|c|d\n", b'|'),
            ("x,y\n", b','),
        ] {
            let found = header_format(&featurizer, header.as_bytes()).delimiter;
            assert_eq!(found, delimiter, "{header:?}");
        }
    }
}
