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
fn a_model_of_fields_takes_them_beside_keys_and_values() {
    let sandbox = Sandbox::new();
    for (rows, file) in [("3000", "train.ffm"), ("100", "rows.ffm")] {
        let make = ["data", "make", "clicks", "--features", "3000", "--format", "libffm"];
        sandbox.ok(&[&make[..], &["--rows", rows, file]].concat());
    }
    let data = ["data.kind=libffm", "data.path=train.ffm", "data.features=3000"];
    let model = ["model.kind=wide-deep", "model.rank=2", "model.hidden=[5]", "train.batch=50"];
    sandbox.train("run", &[&data[..], &model].concat());
    let text = fs::read_to_string(sandbox.path("rows.ffm")).unwrap();
    let part = |entry: &str, at: usize| entry.split(':').nth(at).unwrap().parse::<i64>().unwrap();
    let rows = |at: usize| -> Vec<Vec<i64>> {
        let row = |line: &str| line.split(' ').skip(1).map(|entry| part(entry, at)).collect();
        text.lines().map(row).collect()
    };
    let inputs = json!({ "fields": rows(0), "keys": rows(1), "values": rows(2) });
    compare(&sandbox, &inputs, &predicted(&sandbox, "rows.ffm"));
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

/// Rows with missing values, rare words and numbers of all sizes.
fn people(rows: std::ops::Range<u32>) -> (String, Vec<[String; 5]>) {
    let row = |row: u32| {
        let age = if row % 11 == 3 { String::new() } else { (18 + row * 7 % 61).to_string() };
        let gain = ["0", "NA", "12", "-7.5", "98765.25"][(row * row % 5) as usize].to_owned();
        let hours = format!("{}.{}", row * 13 % 80, row % 10);
        let city = ["Rome", "Split, HR", "", "Oslo", "Ærø"][(row % 5) as usize];
        let city = if row.is_multiple_of(97) { format!("rare {row}") } else { city.to_owned() };
        let buys = if (row * 7 % 61 > 30) ^ (row % 5 == 1) { "yes" } else { "no" };
        [age, gain, hours, city, buys.to_owned()]
    };
    let rows: Vec<[String; 5]> = rows.map(row).collect();
    let mut text = String::from("age,weight,hours,city,buys\n");
    for [age, gain, hours, city, buys] in &rows {
        text += &format!("{age},{gain},{hours},\"{city}\",{buys}\n");
    }
    (text, rows)
}

#[test]
fn numbers_and_vocabularies_of_a_table_are_in_the_graph() {
    let columns = "data.columns={age=\"number\", weight={as=\"number\", scale=\"log\"}, \
                   hours={as=\"number\", scale=\"buckets\", buckets=4}, \
                   city={as=\"category\", min_count=3}, buys=\"label\"}";
    let network = "model.layers=[{kind=\"flatten\"}, {kind=\"dense\", size=5}, {kind=\"tanh\"}, \
                   {kind=\"dense\", size=\"classes\"}]";
    let models: [&[&str]; 8] = [
        &["model.kind=sparse-softmax"],
        &["model.kind=logistic"],
        &["model.kind=fm", "model.rank=3"],
        &["model.kind=ffm", "model.rank=3"],
        &["model.kind=deepfm", "model.rank=3", "model.hidden=[6, 4]", "model.dropout=0.2"],
        &["model.kind=wide-deep", "model.rank=2", "model.hidden=[5]", "model.numbers=vectors"],
        &["model.kind=softmax"],
        &["model.kind=network", network],
    ];
    for model in models {
        let sandbox = Sandbox::new();
        sandbox.write("train.csv", people(0..900).0);
        let (text, rows) = people(900..1_100);
        sandbox.write("new.csv", text);
        let stop = "train.stop={epochs=5}";
        sandbox.train("run", &[&["data.path=train.csv", columns, stop], model].concat());
        let number = |row: &[String; 5], at: usize| match row[at].as_str() {
            "" | "NA" => json!([null]),
            text => json!([text.parse::<f64>().unwrap()]),
        };
        let numbers = |at| rows.iter().map(|row| number(row, at)).collect::<Vec<_>>();
        let cities: Vec<_> = rows.iter().map(|row| [row[3].clone()]).collect();
        // A column whose name the graph uses otherwise has another name.
        let inputs = json!({
            "age": numbers(0), "weight_": numbers(1), "hours": numbers(2), "city": cities,
        });
        let expected = predicted(&sandbox, "new.csv");
        let answers = compare(&sandbox, &inputs, &expected);
        assert_eq!(answers["metadata"]["classes"], "[\"no\",\"yes\"]");
    }
}

#[test]
fn hashed_columns_are_keys_and_values_beside_the_others() {
    let sandbox = Sandbox::new();
    sandbox.write("train.csv", people(0..900).0);
    let columns = "data.columns={age=\"number\", weight=\"ignore\", hours=\"ignore\", \
                   city={as=\"category\", bits=1}, buys=\"label\"}";
    sandbox.train("run", &["data.path=train.csv", columns, "train.stop={epochs=5}"]);
    // By the hash of docs/tables.md; the features of the city follow the two of the age.
    sandbox.write("new.csv", "age,city\n30,Paris\n60,\n");
    let expected = predicted(&sandbox, "new.csv");
    let inputs = json!({
        "age": [[30], [60]], "keys": [[3, 0], [2, 4]], "values": [[1, 0], [1, 0]],
    });
    compare(&sandbox, &inputs, &expected);
    let printed = sandbox.ok(&["export", "run", "-o", "again.onnx"]).stdout;
    let says = ["\"age\"", "not in the graph", "\"city\" (a hash: keys 2 to 4)"];
    assert_says(&printed, &says);
}

/// Writes a square PNG file.
fn write_png(sandbox: &Sandbox, name: &str, side: u32, pixels: &[u8]) {
    let file = fs::File::create(sandbox.path(name)).unwrap();
    let mut encoder = png::Encoder::new(file, side, side);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
}
