//! Dense examples in TFRecords: numbers, pixels and pictures.

use std::fs;
use std::path::Path;

use paceline_arrays::{RecordSpec, open_records};
use paceline_data::{Examples, HoldOut, OnBad, ignore_reports};
use paceline_tfrecord::{split_record, write_record};

use crate::scratch::scratch_file;

/// The features of the seeds that have inputs.
const INPUTS: [&str; 4] = ["measured/floats", "counts", "raw", "image/encoded"];
/// In the first byte of an input: the rest is a file as it is, or bad records are skipped.
const IS_FILE: u8 = 64;
const SKIPS_BAD: u8 = 128;

/// Reads dense examples. The first byte says which, and whether the rest is a file or has the
/// examples alone, each behind its length. Those get valid checksums, so that changes reach what is
/// behind them.
pub(crate) fn records(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    if choice & IS_FILE != 0 {
        return read_examples(choice, rest);
    }
    let (mut file, mut left) = (Vec::new(), rest);
    while let Some((len, after)) = left.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(after.len());
        let (example, after) = after.split_at(len);
        write_record(&mut file, example).expect("a record in memory");
        left = after;
    }
    read_examples(choice, &file);
}

fn read_examples(choice: u8, file: &[u8]) {
    let spec = RecordSpec {
        path: scratch_file("dense.tfrecord", file),
        test_path: None,
        inputs: INPUTS[usize::from(choice) % INPUTS.len()].into(),
        labels: "class".into(),
        size: 8,
        hold_out: Some(1),
        split: HoldOut::Stratified,
        seed: 1,
        on_bad: if choice & SKIPS_BAD == 0 { OnBad::Fail } else { OnBad::Skip },
    };
    let Ok(set) = open_records(&spec, &mut ignore_reports()) else { return };
    let mut values = vec![0.0; set.train.inputs()];
    for example in 0..set.train.len().min(3) {
        let _ = set.train.fill(example as u32, 0, &mut values);
    }
}

/// The records that TensorFlow has written.
pub(crate) fn record_seeds() -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../arrays/tests/golden/dense.tfrecord");
    let file = fs::read(path).unwrap_or_default();
    let (mut examples, mut rest) = (Vec::new(), &file[..]);
    while let Ok(Some(split)) = split_record(rest, 1 << 16) {
        let example = split.data.unwrap_or_default();
        examples.extend((example.len() as u16).to_le_bytes());
        examples.extend(example);
        rest = split.rest;
    }
    let of = |choice: u8, bytes: &[u8]| [&[choice], bytes].concat();
    let mut seeds: Vec<_> = (0..INPUTS.len() as u8).map(|choice| of(choice, &examples)).collect();
    seeds.push(of(IS_FILE, &file));
    seeds.push(of(SKIPS_BAD | 3, &examples));
    seeds
}
