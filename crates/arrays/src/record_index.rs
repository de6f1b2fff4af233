//! Finds the records of TFRecord files: where each lies, and which label it has.

use std::path::Path;

use paceline_data::sniff::{FileKind, sniff};
use paceline_data::sparse::MAX_RECORD_BYTES;
use paceline_data::{DataError, OpenMeter};
use paceline_tfrecord::{RecordError, split_record};

use crate::file_array::fault;
use crate::tf_example::{FeatureList, ListKind, features, names};

/// The length of a record whose data fails its checksum.
pub(crate) const DAMAGED: u32 = u32::MAX;
/// The label of a record that has none.
pub(crate) const NO_LABEL: i64 = i64::MIN;

/// Where a record's data lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPlace {
    pub(crate) file: u32,
    /// [`DAMAGED`] if the data fails its checksum.
    pub(crate) len: u32,
    pub(crate) offset: u64,
}

/// What an example's inputs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputForm {
    /// This many numbers.
    Numbers(usize),
    /// This many bytes, each a pixel.
    Pixels(usize),
    /// An encoded picture.
    Picture,
}

/// Finds the records of files.
#[derive(Debug)]
pub(crate) struct RecordIndex<'a> {
    pub(crate) inputs: &'a str,
    /// The name of the feature with the class; `None` if classes are not read.
    pub(crate) label: Option<&'a str>,
    pub(crate) bad: BadRecords,
    pub(crate) places: Vec<RecordPlace>,
    /// The label of each record; [`NO_LABEL`] if it is not known.
    pub(crate) labels: Vec<i64>,
    /// The form of the first record's inputs, which all others must have.
    pub(crate) form: Option<InputForm>,
}

/// What becomes of records that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRecords {
    /// The first one is an error.
    Fail,
    /// They are left out.
    Skip,
    /// They are examples that cannot be read.
    Keep,
}

impl<'a> RecordIndex<'a> {
    /// An index of records with these features.
    pub(crate) fn new(inputs: &'a str, label: Option<&'a str>, bad: BadRecords) -> Self {
        let (places, labels) = (Vec::new(), Vec::new());
        Self { inputs, label, bad, places, labels, form: None }
    }

    /// Adds the records of a file.
    pub(crate) fn add_file(
        &mut self,
        file: u32,
        path: &Path,
        map: &[u8],
        meter: &mut OpenMeter<'_>,
    ) -> Result<(), DataError> {
        let (mut rest, mut number) = (map, 0u64);
        while !rest.is_empty() {
            let offset = (map.len() - rest.len()) as u64;
            let damaged = |what: String| fault(path, format!("record {number} (from 0): {what}"));
            let record = split_record(rest, MAX_RECORD_BYTES)
                .map_err(|kind| fault(path, RecordError { record: number, offset, kind }))?;
            let Some(record) = record else {
                return Err(damaged("the file ends within it; copy it again".into()));
            };
            let taken = rest.len() - record.rest.len();
            rest = record.rest;
            meter.add(taken as u64)?;
            let len = record.data.map_or(DAMAGED, |data| data.len() as u32);
            let data = record.data.ok_or_else(|| String::from("the data fails its checksum"));
            match data.and_then(|data| self.label(data)) {
                Ok(label) => self.add(file, len, offset, label, meter),
                Err(_) if self.bad == BadRecords::Keep => {
                    self.add(file, len, offset, NO_LABEL, meter);
                }
                Err(_) if self.bad == BadRecords::Skip => {}
                Err(what) => {
                    let path = path.into();
                    return Err(DataError::Row { path, unit: "record", number, what });
                }
            }
            number += 1;
        }
        Ok(())
    }

    fn add(&mut self, file: u32, len: u32, at: u64, label: i64, meter: &mut OpenMeter<'_>) {
        // A record's length and its checksum take twelve bytes.
        self.places.push(RecordPlace { file, len, offset: at + 12 });
        self.labels.push(label);
        meter.set_rows(self.places.len() as u64);
    }

    /// The label of a record; also checks the form of its inputs.
    fn label(&mut self, record: &[u8]) -> Result<i64, String> {
        let (input_name, label_name) = (self.inputs, self.label.unwrap_or_default());
        let found = features(record, [input_name, label_name])
            .map_err(|error| format!("not a tf.train.Example: {error}"))?;
        let missing = |key: &str, name: &str| {
            let there = names(record).join(", ");
            format!("it has no feature {name:?}, but {there}; set {key} to a name")
        };
        let [Some(inputs), label] = found else {
            return Err(missing("data.inputs", input_name));
        };
        let form = InputForm::of(&inputs)?;
        let first = *self.form.get_or_insert(form);
        if form != first {
            return Err(format!("its inputs are {form}, but those of the first record {first}"));
        }
        if self.label.is_none() {
            return Ok(NO_LABEL);
        }
        let label = label.ok_or_else(|| missing("data.labels", label_name))?;
        let (mut value, mut count) = (0.0, 0);
        label
            .numbers(|number| {
                value = number;
                count += 1;
            })
            .map_err(|error| error.to_string())?;
        if count != 1 || value.fract() != 0.0 {
            return Err(format!("the feature {label_name:?} is not one whole number"));
        }
        Ok(value as i64)
    }
}

impl InputForm {
    pub(crate) fn of(inputs: &FeatureList<'_>) -> Result<Self, String> {
        let wrong = |error| format!("not a tf.train.Example: {error}");
        if inputs.kind == ListKind::Bytes {
            let bytes = inputs.bytes().map_err(wrong)?.unwrap_or_default();
            return match sniff(bytes) {
                FileKind::Jpeg | FileKind::Png => Ok(InputForm::Picture),
                FileKind::Empty => Err("its inputs are empty".into()),
                _ => Ok(InputForm::Pixels(bytes.len())),
            };
        }
        let mut count = 0;
        inputs.numbers(|_| count += 1).map_err(wrong)?;
        if count == 0 { Err("its inputs are empty".into()) } else { Ok(InputForm::Numbers(count)) }
    }
}

impl std::fmt::Display for InputForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InputForm::Numbers(count) => write!(f, "{count} numbers"),
            InputForm::Pixels(count) => write!(f, "{count} bytes"),
            InputForm::Picture => f.write_str("an encoded picture"),
        }
    }
}
