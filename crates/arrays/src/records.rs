//! Dense examples in TFRecords: vectors of numbers, raw pixels or encoded pictures.
//!
//! The files are mapped and read once to find where each record begins and which class it has.
//! After that, examples are read from the map in any order, so the data may be larger than memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_data::sniff::{FileKind, check_kind};
use paceline_data::sparse::source_files;
use paceline_data::{
    DataError, ElementForm, Examples, HoldOut, OnBad, OpenMeter, OpenObserver, SelectedExamples,
    TrainTest, unpack,
};
use paceline_filemap::FileMap;

use crate::classes::{check_test_labels, classes_of, count_classes};
use crate::file_array::{fault, map};
use crate::pictures::{CropDraw, PictureOptions};
use crate::record_index::{BadRecords, DAMAGED, InputForm, RecordIndex, RecordPlace};
use crate::split_rule::{SplitRule, hold_out};
use crate::tf_example::features;

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
pub(crate) struct RecordFile {
    path: PathBuf,
    map: Arc<FileMap>,
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
        let what = format!("its inputs differ in form from those of {origin}");
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
        let bad = if spec.on_bad == OnBad::Skip { BadRecords::Skip } else { BadRecords::Fail };
        let label = Some(&*spec.labels);
        let index = RecordIndex::new(&spec.inputs, label, bad);
        let IndexedRecords { files, places, labels, form } = index_files(path, index, observer)?;
        let labels = classes_of(&labels, path, "record")?;
        Ok(RecordExamples {
            files,
            places,
            classes: count_classes(&labels),
            labels,
            feature: spec.inputs.clone(),
            form,
            pictures: PictureOptions::new(spec.size, spec.seed),
            random_crops: false,
        })
    }

    /// Records that a model predicts from. Some may be bad.
    pub(crate) fn for_model(
        records: IndexedRecords,
        labels: Vec<u32>,
        feature: &str,
        pictures: PictureOptions,
    ) -> Self {
        let IndexedRecords { files, places, form, .. } = records;
        let (feature, classes, random_crops) = (feature.to_owned(), 0, false);
        RecordExamples { files, places, labels, classes, feature, form, pictures, random_crops }
    }

    /// The data of a record.
    fn record(&self, example: u32) -> (&RecordFile, Option<&[u8]>) {
        let RecordPlace { file, len, offset } = self.places[example as usize];
        let file = &self.files[file as usize];
        let data = || &file.map[offset as usize..offset as usize + len as usize];
        (file, (len != DAMAGED).then(data))
    }

    fn read(&self, example: u32, epoch: u64, out: &mut [f32]) -> Result<(), String> {
        let record = self.record(example).1.ok_or("the data fails its checksum")?;
        let [inputs] = features(record, [&self.feature]).map_err(|error| error.to_string())?;
        let inputs = inputs.ok_or_else(|| format!("it lacks the feature {:?}", self.feature))?;
        let form = InputForm::of(&inputs)?;
        if form != self.form {
            return Err(format!("its inputs are {form} instead of {}", self.form));
        }
        let bytes = inputs.bytes().map_err(|error| error.to_string())?.unwrap_or_default();
        match form {
            InputForm::Picture => {
                let draw = self.random_crops.then_some(CropDraw { example, epoch });
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

/// The records of some files.
pub(crate) struct IndexedRecords {
    pub(crate) files: Arc<[RecordFile]>,
    pub(crate) places: Vec<RecordPlace>,
    pub(crate) labels: Vec<i64>,
    pub(crate) form: InputForm,
}

/// Maps files and finds their records.
pub(crate) fn index_files(
    path: &Path,
    mut index: RecordIndex<'_>,
    observer: &mut dyn OpenObserver,
) -> Result<IndexedRecords, DataError> {
    let paths = source_files(path)?;
    let sizes = paths.iter().map(|file| file.metadata().map_or(0, |about| about.len()));
    let mut meter = OpenMeter::new(observer, "reading", path, sizes.sum());
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
    let Some(form) = form.filter(|_| !places.is_empty()) else {
        return Err(fault(path, "there are no records"));
    };
    if u32::try_from(places.len()).is_err() {
        return Err(fault(path, format!("more than {} records", u32::MAX)));
    }
    Ok(IndexedRecords { files: files.into(), places, labels, form })
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

    fn element_form(&self) -> ElementForm {
        match self.form {
            InputForm::Numbers(_) => ElementForm::Numbers,
            InputForm::Pixels(_) => ElementForm::Pixels,
            InputForm::Picture => ElementForm::Pictures,
        }
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        Some(self.labels[example as usize])
    }

    fn fill(&self, example: u32, epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        assert_eq!(out.len(), self.inputs(), "the buffer must hold exactly one example");
        self.read(example, epoch, out).map_err(|what| {
            let path = self.record(example).0.path.display();
            DataError::BadExample { what: format!("{path}: example {example} (from 0): {what}") }
        })?;
        Ok(self.labels[example as usize])
    }
}
