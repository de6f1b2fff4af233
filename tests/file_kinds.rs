//! Training on arrays, dense records and rows of several classes; files of the wrong kind.

use std::fs;
use std::path::Path;

use crate::support::{Sandbox, assert_says};

/// A `.npy` file.
fn npy(descr: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let len = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), elements].concat()
}

/// 600 points in three classes that a line between any two separates.
fn points() -> Vec<([f32; 2], u8)> {
    let centres = [[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]];
    let point = |index: usize| {
        let [x, y] = centres[index % 3];
        let noise = |step: usize| (index * step % 101) as f32 / 101.0 - 0.5;
        ([x + noise(37), y + noise(59)], (index % 3) as u8)
    };
    (0..600).map(point).collect()
}

const SETTINGS: [&str; 3] = ["train.batch=20", "train.stop={epochs=5}", "cluster.mode=single"];

fn accuracy(sandbox: &Sandbox, name: &str, settings: &[&str]) -> f64 {
    let run = sandbox.train(name, &[settings, &SETTINGS].concat());
    run.summary()["test_accuracy"].as_f64().unwrap()
}

#[test]
fn arrays_and_rows_of_three_classes_train_a_dense_model() {
    let sandbox = Sandbox::new();
    let points = points();
    let values: Vec<u8> =
        points.iter().flat_map(|(xy, _)| xy.iter().flat_map(|v| v.to_le_bytes())).collect();
    let labels: Vec<u8> = points.iter().map(|(_, label)| *label).collect();
    sandbox.write("arrays/x.npy", npy("<f4", "(600, 2)", &values));
    sandbox.write("arrays/y.npy", npy("|u1", "(600,)", &labels));
    let data = "data={kind=\"numpy\", path=\"arrays\"}";
    assert!(accuracy(&sandbox, "numpy", &[data]) > 0.97);

    let line = |([x, y], label): &([f32; 2], u8)| format!("{label} qid:1 1:{x} 2:{y} # point\n");
    sandbox.write("points.svm", points.iter().map(line).collect::<String>());
    let data = "data={kind=\"libsvm\", path=\"points.svm\"}";
    assert!(accuracy(&sandbox, "libsvm", &[data, "model.kind=softmax"]) > 0.97);
    // The model for two classes says which one takes more.
    let args = ["train", "--quiet", "--set", data, "--set", "cluster.mode=single"];
    let said = sandbox.fails(2, &args);
    assert_says(&said, &["line 3: the label is not one of", "set model.kind = \"softmax\""]);
}

#[test]
fn dense_records_train_under_the_names_that_the_job_gives() {
    let sandbox = Sandbox::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../arrays/tests/golden");
    fs::copy(golden.join("dense.tfrecord"), sandbox.path("dense.tfrecord")).unwrap();
    let data = "data={kind=\"tfrecord\", path=\"dense.tfrecord\", labels=\"class\"}";
    for inputs in ["measured/floats", "image/encoded"] {
        let inputs = format!("data.inputs={inputs}");
        let name = if inputs.contains("image") { "pictures" } else { "numbers" };
        let settings = [
            data,
            &inputs,
            "data.size=8",
            "train.batch=2",
            "train.stop={steps=3}",
            "cluster.mode=single",
        ];
        sandbox.train(name, &settings);
    }
    let args =
        ["train", "--set", data, "--set", "data.inputs=picture", "--set", "cluster.mode=single"];
    assert_says(&sandbox.fails(2, &args), &["no feature \"picture\"", "image/encoded"]);
}

#[test]
fn a_file_of_the_wrong_kind_is_named_and_nothing_is_built() {
    let sandbox = Sandbox::new();
    sandbox.write("table.csv", "age,income,label\n31,20000,1\n44,30000,0\n");
    sandbox.write("x.npy", npy("<f4", "(1, 1)", &[0; 4]));
    sandbox.write("rows.ffm", "1 0:1:1 1:7:1\n0 0:2:1\n");
    sandbox.write("rows.svm", "1 1:1\n0 2:1\n");
    sandbox.write("empty.svm", "");
    sandbox.write("blank.svm", "\n\n");
    sandbox.write("mac.svm", "1 1:1\r0 2:1\r");
    sandbox.write("mac.csv", "age,label\r31,1\r44,0\r");
    for (file, kind, says) in [
        ("table.csv", "libsvm", "set data.kind = \"table\""),
        ("table.csv", "numpy", "set data.kind = \"table\""),
        ("x.npy", "criteo", "set data.kind = \"numpy\""),
        ("x.npy", "tfrecord", "set data.kind = \"numpy\""),
        ("rows.ffm", "libsvm", "LIBFFM text; set data.kind = \"libffm\""),
        ("rows.svm", "libffm", "LIBSVM text; set data.kind = \"libsvm\""),
        ("empty.svm", "libsvm", "an empty file"),
        ("blank.svm", "libsvm", "there are no rows to train on"),
        ("mac.svm", "libsvm", "carriage returns alone, as on old Macs; convert it first: tr"),
        ("mac.csv", "table", "carriage returns alone, as on old Macs; convert it first: tr"),
    ] {
        let data = format!("data={{kind=\"{kind}\", path=\"{file}\"}}");
        let said = sandbox.fails(2, &["train", "--set", &data, "--set", "cluster.mode=single"]);
        assert_says(&said, &[file, says]);
        assert!(!said.contains("cached"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let data = "data={kind=\"table\", path=\"tabel.csv\"}";
    let said = sandbox.fails(2, &["train", "--set", data, "--set", "cluster.mode=single"]);
    assert_says(&said, &["tabel.csv: No such file or directory (did you mean ", "table.csv?)"]);
    std::os::unix::fs::symlink("nowhere", sandbox.path("link.csv")).unwrap();
    let said = sandbox.fails(2, &["train", "--set", "data.path=link.csv"]);
    assert!(said.contains("link.csv: No such file") && !said.contains("link.csv?"), "{said}");
}
