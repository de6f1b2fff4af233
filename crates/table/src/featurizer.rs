//! The featuriser: the description that turns a row of a table into keys or numbers.
//!
//! It is made once, from the training data, and saved in the model file. Training, tests and
//! predictions read rows with the same description and the same code.

use paceline_data::DataError;
use paceline_data::sparse::{FieldMap, MAX_FEATURES};
use serde::{Deserialize, Serialize};

use crate::column::{Column, ColumnRole, HASH_BITS};
use crate::label::{MOST_CLASSES, MOST_GUESSED_CLASSES};
use crate::text_format::TextFormat;

/// The version of the description. It changes when an older program would misread it: version 2
/// has fields of numbers.
pub const FEATURIZER_VERSION: u32 = 2;
/// The version of descriptions without fields of numbers, which older programs read.
const PLAIN_VERSION: u32 = 1;
/// The kind in the model file's metadata.
pub const FEATURIZER_KIND: &str = "table";

/// The description that turns a row of a table into keys or numbers.
///
/// Every column has a range of features, in the order of the columns, and then every cross. The
/// first feature of a column says that its value is missing. A dense model sees all features as a
/// vector, a sparse model the keys and values of those that are not zero.
///
/// ```
/// use paceline_table::{Featurizer, TextFormat};
///
/// let text = r#"{"version":1,"kind":"table",
///   "format":{"delimiter":",","quotes":true,"header":true},
///   "columns":[{"name":"age","as":"number","scale":"standard","mean":40.0,"deviation":10.0},
///              {"name":"city","as":"category","codes":"vocabulary","words":["Paris","Rome"]},
///              {"name":"buys","as":"label","classes":["no","yes"]}],"crosses":[]}"#;
/// let featurizer = Featurizer::from_json(text)?;
/// assert_eq!(featurizer.features(), 6);
/// assert_eq!(featurizer.classes(), ["no", "yes"]);
///
/// let names = ["age", "city", "buys"].map(String::from);
/// let encoder = featurizer.encoder(&names)?;
/// let mut row = paceline_table::EncodedRow::default();
/// encoder.encode_text(b"30,Rome,yes", TextFormat::default(), &mut row)?;
/// assert_eq!((row.label, &row.keys[..]), (Some(1), &[1, 5][..]));
/// assert_eq!(row.values, [-1.0, 1.0]);
/// # Ok::<(), paceline_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Featurizer {
    version: u32,
    kind: String,
    /// How the text of the training files was written.
    pub format: TextFormat,
    /// The columns, in the order of the training files.
    pub columns: Vec<Column>,
    /// Combinations of columns.
    pub crosses: Vec<Cross>,
    /// Whether each number of the table is a field of its own, for a model that takes it as it
    /// is. What says that a number is missing stays in its column's field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) number_fields: bool,
}

/// A combination of columns: each combination of their values is a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cross {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// Bits of the hash of a combination.
    pub bits: u32,
}

impl Featurizer {
    /// A featuriser of these parts.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn new(
        format: TextFormat,
        columns: Vec<Column>,
        crosses: Vec<Cross>,
    ) -> Result<Self, DataError> {
        let (version, kind) = (PLAIN_VERSION, FEATURIZER_KIND.to_owned());
        let featurizer = Self { version, kind, format, columns, crosses, number_fields: false };
        featurizer.check().map_err(unusable)?;
        Ok(featurizer)
    }

    /// The same with a field of its own for each number that is not cut into buckets.
    #[must_use]
    pub fn with_number_fields(self) -> Self {
        Self { version: FEATURIZER_VERSION, number_fields: true, ..self }
    }

    /// Reads a featuriser from a model file's metadata.
    ///
    /// # Errors
    /// If the text is not the JSON of a featuriser of tables, is of another version, or contradicts
    /// itself.
    pub fn from_json(text: &str) -> Result<Self, DataError> {
        let parsed: Result<Self, _> = serde_json::from_str(text);
        let featurizer = parsed.map_err(|error| unusable(error.to_string()))?;
        featurizer.check().map_err(unusable)?;
        Ok(featurizer)
    }

    /// The featuriser as JSON; [`from_json`](Self::from_json) reads it.
    pub fn to_json(&self) -> String {
        // Nothing in the description can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn check(&self) -> Result<(), String> {
        let expected = if self.number_fields { FEATURIZER_VERSION } else { PLAIN_VERSION };
        if self.version != expected || self.kind != FEATURIZER_KIND {
            let Self { version, kind, .. } = self;
            return Err(format!(
                "its kind is {kind:?} and its version {version}; this program reads \
                 {FEATURIZER_KIND:?} of the versions {PLAIN_VERSION} to {FEATURIZER_VERSION}"
            ));
        }
        let names: std::collections::HashSet<&str> =
            self.columns.iter().map(|column| column.name.as_str()).collect();
        if names.len() < self.columns.len() {
            return Err("two columns have one name".into());
        }
        let unknown = self.crosses.iter().flat_map(|cross| &cross.columns);
        if let Some(name) = unknown.into_iter().find(|name| !names.contains(name.as_str())) {
            return Err(format!("a cross names the column {name:?}, which is not there"));
        }
        let bits = self.columns.iter().filter_map(|column| column.role.hash_bits());
        let bits = bits.chain(self.crosses.iter().map(|cross| cross.bits));
        if let Some(wrong) = bits.into_iter().find(|bits| !HASH_BITS.contains(bits)) {
            return Err(format!("a hash has {wrong} bits"));
        }
        let labels = self.columns.iter().filter(|c| matches!(c.role, ColumnRole::Label { .. }));
        if labels.count() > 1 || self.classes().len() > MOST_CLASSES {
            return Err("two columns are labels, or there are too many classes".into());
        }
        if let Some(column) = self.columns.iter().find(|column| !column.role.is_sound()) {
            return Err(format!("what is said of the column {:?} is impossible", column.name));
        }
        match self.features() {
            0 => Err("no column is used for training; declare a number, category, list or text"
                .to_owned()),
            1..MAX_FEATURES => Ok(()),
            features => Err(format!("{features} features; use fewer bits")),
        }
    }

    /// The number of features.
    pub fn features(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.role.width()).sum();
        columns + self.crosses.iter().map(|cross| 1 << cross.bits).sum::<usize>()
    }

    /// The names of the classes; none if there is no label.
    pub fn classes(&self) -> &[String] {
        let classes = self.columns.iter().find_map(|column| match &column.role {
            ColumnRole::Label { classes } => Some(classes.as_slice()),
            _ => None,
        });
        classes.unwrap_or_default()
    }

    /// What is doubtful about the label: its values are many numbers, which are learned as classes.
    pub(crate) fn label_doubt(&self) -> Option<String> {
        let classes = self.classes();
        let are_numbers = || classes.iter().all(|class| class.parse::<f64>().is_ok());
        let label =
            self.label().filter(|_| classes.len() > MOST_GUESSED_CLASSES && are_numbers())?;
        Some(format!(
            "the label {label:?} has {} different numbers, and each is a class of its own: \
             Paceline predicts classes, not numbers",
            classes.len()
        ))
    }

    /// The name of the label's column, if there is one.
    pub fn label(&self) -> Option<&str> {
        let label = self.columns.iter().find(|c| matches!(c.role, ColumnRole::Label { .. }));
        label.map(|label| label.name.as_str())
    }

    /// The first feature of each column, and after the last column that of each cross.
    pub(crate) fn first_features(&self) -> Vec<u32> {
        let widths = self.columns.iter().map(|column| column.role.width());
        let widths = widths.chain(self.crosses.iter().map(|cross| 1 << cross.bits));
        let mut end = 0;
        let mut first = |width: usize| {
            end += width;
            (end - width) as u32
        };
        widths.map(&mut first).collect()
    }

    /// The fields of features, for models that tell fields apart: each column and each cross that
    /// has features is one. If the numbers have fields of their own, they are the last.
    pub fn fields(&self) -> FieldMap {
        let mut ranges = Vec::new();
        let firsts = self.first_features();
        let (of_columns, of_crosses) = firsts.split_at(self.columns.len());
        for (column, &first) in self.columns.iter().zip(of_columns) {
            if column.role.width() > 0 {
                ranges.push((first, false));
            }
            if self.number_fields && column.role.is_scaled_number() {
                ranges.push((first + 1, true));
            }
        }
        ranges.extend(of_crosses.iter().map(|&first| (first, false)));
        FieldMap::new(ranges)
    }

    /// The name of each of these fields; a cross has those of its columns.
    pub(crate) fn field_names(&self) -> Vec<String> {
        let columns = self.columns.iter().filter(|column| column.role.width() > 0);
        let columns = columns.map(|column| column.name.clone());
        let crosses = self.crosses.iter().map(|cross| cross.columns.join("*"));
        let is_number = |column: &&Column| self.number_fields && column.role.is_scaled_number();
        let numbers = self.columns.iter().filter(is_number);
        let numbers = numbers.map(|column| format!("the number {}", column.name));
        columns.chain(crosses).chain(numbers).collect()
    }

    /// The name of each feature, for people; a few million names take some memory.
    pub fn feature_name(&self, feature: usize) -> Option<String> {
        let firsts = self.first_features();
        let place = firsts.partition_point(|&first| first as usize <= feature).checked_sub(1)?;
        let within = feature - firsts[place] as usize;
        let Some(column) = self.columns.get(place) else {
            let cross = self.crosses.get(place - self.columns.len())?;
            return (within < 1 << cross.bits)
                .then(|| format!("{}#{within}", cross.columns.join("*")));
        };
        (within < column.role.width()).then(|| column.role.name_of(&column.name, within))
    }
}

fn unusable(what: impl Into<String>) -> DataError {
    DataError::SparseSpec { kind: FEATURIZER_KIND, what: format!("featuriser: {}", what.into()) }
}
