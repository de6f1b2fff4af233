//! Dense examples in TFRecords: vectors of numbers, raw pixels or encoded pictures.
//!
//! The files are mapped and read once to find where each record begins and which class it has.
//! After that, examples are read from the map in any order, so the data may be larger than memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
use paceline_data::sniff::{FileKind, check_kind, sniff};
use paceline_data::sparse::{MAX_RECORD_BYTES, source_files};
use paceline_data::{
    DataError, Examples, HoldOut, OnBad, OpenMeter, OpenObserver, SelectedExamples, TrainTest,
    unpack,
};
use paceline_tfrecord::{RecordError, split_record};

use crate::classes::{check_test_labels, classes_of, count_classes};
use crate::file_array::{fault, map};
use crate::pictures::{CropDraw, PictureOptions};
use crate::split_rule::{SplitRule, hold_out};
use crate::tf_example::{FeatureList, ListKind, features, names};

/// Which features of which records to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSpec {
    /// The training set: a file, a directory, or a pattern.
    pub path: PathBuf,
    /// The same for the test set.
    pub test_path: Option<PathBuf>,
    /// The name of the feature with the inputs: a list of numbers of one length, or one string of
    /// bytes, which is a JPEG or PNG picture or raw pixels.
    pub inputs: String,
    /// The name of the feature with the class: one whole number.
    pub labels: String,
    /// Width and height of encoded pictures after scaling and cropping, in pixels.
    pub size: usize,
    /// The number of examples to hold out if there is no test set; `None` means a tenth.
    pub hold_out: Option<usize>,
    /// Which examples are held out.
    pub split: HoldOut,
    /// The seed of the choice, and of random crops.
    pub seed: u64,
    /// What to do about records that cannot be read.
    pub on_bad: OnBad,
}

/// Examples in TFRecords.
#[derive(Clone, Debug)]
pub struct RecordExamples {
    files: Arc<[RecordFile]>,
    places: Vec<RecordPlace>,
    labels: Vec<u32>,
    classes: usize,
    feature: String,
    form: InputForm,
    pictures: PictureOptions,
    /// Whether encoded pictures are cropped at random, as training does.
    random_crops: bool,
}

#[derive(Clone, Debug)]
struct RecordFile {
    path: PathBuf,
    map: Arc<Mmap>,
}

/// Where a record's data lies.
#[derive(Clone, Copy, Debug)]
struct RecordPlace {
    file: u32,
    len: u32,
    offset: u64,
}

/// What an example's inputs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputForm {
    /// This many numbers.
    Numbers(usize),
    /// This many bytes, each a pixel.
    Pixels(usize),
    /// An encoded picture.
    Picture,
}

/// Opens records as a training set and a test set.
///
/// # Errors
/// If a file is missing, damaged, packed or of another kind, a record lacks a feature, or the
/// observer asks to stop.
pub fn open_records(
    spec: &RecordSpec,
    observer: &mut dyn OpenObserver,
) -> Result<TrainTest<SelectedExamples<RecordExamples>>, DataError> {
    let origin = spec.path.display().to_string();
    let train = RecordExamples::open(&spec.path, spec, observer)?;
    let Some(test_path) = &spec.test_path else {
        let rule = SplitRule { hold_out: spec.hold_out, split: spec.split, seed: spec.seed };
        let labels = train.labels.clone();
        let mut set = hold_out(train, &labels, rule, origin)?;
        set.train = set.train.map_source(|train| RecordExamples { random_crops: true, ..train });
        return Ok(set);
    };
    let mut test = RecordExamples::open(test_path, spec, observer)?;
    check_test_labels(&test.labels, train.classes, test_path)?;
    test.classes = train.classes;
    if test.form != train.form {
        let what = format!("inputs of another form than those of {origin}");
        return Err(fault(test_path, what));
    }
    let train = RecordExamples { random_crops: true, ..train };
    let (train, test) =
        (SelectedExamples::all(Arc::new(train)), SelectedExamples::all(Arc::new(test)));
    Ok(TrainTest { origin, ..TrainTest::new(train, test) })
}

impl RecordExamples {
    fn open(
        path: &Path,
        spec: &RecordSpec,
        observer: &mut dyn OpenObserver,
    ) -> Result<Self, DataError> {
        let paths = source_files(path)?;
        let sizes = paths.iter().map(|file| file.metadata().map_or(0, |about| about.len()));
        let mut meter = OpenMeter::new(observer, "reading", path, sizes.sum());
        let mut index = RecordIndex { spec, places: Vec::new(), labels: Vec::new(), form: None };
        let mut files = Vec::new();
        for (number, path) in (0..).zip(paths) {
            check_kind(&path, "tfrecord", FileKind::TfRecord)?;
            if unpack::open(&path)?.is_gzip() {
                let what = "gzip has no random access, which dense examples need; unpack it first: \
                            gunzip";
                return Err(fault(&path, what));
            }
            let map = map(&path)?;
            index.add_file(number, &path, &map, &mut meter)?;
            files.push(RecordFile { path, map });
        }
        let RecordIndex { places, labels, form, .. } = index;
        let Some(form) = form else { return Err(fault(path, "there are no records")) };
        if u32::try_from(places.len()).is_err() {
            return Err(fault(path, format!("more than {} records", u32::MAX)));
        }
        let labels = classes_of(&labels, path, "record")?;
        Ok(RecordExamples {
            files: files.into(),
            places,
            classes: count_classes(&labels),
            labels,
            feature: spec.inputs.clone(),
            form,
            pictures: PictureOptions::new(spec.size, spec.seed),
            random_crops: false,
        })
    }

    /// The data of a record.
    fn record(&self, example: u32) -> (&RecordFile, &[u8]) {
        let RecordPlace { file, len, offset } = self.places[example as usize];
        let file = &self.files[file as usize];
        (file, &file.map[offset as usize..offset as usize + len as usize])
    }

    fn read(&self, example: u32, draw: u64, out: &mut [f32]) -> Result<(), String> {
        let (_, record) = self.record(example);
        let [inputs] = features(record, [&self.feature]).map_err(|error| error.to_string())?;
        let inputs = inputs.ok_or_else(|| format!("it lacks the feature {:?}", self.feature))?;
        let form = InputForm::of(&inputs)?;
        if form != self.form {
            return Err(format!("its inputs are {form}, those of the first are {}", self.form));
        }
        let bytes = inputs.bytes().map_err(|error| error.to_string())?.unwrap_or_default();
        match form {
            InputForm::Picture => {
                let draw = self.random_crops.then_some(CropDraw { example, draw });
                return self.pictures.read_encoded(bytes, draw, out);
            }
            InputForm::Pixels(_) => {
                out.iter_mut().zip(bytes).for_each(|(out, &byte)| *out = f32::from(byte) / 255.0);
            }
            InputForm::Numbers(_) => {
                let mut slots = out.iter_mut();
                let read = inputs.numbers(|number| {
                    slots.by_ref().take(1).for_each(|slot| *slot = number as f32);
                });
                read.map_err(|error| error.to_string())?;
            }
        }
        let is_finite = out.iter().fold(true, |finite, value| finite & value.is_finite());
        if is_finite { Ok(()) } else { Err("a value is not finite".into()) }
    }
}

/// Finds the records of files.
struct RecordIndex<'a> {
    spec: &'a RecordSpec,
    places: Vec<RecordPlace>,
    labels: Vec<i64>,
    /// The form of the first record's inputs, which all others must have.
    form: Option<InputForm>,
}

impl RecordIndex<'_> {
    fn add_file(
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
            match record.data.ok_or_else(|| String::from("the data fails its checksum")) {
                Ok(data) => match self.label(data) {
                    Ok(label) => {
                        let len = data.len() as u32;
                        // A record's length and its checksum take twelve bytes.
                        self.places.push(RecordPlace { file, len, offset: offset + 12 });
                        self.labels.push(label);
                        meter.set_rows(self.places.len() as u64);
                    }
                    Err(what) => self.bad(path, number, what)?,
                },
                Err(what) => self.bad(path, number, what)?,
            }
            number += 1;
        }
        Ok(())
    }

    fn bad(&self, path: &Path, number: u64, what: String) -> Result<(), DataError> {
        if self.spec.on_bad == OnBad::Skip {
            return Ok(());
        }
        Err(DataError::Row { path: path.into(), unit: "record", number, what })
    }

    /// The label of a record; also checks the form of its inputs.
    fn label(&mut self, record: &[u8]) -> Result<i64, String> {
        let RecordSpec { inputs: input_name, labels: label_name, .. } = self.spec;
        let found = features(record, [input_name, label_name])
            .map_err(|error| format!("not a tf.train.Example: {error}"))?;
        let missing = |key: &str, name: &str| {
            let there = names(record).join(", ");
            format!("it has no feature {name:?}, but {there}; set {key} to a name")
        };
        let [Some(inputs), label] = found else {
            return Err(missing("data.inputs", input_name));
        };
        let label = label.ok_or_else(|| missing("data.labels", label_name))?;
        let form = InputForm::of(&inputs)?;
        let first = *self.form.get_or_insert(form);
        if form != first {
            return Err(format!("its inputs are {form}, but those of the first record {first}"));
        }
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
    fn of(inputs: &FeatureList<'_>) -> Result<Self, String> {
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

impl Examples for RecordExamples {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn shape(&self) -> [usize; 3] {
        match self.form {
            InputForm::Numbers(width) | InputForm::Pixels(width) => [1, 1, width],
            InputForm::Picture => [3, self.pictures.size, self.pictures.size],
        }
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        Some(self.labels[example as usize])
    }

    fn fill(&self, example: u32, draw: u64, out: &mut [f32]) -> Result<u32, DataError> {
        assert_eq!(out.len(), self.inputs(), "the buffer must hold exactly one example");
        self.read(example, draw, out).map_err(|what| {
            let path = self.record(example).0.path.display();
            DataError::BadExample { what: format!("{path}: example {example} (from 0): {what}") }
        })?;
        Ok(self.labels[example as usize])
    }
}
