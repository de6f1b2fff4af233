//! Detects how the text of a table is written.

use crate::missing::is_missing;
use crate::records::{RecordFields, Records};
use crate::text_format::TextFormat;

/// What a job says about the text of a table; the rest is detected from the first rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormatChoice {
    /// The byte between two fields.
    pub delimiter: Option<u8>,
    /// Whether the first record has the names of the columns.
    pub header: Option<bool>,
    /// Whether quotes are ordinary characters.
    pub without_quotes: bool,
}

/// The delimiters that are tried, the most likely first.
const DELIMITERS: [u8; 4] = *b",\t;|";

/// The number of records that are examined.
const EXAMINED: usize = 50;

impl FormatChoice {
    /// The format of a table that begins with this text.
    pub fn detect(&self, text: &[u8]) -> TextFormat {
        let quotes = !self.without_quotes;
        let delimiter = self.delimiter.unwrap_or_else(|| likely_delimiter(text, quotes));
        let format = TextFormat { delimiter, quotes, header: true };
        let header = self.header.unwrap_or_else(|| has_header(text, format));
        TextFormat { header, ..format }
    }
}

/// The delimiter that divides every record into the same number of fields, at least two.
fn likely_delimiter(text: &[u8], quotes: bool) -> u8 {
    let score = |delimiter: u8| {
        let format = TextFormat { delimiter, quotes, header: false };
        let mut widths = Vec::new();
        let (mut records, mut fields) = (Records::new(text, format), RecordFields::default());
        while widths.len() < EXAMINED && records.next(&mut fields) {
            widths.push(fields.len());
        }
        let first = widths.first().copied().unwrap_or(1);
        let equal = widths.iter().filter(|&&width| width == first).count();
        // A ragged line or two must not decide.
        let is_regular = first > 1 && equal * 10 >= widths.len() * 8;
        (is_regular, if first > 1 { first } else { 0 })
    };
    let best = DELIMITERS.map(|delimiter| (score(delimiter), delimiter));
    // Of equals the first.
    let best = best.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map_or(b',', |(_, delimiter)| delimiter)
}

/// Whether the first record names the columns. It has no number, and either stands above a column
/// of numbers as text, or has no empty field and no two equal ones, and its fields differ from the
/// values below them.
fn has_header(text: &[u8], format: TextFormat) -> bool {
    let (mut records, mut fields) = (Records::new(text, format), RecordFields::default());
    if !records.next(&mut fields) {
        return true;
    }
    let names: Vec<Vec<u8>> = fields.iter().map(<[u8]>::to_vec).collect();
    let is_number = |text: &[u8]| crate::number::parse(text).is_ok();
    if names.iter().any(|name| is_number(name)) {
        return false;
    }
    // Numbers below each name, and whether there is nothing else.
    let mut below = vec![(0, true); names.len()];
    let (mut examined, mut recurs) = (0, false);
    while examined < EXAMINED && records.next(&mut fields) {
        examined += 1;
        for ((field, name), (numbers, is_pure)) in fields.iter().zip(&names).zip(&mut below) {
            *numbers += usize::from(is_number(field));
            *is_pure &= is_number(field) || is_missing(field);
            recurs |= !name.is_empty() && field == &name[..];
        }
    }
    let is_heading = |(name, (numbers, is_pure)): (&Vec<u8>, &(usize, bool))| {
        *is_pure && *numbers > 0 && !is_missing(name)
    };
    let distinct: std::collections::HashSet<&Vec<u8>> = names.iter().collect();
    let are_names = distinct.len() == names.len() && !names.iter().any(|name| is_missing(name));
    names.iter().zip(&below).any(is_heading) || are_names && (examined == 0 || !recurs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(text: &str) -> TextFormat {
        FormatChoice::default().detect(text.as_bytes())
    }

    #[test]
    fn the_delimiter_is_the_one_that_divides_all_records_alike() {
        for (text, expected) in [
            ("a,b,c\n1,2,3\n4,5,6\n", b','),
            ("a\tb\n1,5\t2\n3,4,5\t4\n", b'\t'),
            ("a;b\n1,5;2,5\n1,0;3\n", b';'),
            ("a|b|c\nx y|2|3\n", b'|'),
            ("name,text\nx,\"one; two; three\"\ny,\"four\"\n", b','),
            ("one\n2\n3\n", b','),
            ("", b','),
        ] {
            assert_eq!(detect(text).delimiter, expected, "{text:?}");
        }
    }

    #[test]
    fn a_header_has_names_and_no_values() {
        for (text, expected) in [
            ("age,city\n39,Paris\n40,Rome\n", true),
            ("39,Paris\n40,Rome\n", false),
            ("a,a\n1,2\n", true),
            ("a,\n1,2\n", true),
            (",age,city\n0,39,Paris\n1,,Rome\n", true),
            ("red,,small\nblue,4,big\n", false),
            ("x,x\ny,z\n", false),
            ("red,small\nblue,small\nred,big\n", false),
            ("colour,size\nblue,small\nred,big\n", true),
            ("colour,size\n", true),
        ] {
            assert_eq!(detect(text).header, expected, "{text:?}");
        }
    }
}
