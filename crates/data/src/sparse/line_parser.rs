//! Parses single lines of text, for programs that read lines themselves, as predictions do.
//!
//! Unlike training data, a line need not have a label.

use super::format::SparseFormat;
use super::label_rule::LabelRule;
use super::limits::MAX_FEATURES;
use super::row::{RowBuffer, SparseRow};
use super::row_fault::RowFault;
use super::{criteo, libffm, libsvm};

/// Parses lines of LIBSVM text, of LIBFFM text or of Criteo's logs into rows.
///
/// ```
/// use paceline_data::sparse::{LineParser, SparseFormat};
///
/// let mut parser = LineParser::new(SparseFormat::Libsvm, 10, 1);
/// let row = parser.parse(b"1 3:0.5 4:2")?.unwrap();
/// assert_eq!((row.row.keys, row.row.label, row.has_label), (&[2, 3][..], 1, true));
/// let row = parser.parse(b"3:0.5 4:2")?.unwrap();
/// assert_eq!((row.row.keys, row.has_label), (&[2, 3][..], false));
/// assert!(parser.parse(b"# a comment")?.is_none());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct LineParser {
    format: SparseFormat,
    features: usize,
    first_index: u32,
    row: RowBuffer,
    /// The class of each label as a row stores it, if there are more than two.
    classes: Option<Box<[Option<u32>; 256]>>,
    /// A line without a label, with one in front.
    labelled: Vec<u8>,
}

/// A row, and whether its line has a label.
#[derive(Clone, Copy, Debug)]
pub struct ParsedRow<'a> {
    /// The row; its label is 0 if the line has none.
    pub row: SparseRow<'a>,
    /// Whether the line has a label, which is that of a class if the parser knows its classes.
    pub has_label: bool,
}

impl LineParser {
    /// A parser of rows whose keys are below `features`. `first_index` is the index of key 0 in
    /// LIBSVM text: 0 or 1.
    ///
    /// # Panics
    /// If the format is not one of lines, or `features` is above [`MAX_FEATURES`].
    pub fn new(format: SparseFormat, features: usize, first_index: u32) -> Self {
        assert!(format != SparseFormat::TfRecord, "TFRecords are not lines");
        assert!(features <= MAX_FEATURES, "too many features");
        let (row, labelled) = (RowBuffer::default(), Vec::new());
        Self { format, features, first_index, row, classes: None, labelled }
    }

    /// The same for rows of several classes: a label is one of these names, which are whole
    /// numbers, and a row's label is the index of the name. A row with another label has none.
    #[must_use]
    pub fn with_classes(mut self, names: &[String]) -> Self {
        let mut classes = Box::new([None; 256]);
        for (class, name) in (0..).zip(names) {
            let stored = name.parse().map(|label: i64| label - LabelRule::FIRST_CLASS);
            if let Some(place) = stored.ok().and_then(|at| classes.get_mut(at as usize)) {
                *place = Some(class);
            }
        }
        self.classes = Some(classes);
        self.row = RowBuffer::new(LabelRule::Classes);
        self
    }

    /// The same for a model that uses fields: rows have the field of each key.
    #[must_use]
    pub fn with_fields(mut self) -> Self {
        self.row = self.row.with_fields(true);
        self
    }

    /// Parses a line without its newline; `None` if it has no row, like an empty line.
    ///
    /// # Errors
    /// If the line is not a row; the text says why.
    #[inline]
    pub fn parse(&mut self, line: &[u8]) -> Result<Option<ParsedRow<'_>>, String> {
        let has_label = match self.format {
            SparseFormat::Criteo => !criteo::lacks_label(line),
            _ => !libsvm::lacks_label(line),
        };
        let added: &[u8] = match self.format {
            _ if has_label => b"",
            SparseFormat::Criteo => b"0\t",
            _ => b"0 ",
        };
        let text = if has_label {
            line
        } else {
            self.labelled.clear();
            self.labelled.extend_from_slice(added);
            self.labelled.extend_from_slice(line);
            &self.labelled
        };
        let row = &mut self.row;
        let parsed = match self.format {
            SparseFormat::Criteo => criteo::parse(text, self.features as u32, row)
                .map(|found| found.then(|| row.finish_ones())),
            format => match parse_entries(format, text, self.first_index, row) {
                Ok(true) => row.finish(self.features).map(Some),
                Ok(false) => Ok(None),
                Err(fault) => Err(fault),
            },
        };
        match parsed {
            Ok(Some(row)) => Ok(Some(match &self.classes {
                None => ParsedRow { row, has_label },
                Some(classes) => {
                    let class = classes[row.label as usize].filter(|_| has_label);
                    let row = SparseRow { label: class.unwrap_or_default(), ..row };
                    ParsedRow { row, has_label: class.is_some() }
                }
            })),
            Ok(None) => Ok(None),
            Err(RowFault::Entry { at }) => {
                Err(RowFault::Entry { at: at - added.len() }.to_string())
            }
            Err(RowFault::FieldEntry { at }) => {
                Err(RowFault::FieldEntry { at: at - added.len() }.to_string())
            }
            Err(fault) => Err(fault.to_string()),
        }
    }
}

/// Parses a line of LIBSVM or LIBFFM text.
fn parse_entries(
    format: SparseFormat,
    line: &[u8],
    first_index: u32,
    row: &mut RowBuffer,
) -> Result<bool, RowFault> {
    match format {
        SparseFormat::Libffm => libffm::parse(line, row),
        _ => libsvm::parse(line, first_index, row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteo_lines_are_parsed_with_and_without_a_label() {
        let fields = ["7"; 13].into_iter().chain(["68fd1e64"; 26]).collect::<Vec<_>>().join("\t");
        let mut parser = LineParser::new(SparseFormat::Criteo, 1000, 0);
        let labelled = format!("1\t{fields}");
        let row = parser.parse(labelled.as_bytes()).unwrap().unwrap();
        assert_eq!((row.row.label, row.has_label), (1, true));
        let keys = row.row.keys.to_vec();
        let row = parser.parse(fields.as_bytes()).unwrap().unwrap();
        assert_eq!((row.row.keys, row.has_label), (&keys[..], false));
        let error = parser.parse(b"1\t2\t3").unwrap_err();
        assert!(error.contains("3 columns instead of 40"), "{error}");
    }

    #[test]
    fn labels_of_several_classes_are_found_by_name() {
        let names = ["-1", "3", "254"].map(String::from);
        let mut parser = LineParser::new(SparseFormat::Libsvm, 10, 1).with_classes(&names);
        let labels = [("-1", 0), ("3.0", 1), ("+254", 2)];
        for (label, class) in labels {
            let row = parser.parse(format!("{label} 1:2").as_bytes()).unwrap().unwrap();
            assert_eq!((row.row.label, row.has_label), (class, true), "{label}");
        }
        // Predictions need no label, so one that the model does not know is no fault.
        for line in ["4 1:2", "1:2"] {
            assert!(!parser.parse(line.as_bytes()).unwrap().unwrap().has_label, "{line}");
        }
        assert!(parser.parse(b"x 1:2").is_err());
    }

    #[test]
    fn faults_name_the_byte_of_the_line_with_or_without_a_label() {
        let mut parser = LineParser::new(SparseFormat::Libsvm, 10, 1);
        for (line, says) in [
            ("1 1:1 x", "byte 7"),
            ("1:1 x", "byte 5"),
            ("1:1 11:1", "not below the number of features"),
            ("3 1:1", "label"),
        ] {
            let error = parser.parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
