//! Dense examples in TFRecords that TensorFlow wrote (golden/records.py), and damaged ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use paceline_arrays::{PictureOptions, RecordExamples, RecordSpec, open_records};
use paceline_data::{DataError, Examples, HoldOut, OnBad, OpenReport, SelectedExamples, TrainTest};
use tempfile::TempDir;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn spec(path: &Path, inputs: &str, labels: &str) -> RecordSpec {
    RecordSpec {
        path: path.into(),
        test_path: None,
        inputs: inputs.into(),
        labels: labels.into(),
        size: 4,
        hold_out: Some(1),
        split: HoldOut::Plain,
        seed: 3,
        on_bad: OnBad::Fail,
    }
}

fn open(spec: &RecordSpec) -> Result<TrainTest<SelectedExamples<RecordExamples>>, DataError> {
    open_records(spec, &mut |_: OpenReport<'_>| ControlFlow::Continue(()))
}

fn error(spec: &RecordSpec) -> String {
    open(spec).err().unwrap().to_string()
}

fn example(examples: &impl Examples, index: u32) -> (u32, Vec<f32>) {
    let mut values = vec![9.0; examples.inputs()];
    let class = examples.fill(index, 0, &mut values).unwrap();
    assert_eq!(examples.class_of(index), Some(class));
    (class, values)
}

#[test]
fn numbers_pixels_and_pictures_are_read_under_any_name() {
    let path = golden("dense.tfrecord");
    let set = open(&spec(&path, "measured/floats", "class")).unwrap();
    assert_eq!((set.train.len(), set.test.len(), set.train.classes()), (3, 1, 3));
    assert_eq!(set.train.shape(), [1, 1, 3]);
    assert_eq!(example(&set.train, 1), (1, vec![1.5, -1.0, 2.0]));
    assert_eq!(example(&set.test, 0), (0, vec![4.5, -4.0, 5.0]));
    let set = open(&spec(&path, "counts", "class")).unwrap();
    assert_eq!(example(&set.train, 2), (2, vec![2.0, 1_000_000.0, -7.0]));
    let set = open(&spec(&path, "raw", "class")).unwrap();
    assert_eq!(example(&set.train, 1), (1, vec![1.0 / 255.0, 1.0, 0.0, 3.0 / 255.0]));

    let set = open(&spec(&path, "image/encoded", "class")).unwrap();
    assert_eq!(set.test.shape(), [3, 4, 4]);
    // The test set takes the middle, as the picture's own file would be read.
    let picture = fs::read(golden("picture.png")).unwrap();
    let mut expected = vec![0.0; 48];
    PictureOptions::new(4, 3).read_encoded(&picture, None, &mut expected).unwrap();
    assert_eq!(example(&set.test, 0), (0, expected));
    // The training set takes random crops, by epoch.
    let mut crops: Vec<Vec<f32>> = (0..8)
        .map(|draw| {
            let mut values = vec![0.0; 48];
            set.train.fill(0, draw, &mut values).unwrap();
            values
        })
        .collect();
    crops.dedup();
    assert!(crops.len() > 1);
}

#[test]
fn a_missing_feature_is_named_with_those_that_are_there() {
    let path = golden("dense.tfrecord");
    let said = error(&spec(&path, "image", "class"));
    assert!(said.contains("no feature \"image\"") && said.contains("image/encoded"), "{said}");
    assert!(said.contains("data.inputs") && said.contains("record 0"), "{said}");
    let said = error(&spec(&path, "counts", "label"));
    assert!(said.contains("no feature \"label\"") && said.contains("data.labels"), "{said}");
    let said = error(&spec(&path, "counts", "counts"));
    assert!(said.contains("not one whole number"), "{said}");
}

#[test]
fn damaged_packed_and_other_files_are_errors_that_say_what_to_do() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.tfrecord");
    let good = fs::read(golden("dense.tfrecord")).unwrap();
    let check = |bytes: &[u8], on_bad: OnBad, says: &str| {
        fs::write(&path, bytes).unwrap();
        let said = error(&RecordSpec { on_bad, ..spec(&path, "counts", "class") });
        assert!(said.contains(says), "{said}");
    };
    check(&good[..good.len() - 3], OnBad::Skip, "the file ends within it");
    let mut damaged = good.clone();
    damaged[40] ^= 1;
    check(&damaged, OnBad::Fail, "record 0 (from 0): the data fails its checksum");
    check(b"", OnBad::Fail, "an empty file");
    check(b"a,b\n1,2\n", OnBad::Fail, "set data.kind = \"table\"");
    fs::write(&path, &damaged).unwrap();
    let skipping = RecordSpec { on_bad: OnBad::Skip, ..spec(&path, "counts", "class") };
    let set = open(&skipping).unwrap();
    assert_eq!((set.train.len(), set.test.len()), (2, 1));
    // Records may be of any length, so every cut must be noticed.
    for len in (0..good.len()).step_by(7) {
        fs::write(&path, &good[..len]).unwrap();
        let opened = open(&spec(&path, "counts", "class"));
        assert!(opened.is_err() || opened.is_ok_and(|set| set.train.len() < 3), "{len}");
    }
}
