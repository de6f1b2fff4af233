//! Arrays that a trained model predicts from.

use std::path::{Path, PathBuf};

use paceline_data::{DataError, ElementForm, OpenObserver};

use crate::array_source::ArraySource;
use crate::file_array::{FileArray, fault};
use crate::numpy::ArrayExamples;

/// The names that the array of the inputs has if the job does not say, the likeliest first.
const INPUT_NAMES: [&str; 6] = ["x", "X", "x_test", "X_test", "x_train", "X_train"];

/// What a model takes of numpy's arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayInputSpec {
    /// Channels, rows and columns of an example.
    pub shape: [usize; 3],
    /// Whether elements are numbers, or bytes of pixels.
    pub form: ElementForm,
    /// The name of the array with the inputs, if the job says it.
    pub inputs: Option<String>,
    /// The name of the array with the labels, if the job says it.
    pub labels: Option<String>,
}

/// Where the labels of arrays are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrayLabels {
    /// They are not read.
    Unread,
    /// Beside the inputs: `y_test` belongs to `x_test`.
    Beside,
    /// In this `.npy` file.
    File(PathBuf),
}

/// Opens the examples of an `.npz` file, of a directory of `.npy` files, or of a `.npy` file.
/// Labels that are not read count as class 0.
///
/// # Errors
/// If a file or an array is missing, damaged or not what the model takes.
pub fn open_array_inputs(
    path: &Path,
    spec: &ArrayInputSpec,
    labels: &ArrayLabels,
    observer: &mut dyn OpenObserver,
) -> Result<ArrayExamples, DataError> {
    let source = ArraySource::open(path)?;
    let input = input_name(&source, spec)?;
    let names = std::slice::from_ref(&input);
    let inputs = source.required(names, "data.inputs", observer)?;
    let labels = match labels {
        ArrayLabels::Unread => None,
        ArrayLabels::File(file) => Some(FileArray::open(file, observer)?),
        ArrayLabels::Beside => Some(labels_of(&source, &input, &inputs.name, spec, observer)?),
    };
    ArrayExamples::for_model(inputs, labels.as_ref(), spec.form, spec.shape)
}

/// The name of the array with the inputs: its file's, that of the job, a usual one, or the only
/// one.
fn input_name(source: &ArraySource, spec: &ArrayInputSpec) -> Result<String, DataError> {
    let usual = || INPUT_NAMES.map(String::from).to_vec();
    let names = spec.inputs.clone().map_or_else(usual, |name| vec![name]);
    if let [own] = &source.with_own_name(Vec::new())[..] {
        return Ok(own.clone());
    }
    let there = source.names();
    let is_there = |name: &&String| there.iter().any(|one| one == name.trim_end_matches(".npy"));
    if let Some(name) = names.iter().find(is_there) {
        return Ok(name.clone());
    }
    if let [only] = &there[..] {
        return Ok(only.clone());
    }
    let shown = there.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
    let what = format!(
        "there is no array {}; it has {}; name the .npy file of the inputs",
        names.join(" or "),
        if there.is_empty() { "none" } else { &shown }
    );
    Err(fault(source.path(), what))
}

/// The labels that belong to an array of inputs by its name.
fn labels_of(
    source: &ArraySource,
    input: &str,
    file: &Path,
    spec: &ArrayInputSpec,
    observer: &mut dyn OpenObserver,
) -> Result<FileArray, DataError> {
    let rest = input.strip_prefix(['x', 'X']);
    let names: Vec<String> =
        spec.labels.iter().cloned().chain(rest.map(|rest| format!("y{rest}"))).collect();
    source.first_of(&names, observer)?.ok_or_else(|| {
        let looked_for =
            if names.is_empty() { String::new() } else { format!(" ({})", names.join(" or ")) };
        let what = format!(
            "there are no labels beside it{looked_for}; name a .npy file of them with --labels"
        );
        fault(file, what)
    })
}
