//! Arrays that numpy wrote (golden/arrays.py), and files that are damaged or claim too much.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use paceline_arrays::{ArrayExamples, NumpySpec, open_numpy, open_numpy_observed};
use paceline_data::{DataError, Examples, HoldOut, OpenReport, SelectedExamples, TrainTest};
use proptest::prelude::*;
use tempfile::TempDir;

type ArraySet = TrainTest<SelectedExamples<ArrayExamples>>;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A directory with some of numpy's files under other names.
fn dir_with(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (from, to) in files {
        fs::copy(golden(from), dir.path().join(to)).unwrap();
    }
    dir
}

fn open(path: &Path) -> Result<ArraySet, DataError> {
    // The last two examples are the test set, so that the order is known.
    let (hold_out, split) = (Some(1), HoldOut::Plain);
    open_numpy(&NumpySpec { hold_out, split, ..NumpySpec::at(path) })
}

fn example(examples: &impl Examples, index: u32) -> (u32, Vec<f32>) {
    let mut values = vec![9.0; examples.inputs()];
    let class = examples.fill(index, 0, &mut values).unwrap();
    assert_eq!(examples.class_of(index), Some(class));
    (class, values)
}

fn error(path: &Path) -> String {
    open(path).err().unwrap().to_string()
}

#[test]
fn every_version_of_the_format_is_read() {
    for version in ["version1.npy", "version2.npy", "version3.npy"] {
        let dir = dir_with(&[(version, "x.npy"), ("labels.npy", "y.npy")]);
        // A directory, or the file of the inputs.
        for path in [dir.path().to_owned(), dir.path().join("x.npy")] {
            let set = open(&path).unwrap();
            assert_eq!((set.train.len(), set.test.len(), set.train.classes()), (5, 1, 3));
            assert_eq!(set.train.shape(), [1, 1, 2]);
            assert_eq!(example(&set.train, 1), (1, vec![0.5, 0.75]));
            assert_eq!(example(&set.test, 0), (2, vec![2.5, 2.75]));
        }
    }
}

#[test]
fn every_type_of_elements_is_read() {
    for kind in ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"] {
        let inputs = format!("{kind}.npy");
        let dir = dir_with(&[(&inputs, "x.npy")]);
        // The labels are a column of the same file: one dimension is too many.
        fs::copy(golden(&inputs), dir.path().join("y.npy")).unwrap();
        assert!(error(dir.path()).contains("labels have one dimension"), "{kind}");
        let labels = "{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }\n";
        fs::write(dir.path().join("y.npy"), npy(labels, &[255, 1, 255])).unwrap();
        let set = open(dir.path()).unwrap();
        let one = if kind == "u1" { 1.0 / 255.0 } else { 1.0 };
        assert_eq!(example(&set.train, 0), (0, vec![0.0, one]), "{kind}");
        assert_eq!(example(&set.train, 1), (1, vec![one, 0.0]), "{kind}");
    }
}

#[test]
fn archives_are_read_plain_and_packed() {
    let set = open(&golden("plain.npz")).unwrap();
    assert_eq!(example(&set.train, 2), (2, vec![1.0, 1.25]));
    let set = open(&golden("packed.npz")).unwrap();
    assert_eq!((set.train.len(), set.test.len(), set.train.classes()), (4, 2, 3));
    assert_eq!(set.train.shape(), [3, 8, 8]);
    // Channels are last in the file and first in an example.
    let (class, values) = example(&set.train, 1);
    assert_eq!(class, 1);
    let pixel = |channel: usize, at: usize| ((192 + 3 * at + channel) % 256) as f32 / 255.0;
    for channel in 0..3 {
        assert_eq!(values[64 * channel + 5], pixel(channel, 5));
    }
    assert_eq!(example(&set.test, 0).0, 1);
}

#[test]
fn arrays_are_chosen_by_name_and_missing_ones_are_listed() {
    let spec = |inputs: &str, labels: &str| NumpySpec {
        inputs: Some(inputs.into()),
        labels: Some(labels.into()),
        ..NumpySpec::at(golden("packed.npz"))
    };
    let set = open_numpy(&spec("x_test", "y_test")).unwrap();
    assert_eq!((set.train.len(), set.test.len()), (1, 1), "named arrays are the whole set");
    let error = open_numpy(&spec("pictures", "y_train")).err().unwrap().to_string();
    assert!(error.contains("x_test, x_train, y_test, y_train; set data.inputs"), "{error}");
    let error = open_numpy(&spec("x_train", "classes")).err().unwrap().to_string();
    assert!(error.contains("no array classes") && error.contains("data.labels"), "{error}");
    let error = open_numpy(&spec("x_train", "y_test")).err().unwrap().to_string();
    assert!(error.contains("4 examples and 2 labels"), "{error}");
}

#[test]
fn what_cannot_be_read_says_how_to_convert_it() {
    for (name, says) in [
        ("fortran.npy", "np.ascontiguousarray"),
        ("big.npy", "big endian"),
        ("half.npy", "astype(\"float32\")"),
        ("objects.npy", "Python objects"),
        ("text.npy", "astype(\"float32\")"),
    ] {
        let dir = dir_with(&[(name, "x.npy"), ("labels.npy", "y.npy")]);
        let error = error(dir.path());
        assert!(error.contains(says) && error.contains("x.npy"), "{error}");
    }
    let dir = TempDir::new().unwrap();
    let table = dir.path().join("table.csv");
    fs::write(&table, "a,b\n1,2\n").unwrap();
    assert!(error(&table).contains("set data.kind = \"table\""), "{}", error(&table));
    fs::write(&table, "").unwrap();
    assert!(error(&table).contains("an empty file"));
}

/// A `.npy` file with this header and these elements.
fn npy(header: &str, elements: &[u8]) -> Vec<u8> {
    let len = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), elements].concat()
}

#[test]
fn a_claim_of_more_than_is_there_takes_no_memory() {
    let dir = dir_with(&[("labels.npy", "y.npy")]);
    let path = dir.path().join("x.npy");
    for shape in ["(4000000000, 1000000000)", "(9, 99999999999999999999)", "(2000000000, 2)"] {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        for bytes in [npy(&header, &[0; 64]), gzip(&npy(&header, &[0; 64]))] {
            fs::write(&path, bytes).unwrap();
            let error = error(dir.path());
            let says = ["impossible size", "instead of", "above the limit"];
            assert!(says.iter().any(|says| error.contains(says)), "{shape}: {error}");
        }
    }
    // A bomb: a small array is followed by a gigabyte of zeros.
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 2), }\n";
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    bomb.write_all(&npy(header, &[])).unwrap();
    let zeros = vec![0; 1 << 20];
    (0..1024).for_each(|_| bomb.write_all(&zeros).unwrap());
    fs::write(&path, bomb.finish().unwrap()).unwrap();
    assert!(error(dir.path()).contains("instead of 12"), "{}", error(dir.path()));
    let peak = fs::read_to_string("/proc/self/status").unwrap();
    let peak = peak.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 500_000, "{peak}");
}

#[test]
fn labels_and_values_that_cannot_be_used_are_named() {
    let dir = dir_with(&[("version1.npy", "x.npy")]);
    let check = |descr: &str, elements: &[u8], says: &str| {
        let count = if descr == "<f4" { elements.len() / 4 } else { elements.len() };
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}\n");
        fs::write(dir.path().join("y.npy"), npy(&header, elements)).unwrap();
        let error = error(dir.path());
        assert!(error.contains(says), "{error}");
    };
    check("|i1", &[0, 1, 254, 0, 1, 0], "the label of example 2 (from 0) is -2");
    let floats =
        |values: [f32; 6]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    check("<f4", &floats([0.0, 1.5, 0.0, 0.0, 0.0, 0.0]), "example 1 (from 0) is 1.5");
    check("|i1", &[0, 1], "6 examples and 2 labels");
    let dir = dir_with(&[("labels.npy", "y.npy")]);
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 1), }\n";
    let elements = floats([0.0, f32::NAN, 0.0, 0.0, 0.0, 0.0]);
    fs::write(dir.path().join("x.npy"), npy(header, &elements)).unwrap();
    let set = open(dir.path()).unwrap();
    let error = set.train.fill(1, 0, &mut [0.0]).unwrap_err();
    assert!(error.is_bad_example() && error.to_string().contains("example 1"), "{error}");
}

#[test]
fn unpacking_is_followed_and_can_be_stopped() {
    let dir = dir_with(&[("labels.npy", "y.npy")]);
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (100000, 2), }\n";
    fs::write(dir.path().join("x.npy.gz"), gzip(&npy(header, &[0; 800_000]))).unwrap();
    for path in [golden("packed.npz"), dir.path().to_owned()] {
        let mut actions = Vec::new();
        let mut observer = |report: OpenReport<'_>| {
            if let OpenReport::Progress(progress) = report {
                actions.push(progress.action);
            }
            ControlFlow::Break(())
        };
        let error = open_numpy_observed(&NumpySpec::at(&path), &mut observer).err().unwrap();
        assert!(matches!(error, DataError::Interrupted), "{error}");
        assert_eq!(actions, ["unpacking"]);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damaged_and_truncated_archives_never_panic(
        packed: bool, at: prop::sample::Index, byte: u8, cut: prop::sample::Index, truncate: bool,
    ) {
        let mut bytes = fs::read(golden(if packed { "packed.npz" } else { "plain.npz" })).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if truncate {
            bytes.truncate(cut.index(bytes.len()));
        }
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("x.npz");
        fs::write(&path, &bytes).unwrap();
        if let Ok(set) = open(&path) {
            for index in 0..set.train.len() as u32 {
                let _ = set.train.fill(index, 0, &mut vec![0.0; set.train.inputs()]);
            }
        }
    }
}
