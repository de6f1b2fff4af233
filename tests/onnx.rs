//! `paceline export`: onnxruntime gives the answers of `paceline predict`, for every model.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;

use paceline_data::{Digits, idx};
use serde_json::{Value, json};

use crate::support::{Sandbox, assert_says, python_json};

/// The largest difference between two runtimes that take sums in different orders.
const TOLERANCE: f64 = 1e-5;

/// Exports a run, and compares the answers of onnxruntime to these inputs with the expected
/// probabilities.
#[track_caller]
fn compare(sandbox: &Sandbox, inputs: &Value, expected: &[Vec<f64>]) -> Value {
    sandbox.ok(&["export", "run", "-o", "model.onnx", "--force"]);
    sandbox.write("inputs.json", inputs.to_string());
    let [model, inputs] = ["model.onnx", "inputs.json"].map(|file| sandbox.path(file));
    let files: [&OsStr; 2] = [model.as_os_str(), inputs.as_os_str()];
    let answers = python_json("python/run_onnx.py", &files);
    let rows = answers["probabilities"].as_array().unwrap();
    assert_eq!(rows.len(), expected.len());
    for (index, (row, expected)) in rows.iter().zip(expected).enumerate() {
        let row: Vec<f64> = row.as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).collect();
        // Of two classes, predictions show the second.
        let shown = &row[row.len() - expected.len()..];
        for (theirs, ours) in shown.iter().zip(expected) {
            assert!((theirs - ours).abs() < TOLERANCE, "row {index}: {row:?} and {expected:?}");
        }
        let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
        assert_eq!(answers["class"][index], best, "row {index}");
    }
    answers
}

/// The probabilities that `paceline predict` prints.
fn predicted(sandbox: &Sandbox, input: &str) -> Vec<Vec<f64>> {
    let printed = sandbox.ok(&["predict", "run", input]).stdout;
    let numbers = |line: &str| line.split(',').skip(1).map(|text| text.parse().unwrap()).collect();
    printed.lines().skip(1).map(numbers).collect()
}

/// The layers of a network with everything that a layer can be.
const LAYERS: &str = "model.layers=[\
    {kind=\"conv\", channels=6, size=3, padding=1}, {kind=\"relu\"}, \
    {kind=\"max-pool\", size=3, stride=2, padding=1}, \
    {kind=\"conv\", channels=8, size=3, groups=2}, {kind=\"tanh\"}, \
    {kind=\"average-pool\", size=2, padding=1}, \
    {kind=\"adaptive-average-pool\", size=5}, {kind=\"adaptive-average-pool\", size=1}, \
    {kind=\"flatten\"}, {kind=\"dropout\"}, {kind=\"dense\", size=12}, {kind=\"relu\"}, \
    {kind=\"dense\", size=\"classes\"}]";

#[test]
fn models_of_grey_images_take_the_bytes_of_idx_files() {
    let models: [&[&str]; 3] = [
        &["train.stop={epochs=3}"],
        &["model.kind=lenet", "train.stop={steps=5}"],
        &["model.kind=network", LAYERS, "train.stop={steps=5}"],
    ];
    for settings in models {
        let sandbox = Sandbox::new();
        sandbox.train("run", settings);
        let digits = Digits::generate(20, 9).train;
        idx::write_images(&sandbox.path("images"), 28, 28, digits.pixels()).unwrap();
        let images: Vec<Value> = digits
            .pixels()
            .chunks(784)
            .map(|image| json!(image.chunks(28).map(<[u8]>::to_vec).collect::<Vec<_>>()))
            .collect();
        let expected = predicted(&sandbox, "images");
        let answers = compare(&sandbox, &json!({ "images": images }), &expected);
        let classes: Value =
            serde_json::from_str(answers["metadata"]["classes"].as_str().unwrap()).unwrap();
        assert_eq!(classes.as_array().unwrap().len(), 10);
    }
}

#[test]
fn a_sparse_model_takes_keys_and_values() {
    let sandbox = Sandbox::new();
    let clicks = ["data.kind=clicks", "data.features=3000", "data.train_examples=3000"];
    sandbox.train("run", &[&clicks[..], &["train.batch=50"]].concat());
    let make = ["data", "make", "clicks", "--features", "3000", "--rows", "200"];
    sandbox.ok(&[&make[..], &["--format", "libsvm", "rows.svm"]].concat());
    let text = fs::read_to_string(sandbox.path("rows.svm")).unwrap();
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let entries = line.split(' ').skip(1).map(|entry| entry.split_once(':').unwrap());
        let mut row: BTreeMap<usize, f64> = BTreeMap::new();
        for (key, value) in entries {
            *row.entry(key.parse::<usize>().unwrap() - 1).or_default() +=
                value.parse::<f64>().unwrap();
        }
        let fill = 40 - row.len();
        keys.push([row.keys().copied().collect(), vec![0; fill]].concat());
        values.push([row.values().copied().collect(), vec![0.0; fill]].concat());
    }
    let expected = predicted(&sandbox, "rows.svm");
    let inputs = json!({ "keys": keys, "values": values });
    let answers = compare(&sandbox, &inputs, &expected);
    assert_eq!(answers["scores"][0].as_array().unwrap().len(), 1);
    let printed = sandbox.ok(&["export", "run", "-o", "again.onnx"]).stdout;
    assert_says(&printed, &["again.onnx: logistic", "keys (int64, N x K)", "count from 1"]);
}

#[test]
fn pictures_are_normalised_in_the_graph() {
    let sandbox = Sandbox::new();
    let settings = [
        "data.kind=fake-images",
        "data.size=64",
        "data.classes=5",
        "data.train_examples=8",
        "data.test_examples=4",
        "train.batch=4",
        "train.stop={steps=1}",
    ];
    sandbox.train("run", &settings);
    // A picture whose shorter side needs no scaling: predictions and the graph see equal pixels.
    let side = 73;
    let pixel = |y: usize, x: usize, c: usize| ((7 * y + 3 * x + 50 * c) % 256) as u8;
    let whole: Vec<u8> =
        (0..side * side * 3).map(|at| pixel(at / 3 / side, at / 3 % side, at % 3)).collect();
    write_png(&sandbox, "a.png", side as u32, &whole);
    let from = (side - 64) / 2;
    let crop: Vec<Vec<[u8; 3]>> = (0..64)
        .map(|y| (0..64).map(|x| [0, 1, 2].map(|c| pixel(from + y, from + x, c))).collect())
        .collect();
    let expected = predicted(&sandbox, "a.png");
    compare(&sandbox, &json!({ "pictures": [crop] }), &expected);
}

/// Writes a square PNG file.
fn write_png(sandbox: &Sandbox, name: &str, side: u32, pixels: &[u8]) {
    let file = fs::File::create(sandbox.path(name)).unwrap();
    let mut encoder = png::Encoder::new(file, side, side);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
}
