//! Records that a trained model predicts from.

use std::path::Path;

use paceline_data::{DataError, ElementForm, OpenObserver};

use crate::pictures::PictureOptions;
use crate::record_index::{BadRecords, InputForm, NO_LABEL, RecordIndex};
use crate::records::{RecordExamples, index_files};

/// What a model takes of `tf.train.Example` records.
#[derive(Clone, Debug)]
pub struct RecordInputSpec {
    /// The name of the feature with the inputs.
    pub inputs: String,
    /// The name of the feature with the class; `None` if classes are not read.
    pub labels: Option<String>,
    /// What the inputs are.
    pub form: ElementForm,
    /// The number of values of an example.
    pub values: usize,
    /// How encoded pictures are read.
    pub pictures: PictureOptions,
}

/// Opens the records of a file, a directory or the files of a pattern. A record that the model does
/// not take is an example that cannot be read; one whose class is unknown has the class `u32::MAX`.
///
/// # Errors
/// If a file is missing, damaged, packed or of another kind, or the observer asks to stop.
pub fn open_record_inputs(
    path: &Path,
    spec: &RecordInputSpec,
    observer: &mut dyn OpenObserver,
) -> Result<RecordExamples, DataError> {
    let mut index = RecordIndex::new(&spec.inputs, spec.labels.as_deref(), BadRecords::Keep);
    index.form = Some(match spec.form {
        ElementForm::Pixels => InputForm::Pixels(spec.values),
        ElementForm::Pictures => InputForm::Picture,
        ElementForm::Numbers | ElementForm::Rows { .. } => InputForm::Numbers(spec.values),
    });
    let records = index_files(path, index, observer)?;
    let known = || records.labels.iter().filter(|&&label| label != NO_LABEL);
    let is_signed = known().any(|&label| label == -1) && known().all(|label| label.abs() == 1);
    let class = |&label: &i64| match label {
        -1 | 1 if is_signed => u32::from(label > 0),
        label => u32::try_from(label).unwrap_or(u32::MAX),
    };
    let labels = records.labels.iter().map(class).collect();
    Ok(RecordExamples::for_model(records, labels, &spec.inputs, spec.pictures.clone()))
}
