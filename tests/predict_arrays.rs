//! Predictions of models that were trained on numpy's arrays, dense TFRecords and LIBSVM text of
//! several classes: their files are answered with the bits of the trainer's own test.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{RunFolder, Sandbox, assert_says};

/// A `.npy` file.
fn npy(descr: &str, shape: &str, body: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let len = (text.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], text.as_bytes(), body].concat()
}

/// Values of examples whose class is that of their largest value.
fn value(example: usize, column: usize) -> f32 {
    ((example * 31 + column * 17 + example * example * (column + 3)) % 97) as f32 / 50.0 - 1.0
}

fn class(example: usize) -> u8 {
    let largest = (0..3).max_by(|&a, &b| value(example, a).total_cmp(&value(example, b)));
    largest.unwrap_or_default() as u8
}

/// Writes the arrays `NAMEx.npy` and `NAMEy.npy` of 300 examples with three values.
fn write_arrays(sandbox: &Sandbox, name: &str) {
    let values = (0..300).flat_map(|example| [0, 1, 2].map(|column| value(example, column)));
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    sandbox.write(&format!("{name}x.npy"), npy("<f4", "(300, 3)", &bytes));
    let labels: Vec<u8> = (0..300).map(class).collect();
    sandbox.write(&format!("{name}y.npy"), npy("|u1", "(300,)", &labels));
}

/// The answers without the column that numbers them.
fn answers(sandbox: &Sandbox, args: &[&str]) -> Vec<String> {
    let printed = sandbox.ok(&[&["predict", "run", "--show", "scores"], args].concat()).stdout;
    let scores = |line: &str| line.split_once(',').map(|(_, scores)| scores.to_owned());
    printed.lines().filter_map(scores).collect()
}

/// The test set's file is answered as the test set is, and evaluated to the trainer's figures.
#[track_caller]
fn assert_same_as_test(sandbox: &Sandbox, run: &RunFolder, file: &str) {
    let by_test = answers(sandbox, &["--test"]);
    assert!(by_test.len() > 2 && by_test == answers(sandbox, &[file]), "{file}");
    let printed = sandbox.ok(&["evaluate", "run", file, "--json"]).stdout;
    let figures: Value = serde_json::from_str(&printed).unwrap();
    let summary = run.summary();
    assert_eq!(figures["accuracy"], summary["test_accuracy"], "{file}");
    let [ours, theirs] =
        [&figures["log_loss"], &summary["test_loss"]].map(|loss| loss.as_f64().unwrap());
    assert!((ours - theirs).abs() < 1e-6 * theirs, "{file}: {ours} and {theirs}");
}

#[test]
fn arrays_of_numpy_are_answered_as_the_test_set_is() {
    let sandbox = Sandbox::new();
    write_arrays(&sandbox, "train/");
    write_arrays(&sandbox, "test/");
    let settings =
        ["data.kind=numpy", "data.path=train", "data.test_path=test", "train.stop={epochs=5}"];
    let run = sandbox.train("run", &settings);
    assert_same_as_test(&sandbox, &run, "test");
    assert_same_as_test(&sandbox, &run, "test/x.npy");
    // A file of another name has no labels beside it, which only an evaluation needs.
    fs::copy(sandbox.path("test/x.npy"), sandbox.path("new.npy")).unwrap();
    assert_eq!(answers(&sandbox, &["new.npy"]), answers(&sandbox, &["test"]));
    let printed = sandbox.fails(2, &["evaluate", "run", "new.npy"]);
    assert_says(&printed, &["new.npy: there are no labels beside it", "--labels"]);
    let given = sandbox.ok(&["evaluate", "run", "new.npy", "--labels", "test/y.npy"]).stdout;
    assert_says(&given, &["300 examples"]);
    // What the model does not take is refused.
    sandbox.write("wide.npy", npy("<f4", "(1, 4)", &[0; 16]));
    let printed = sandbox.fails(2, &["predict", "run", "wide.npy"]);
    assert_says(&printed, &["wide.npy: examples of [1, 1, 4] values", "takes [1, 1, 3]"]);
    let printed = sandbox.fails(2, &["predict", "run", "-"]);
    assert_says(&printed, &["cannot be read from standard input"]);
    sandbox.write("empty.npy", "");
    assert_says(&sandbox.fails(2, &["predict", "run", "empty.npy"]), &["the file is empty"]);
    sandbox.write("bad.npy", npy("<f4", "(2, 3)", &[[0xff; 12], [0; 12]].concat()));
    let printed = sandbox.fails(2, &["predict", "run", "bad.npy"]);
    assert_says(&printed, &["bad.npy, row 1: example 0 (from 0) has a value that is not finite"]);
    let skipped = sandbox.ok(&["predict", "run", "bad.npy", "--on-bad", "skip"]);
    assert_eq!(skipped.stdout.lines().count(), 2);
    assert_says(&skipped.stderr, &["1 bad row skipped"]);
}

#[test]
fn bytes_are_scaled_if_and_only_if_those_of_the_training_set_were() {
    let sandbox = Sandbox::new();
    let bytes: Vec<u8> = (0..120).map(|at| (at * 37 % 256) as u8).collect();
    sandbox.write("x.npy", npy("|u1", "(60, 2)", &bytes));
    sandbox.write("y.npy", npy("|u1", "(60,)", &(0..60).map(|at| at % 2).collect::<Vec<_>>()));
    sandbox.train("run", &["data.kind=numpy", "data.path=x.npy", "train.batch=10"]);
    let floats: Vec<u8> = bytes.iter().flat_map(|&byte| f32::from(byte).to_le_bytes()).collect();
    sandbox.write("floats.npy", npy("<f4", "(60, 2)", &floats));
    let printed = sandbox.fails(2, &["predict", "run", "floats.npy"]);
    assert_says(&printed, &["floats.npy: its elements are not bytes", "save the array as uint8"]);
    fs::remove_dir_all(sandbox.path("run")).unwrap();
    fs::rename(sandbox.path("floats.npy"), sandbox.path("z.npy")).unwrap();
    let slow = "train.optimizer={kind=\"sgd\", rate=1e-6}";
    sandbox.train("run", &["data.kind=numpy", "data.path=z.npy", "train.batch=10", slow]);
    assert_eq!(answers(&sandbox, &["x.npy"]), answers(&sandbox, &["z.npy"]));
}

#[test]
fn dense_records_are_answered_as_the_test_set_is() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../arrays/tests/golden");
    for inputs in ["measured/floats", "raw", "image/encoded"] {
        let sandbox = Sandbox::new();
        let file = sandbox.path("rows.tfrecord");
        fs::copy(golden.join("dense.tfrecord"), &file).unwrap();
        let inputs = format!("data.inputs={inputs:?}");
        let settings = [
            "data.kind=tfrecord",
            "data.path=rows.tfrecord",
            "data.test_path=rows.tfrecord",
            &*inputs,
            "data.labels=class",
            "data.size=4",
            "model.kind=softmax",
            "train.batch=2",
            "train.stop={steps=3}",
        ];
        let run = sandbox.train("run", &settings);
        assert_same_as_test(&sandbox, &run, "rows.tfrecord");
        // A record that fails its checksum is a bad row.
        let mut bytes = fs::read(&file).unwrap();
        bytes[40] ^= 1;
        sandbox.write("bad.tfrecord", bytes);
        let printed = sandbox.fails(2, &["predict", "run", "bad.tfrecord"]);
        assert_says(&printed, &["bad.tfrecord, row 1", "fails its checksum"]);
        let marked = sandbox.ok(&["predict", "run", "bad.tfrecord", "--on-bad", "mark"]);
        assert_eq!(marked.stdout.lines().count(), 5);
        assert_says(&marked.stderr, &["1 bad row marked"]);
        let printed = sandbox.fails(2, &["predict", "run", "run/job.toml"]);
        assert_says(&printed, &["the model takes TFRecords"]);
        if inputs.contains("image") {
            // The pictures of the records may also be files.
            fs::copy(golden.join("picture.png"), sandbox.path("a.png")).unwrap();
            let picture = sandbox.ok(&["predict", "run", "a.png"]).stdout;
            assert_says(&picture, &["file,p_0,p_1,p_2", "a.png,"]);
        }
    }
}

#[test]
fn rows_of_several_classes_are_answered_by_their_labels() {
    let sandbox = Sandbox::new();
    let mut text = String::new();
    for example in 0..300 {
        let label = [-1, 3, 7][usize::from(class(example))];
        let values = [0, 1, 2].map(|column| value(example, column));
        let _ = writeln!(text, "{label} 1:{} 2:{} 3:{}", values[0], values[1], values[2]);
    }
    sandbox.write("rows.svm", &text);
    let settings = [
        "data.kind=libsvm",
        "model.kind=softmax",
        "data.path=rows.svm",
        "data.test_path=rows.svm",
        "train.stop={epochs=5}",
    ];
    let run = sandbox.train("run", &settings);
    assert_same_as_test(&sandbox, &run, "rows.svm");
    let printed = sandbox.ok(&["predict", "run", "rows.svm", "--show", "class"]).stdout;
    let is_label =
        |line: &str| line.ends_with(",-1") || line.ends_with(",3") || line.ends_with(",7");
    assert!(printed.lines().skip(1).all(is_label));
    // Labels that the model does not know are skipped and counted.
    sandbox.write("more.svm", format!("{text}4 1:1\n1:1 2:2\n"));
    let printed = sandbox.fails(2, &["evaluate", "run", "more.svm"]);
    assert_says(&printed, &["more.svm, line 301: it has no label that the model knows"]);
    let skipped = sandbox.ok(&["evaluate", "run", "more.svm", "--on-bad", "skip"]);
    assert_says(&skipped.stdout, &["300 examples"]);
    assert_says(&skipped.stderr, &["2 bad rows skipped"]);
    assert_eq!(answers(&sandbox, &["more.svm"]).len(), 303);
}

#[test]
fn sparse_records_are_read_by_the_names_of_the_training_set_and_need_no_label() {
    let sandbox = Sandbox::new();
    sandbox.ok(&[
        "data",
        "make",
        "clicks",
        "--features",
        "3000",
        "--rows",
        "300",
        "--format",
        "tfrecord",
        "rows.tfrecord",
    ]);
    let settings = [
        "data.kind=tfrecord",
        "data.path=rows.tfrecord",
        "data.features=3000",
        "train.batch=50",
        "train.stop={steps=3}",
    ];
    sandbox.train("run", &settings);
    let expected = answers(&sandbox, &["rows.tfrecord"]);
    assert_eq!(expected.len(), 301);
    // The same records under other names: lengths stay, so that only checksums must be computed.
    let renamed = |from: &str, to: &str, bytes: Vec<u8>| {
        let text = |name: &str| name.as_bytes().to_vec();
        replace_in_records(&bytes, &text(from), &text(to))
    };
    let bytes = fs::read(sandbox.path("rows.tfrecord")).unwrap();
    let other = renamed("label", "click", renamed("index", "terms", bytes.clone()));
    sandbox.write("other.tfrecord", other);
    // Without a label that the model knows by name, rows are answered all the same.
    sandbox.write("unlabelled.tfrecord", renamed("label", "click", bytes));
    assert_eq!(answers(&sandbox, &["unlabelled.tfrecord"]), expected);
    fs::remove_dir_all(sandbox.path("run")).unwrap();
    let names = ["data.indices=terms", "data.labels=click", "data.path=other.tfrecord"];
    let run = sandbox.train("run", &[&settings[..1], &settings[2..], &names].concat());
    assert_eq!(answers(&sandbox, &["other.tfrecord"]), expected);
    let evaluated = sandbox.ok(&["evaluate", run.str(), "other.tfrecord"]).stdout;
    assert_says(&evaluated, &["300 examples"]);
}

/// Replaces a name by one of the same length in all records.
fn replace_in_records(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some(record) = paceline_tfrecord::split_record(rest, 1 << 30).unwrap() {
        let mut data = record.data.unwrap().to_vec();
        let at = data.windows(from.len()).position(|window| window == from).unwrap();
        data[at..at + to.len()].copy_from_slice(to);
        paceline_tfrecord::write_record(&mut out, &data).unwrap();
        rest = record.rest;
    }
    out
}
