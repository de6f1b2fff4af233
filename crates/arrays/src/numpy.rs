//! Dense examples in numpy's files.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use paceline_data::{
    DataError, ElementForm, Examples, HoldOut, OpenObserver, SelectedExamples, TrainTest,
    ignore_reports,
};

use crate::array_source::ArraySource;
use crate::classes::{check_test_labels, classes_of, count_classes};
use crate::file_array::{FileArray, fault};
use crate::npy::ElementKind;
use crate::split_rule::{SplitRule, hold_out};

/// The names that arrays have if a job does not say: of training and of test examples.
const INPUT_NAMES: [&str; 4] = ["x", "x_train", "X", "X_train"];
const LABEL_NAMES: [&str; 2] = ["y", "y_train"];
const TEST_INPUT_NAMES: [&str; 2] = ["x_test", "X_test"];
const TEST_LABEL_NAMES: [&str; 1] = ["y_test"];

/// An array of four dimensions has its channels last if there are at most this many.
const MAX_CHANNELS: usize = 4;

thread_local! {
    /// The values of one example in the order of its array.
    static VALUES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Which arrays to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumpySpec {
    /// An `.npz` file, a directory of `.npy` files, or the `.npy` file of the inputs.
    pub path: PathBuf,
    /// The same for the test set.
    pub test_path: Option<PathBuf>,
    /// The name of the array with the inputs. `None` means `x` or `x_train`, and `x_test`.
    pub inputs: Option<String>,
    /// The name of the array with the labels. `None` means `y` or `y_train`, and `y_test`.
    pub labels: Option<String>,
    /// The number of examples to hold out if there is no test set; `None` means a tenth.
    pub hold_out: Option<usize>,
    /// Which examples are held out.
    pub split: HoldOut,
    /// The seed of the choice.
    pub seed: u64,
}

impl NumpySpec {
    /// The arrays at a path, with the defaults of a job.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        NumpySpec {
            path: path.into(),
            test_path: None,
            inputs: None,
            labels: None,
            hold_out: None,
            split: HoldOut::Stratified,
            seed: 0,
        }
    }
}

/// Examples in an array: its first dimension numbers them.
///
/// Bytes (`uint8`) are pixels, and become numbers from 0 to 1. Other types keep their values.
#[derive(Clone, Debug)]
pub struct ArrayExamples {
    inputs: FileArray,
    labels: Vec<u32>,
    planes: PlaneOrder,
    classes: usize,
    /// Whether bytes become numbers from 0 to 1.
    are_pixels: bool,
}

/// How the values of an example lie in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaneOrder {
    /// As channels, rows and columns.
    ChannelsFirst([usize; 3]),
    /// As rows, columns and channels; here in the order in which examples are handed out.
    ChannelsLast([usize; 3]),
}

/// Opens arrays as a training set and a test set.
///
/// # Errors
/// If a file or an array is missing, damaged or of the wrong kind; the message says what to do.
pub fn open_numpy(
    spec: &NumpySpec,
) -> Result<TrainTest<SelectedExamples<ArrayExamples>>, DataError> {
    open_numpy_observed(spec, &mut ignore_reports())
}

/// As [`open_numpy`]; `observer` follows how much of packed arrays is unpacked, and may stop it.
///
/// # Errors
/// As [`open_numpy`], and if the observer stops it.
pub fn open_numpy_observed(
    spec: &NumpySpec,
    observer: &mut dyn OpenObserver,
) -> Result<TrainTest<SelectedExamples<ArrayExamples>>, DataError> {
    let source = ArraySource::open(&spec.path)?;
    let given = |name: &Option<String>, defaults: &[&str]| match name {
        Some(name) => vec![name.clone()],
        None => defaults.iter().map(ToString::to_string).collect(),
    };
    let input_names = source.with_own_name(given(&spec.inputs, &INPUT_NAMES));
    let label_names = given(&spec.labels, &LABEL_NAMES);
    let train = ArrayPair {
        inputs: source.required(&input_names, "data.inputs", observer)?,
        labels: source.required(&label_names, "data.labels", observer)?,
    };
    let test = match &spec.test_path {
        Some(path) => {
            let test = ArraySource::open(path)?;
            let with_test = |names: Vec<String>, test_names: &[&str]| {
                names.into_iter().chain(test_names.iter().map(ToString::to_string)).collect()
            };
            let input_names: Vec<String> =
                with_test(given(&spec.inputs, &INPUT_NAMES), &TEST_INPUT_NAMES);
            let label_names: Vec<String> = with_test(label_names, &TEST_LABEL_NAMES);
            Some(ArrayPair {
                inputs: test.required(&test.with_own_name(input_names), "data.inputs", observer)?,
                labels: test.required(&label_names, "data.labels", observer)?,
            })
        }
        // Named arrays are the whole set.
        None if spec.inputs.is_some() || spec.labels.is_some() => None,
        None => {
            let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
            let inputs = source.first_of(&names(&TEST_INPUT_NAMES), observer)?;
            let labels = source.first_of(&names(&TEST_LABEL_NAMES), observer)?;
            inputs.zip(labels).map(|(inputs, labels)| ArrayPair { inputs, labels })
        }
    };
    split(train, test, spec)
}

/// The inputs and labels of a set.
struct ArrayPair {
    inputs: FileArray,
    labels: FileArray,
}

fn split(
    train: ArrayPair,
    test: Option<ArrayPair>,
    spec: &NumpySpec,
) -> Result<TrainTest<SelectedExamples<ArrayExamples>>, DataError> {
    let origin = spec.path.display().to_string();
    let train = ArrayExamples::new(train)?;
    let Some(test) = test else {
        let rule = SplitRule { hold_out: spec.hold_out, split: spec.split, seed: spec.seed };
        let labels = train.labels.clone();
        return hold_out(train, &labels, rule, origin);
    };
    let mut test = ArrayExamples::new(test)?;
    let name = test.inputs.name.clone();
    check_test_labels(&test.labels, train.classes, &name)?;
    test.classes = train.classes;
    if test.shape() != train.shape() {
        let what = format!(
            "examples of {:?} values, but those of the training set have {:?}",
            test.shape(),
            train.shape()
        );
        return Err(fault(&name, what));
    }
    let (train, test) =
        (SelectedExamples::all(Arc::new(train)), SelectedExamples::all(Arc::new(test)));
    Ok(TrainTest { origin, ..TrainTest::new(train, test) })
}

impl ArrayExamples {
    fn new(ArrayPair { inputs, labels }: ArrayPair) -> Result<Self, DataError> {
        let planes = PlaneOrder::of(&inputs)?;
        let labels = paired_labels(&inputs, &labels)?;
        if u32::try_from(labels.len()).is_err() || labels.is_empty() {
            let what = format!("{} examples; there must be from 1 to {}", labels.len(), u32::MAX);
            return Err(fault(&inputs.name, what));
        }
        let classes = count_classes(&labels);
        let are_pixels = inputs.kind == ElementKind::U8;
        Ok(ArrayExamples { inputs, labels, planes, classes, are_pixels })
    }

    /// The examples of an array for a model that takes this form and shape; without labels, all
    /// are of class 0.
    pub(crate) fn for_model(
        inputs: FileArray,
        labels: Option<&FileArray>,
        form: ElementForm,
        shape: [usize; 3],
    ) -> Result<Self, DataError> {
        let planes = PlaneOrder::of(&inputs)?;
        if planes.shape() != shape {
            let (found, takes) = (planes.shape(), shape);
            let what = format!(
                "examples of {found:?} values (channels, rows and columns), but the model takes \
                 {takes:?}; reshape the array as the training data"
            );
            return Err(fault(&inputs.name, what));
        }
        let are_pixels = form == ElementForm::Pixels;
        if are_pixels && inputs.kind != ElementKind::U8 {
            let what = "its elements are not bytes (uint8), but the model was trained on bytes, \
                        which it divides by 255; save the array as uint8";
            return Err(fault(&inputs.name, what));
        }
        let labels = match labels {
            Some(labels) => paired_labels(&inputs, labels)?,
            None => vec![0; inputs.len()],
        };
        Ok(ArrayExamples { inputs, labels, planes, classes: 0, are_pixels })
    }
}

/// The classes of an array's examples.
fn paired_labels(inputs: &FileArray, labels: &FileArray) -> Result<Vec<u32>, DataError> {
    let numbers = whole_numbers(labels)?;
    if inputs.len() != numbers.len() {
        return Err(DataError::Mismatch {
            first: inputs.name.clone(),
            second: labels.name.clone(),
            what: format!("{} examples and {} labels", inputs.len(), numbers.len()),
        });
    }
    classes_of(&numbers, &labels.name, "example")
}

impl PlaneOrder {
    fn of(inputs: &FileArray) -> Result<Self, DataError> {
        match inputs.shape[..] {
            [_, width] if width > 0 => Ok(PlaneOrder::ChannelsFirst([1, 1, width])),
            [_, rows, cols] if rows * cols > 0 => Ok(PlaneOrder::ChannelsFirst([1, rows, cols])),
            [_, a, b, c] if a * b * c > 0 => Ok(if c <= MAX_CHANNELS && a > MAX_CHANNELS {
                PlaneOrder::ChannelsLast([c, a, b])
            } else {
                PlaneOrder::ChannelsFirst([a, b, c])
            }),
            _ => {
                let what = format!(
                    "an array of the shape {:?}; inputs have two to four dimensions, and the first \
                     one counts the examples",
                    inputs.shape
                );
                Err(fault(&inputs.name, what))
            }
        }
    }

    fn shape(self) -> [usize; 3] {
        match self {
            PlaneOrder::ChannelsFirst(shape) | PlaneOrder::ChannelsLast(shape) => shape,
        }
    }
}

/// The labels as whole numbers.
fn whole_numbers(labels: &FileArray) -> Result<Vec<i64>, DataError> {
    if !matches!(labels.shape[..], [_] | [_, 1]) {
        let what = format!("an array of the shape {:?}; labels have one dimension", labels.shape);
        return Err(fault(&labels.name, what));
    }
    let kind = labels.kind;
    if !matches!(kind, ElementKind::F32 | ElementKind::F64) {
        let elements = labels.bytes().chunks_exact(kind.size());
        return Ok(elements.map(|bytes| whole(bytes, kind)).collect());
    }
    // Numbers that a float rounds are far above the number of classes.
    let mut numbers = vec![0.0; labels.len()];
    read_values(labels, 0..labels.len(), &mut numbers);
    if let Some(index) = numbers.iter().position(|number| number.fract() != 0.0) {
        let what = format!(
            "the label of example {index} (from 0) is {}; labels are whole numbers",
            numbers[index]
        );
        return Err(fault(&labels.name, what));
    }
    Ok(numbers.iter().map(|&number| number as i64).collect())
}

/// A whole number of a kind that is not a float; numbers beyond `i64` become its maximum.
fn whole(bytes: &[u8], kind: ElementKind) -> i64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    match kind {
        ElementKind::I8 => i64::from(unsigned as i8),
        ElementKind::I16 => i64::from(unsigned as i16),
        ElementKind::I32 => i64::from(unsigned as i32),
        ElementKind::I64 => unsigned as i64,
        _ => i64::try_from(unsigned).unwrap_or(i64::MAX),
    }
}

/// Copies elements as floats; bytes of pixels are not scaled.
fn read_values(array: &FileArray, elements: std::ops::Range<usize>, out: &mut [f32]) {
    let size = array.kind.size();
    let bytes = &array.bytes()[elements.start * size..elements.end * size];
    match array.kind {
        ElementKind::F32 => copy(bytes, out, f32::from_le_bytes),
        ElementKind::F64 => copy(bytes, out, |bytes| f64::from_le_bytes(bytes) as f32),
        ElementKind::U8 | ElementKind::Bool => copy(bytes, out, |[byte]| f32::from(byte)),
        ElementKind::I8 => copy(bytes, out, |bytes| f32::from(i8::from_le_bytes(bytes))),
        ElementKind::U16 => copy(bytes, out, |bytes| f32::from(u16::from_le_bytes(bytes))),
        ElementKind::I16 => copy(bytes, out, |bytes| f32::from(i16::from_le_bytes(bytes))),
        ElementKind::U32 => copy(bytes, out, |bytes| u32::from_le_bytes(bytes) as f32),
        ElementKind::I32 => copy(bytes, out, |bytes| i32::from_le_bytes(bytes) as f32),
        ElementKind::U64 => copy(bytes, out, |bytes| u64::from_le_bytes(bytes) as f32),
        ElementKind::I64 => copy(bytes, out, |bytes| i64::from_le_bytes(bytes) as f32),
    }
}

fn copy<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    let (elements, _) = bytes.as_chunks::<N>();
    out.iter_mut().zip(elements).for_each(|(out, &element)| *out = value(element));
}

impl Examples for ArrayExamples {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn shape(&self) -> [usize; 3] {
        self.planes.shape()
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn element_form(&self) -> ElementForm {
        if self.are_pixels { ElementForm::Pixels } else { ElementForm::Numbers }
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        Some(self.labels[example as usize])
    }

    fn fill(&self, example: u32, _epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        let width = self.inputs();
        assert_eq!(out.len(), width, "the buffer must hold exactly one example");
        let start = example as usize * width;
        match self.planes {
            PlaneOrder::ChannelsFirst(_) => read_values(&self.inputs, start..start + width, out),
            PlaneOrder::ChannelsLast([channels, ..]) => {
                VALUES.with_borrow_mut(|values| {
                    values.resize(width, 0.0);
                    read_values(&self.inputs, start..start + width, values);
                    let pixels = width / channels;
                    for (pixel, values) in values.chunks_exact(channels).enumerate() {
                        (0..channels).for_each(|c| out[c * pixels + pixel] = values[c]);
                    }
                });
            }
        }
        if self.are_pixels {
            out.iter_mut().for_each(|value| *value /= 255.0);
        } else if !out.iter().fold(true, |finite, value| finite & value.is_finite()) {
            let name = self.inputs.name.display();
            let what = format!("{name}: example {example} (from 0) has a value that is not finite");
            return Err(DataError::BadExample { what });
        }
        Ok(self.labels[example as usize])
    }
}
