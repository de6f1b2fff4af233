//! Early stopping, warm starts, weights and sets, as a user of the program meets them.

use std::fs;

use crate::support::{RunFolder, RunningProcess, Sandbox, assert_says};

/// A job that stops early.
const EARLY: [&str; 5] = [
    "data.train_examples=600",
    "data.test_examples=100",
    "train.evaluate.every=10",
    "train.metric=accuracy",
    "train.batch=20",
];

fn args<'a>(start: &[&'a str], settings: &[&'a str]) -> Vec<&'a str> {
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    start.iter().copied().chain(settings).collect()
}

#[test]
fn a_run_that_stops_early_leaves_its_best_model_beside_the_last() {
    let sandbox = Sandbox::new();
    let stop = ["train.stop={epochs=100, patience=4}", "cluster.mode=single"];
    let settings = [&EARLY[..], &stop].concat();
    let output = sandbox.ok(&args(&["train", "--run-dir", "run"], &settings));
    assert_says(&output.stdout, &["patience after", "best", "model-best.safetensors"]);
    let run = sandbox.run_folder("run");
    let summary = run.summary();
    assert_eq!(summary["stop_reason"], "patience");
    let best: serde_json::Value =
        serde_json::from_slice(&fs::read(run.file("model-best.json")).unwrap()).unwrap();
    assert_eq!(best, summary["best"]);
    let path = run.file("model-best.safetensors");
    let tested = sandbox.ok(&["evaluate", path.to_str().unwrap(), "--json"]).stdout;
    let tested: serde_json::Value = serde_json::from_str(&tested).unwrap();
    assert_eq!(tested["test_accuracy"], best["value"]);
}

/// Checks that a run that is interrupted and resumed stops early where one that is not does.
fn check_resumed(mode: &str, settings: &[&str]) {
    let sandbox = Sandbox::new();
    let common = [&EARLY[..], settings, &["checkpoint.every_steps=15"]].concat();
    let whole = [&common[..], &["train.stop={epochs=100, patience=3}"]].concat();
    let whole = sandbox.train_cluster("whole", mode, &whole);
    let steps = whole.summary()["global_steps"].as_u64().unwrap();
    let stop = format!("train.stop={{steps={}, patience=1000}}", steps - 17);
    sandbox.train_cluster("run", mode, &[&common[..], &[&stop]].concat());
    let run = sandbox.path("run");
    let mut command = sandbox.command(&["train", "--resume", run.to_str().unwrap()]);
    command.args(["--set", "train.stop={epochs=100, patience=3}"]);
    let output = RunningProcess::start(&mut command, run).finish();
    assert_eq!(output.code, Some(0), "{mode}: {output:?}");
    let resumed = sandbox.run_folder("run");
    assert_eq!(resumed.summary()["global_steps"], steps, "{mode}");
    assert!(resumed.model() == whole.model(), "{mode}: the bytes differ");
    let best = |run: &RunFolder| fs::read(run.file("model-best.safetensors")).unwrap();
    assert!(best(&resumed) == best(&whole), "{mode}: the best model differs");
}

#[test]
fn a_resumed_run_stops_early_with_the_same_bits() {
    check_resumed("single", &[]);
    check_resumed("sync", &["cluster.workers=2", "cluster.servers=2"]);
    check_resumed("mirrored", &["cluster.workers=2"]);
}

#[test]
fn a_job_starts_from_a_model_whose_features_it_has_and_from_no_other() {
    let sandbox = Sandbox::new();
    let rows = |last: usize| -> String {
        (0..400).map(|i| format!("{} {}:1 {}:1\n", i % 2, 1 + i % 2, 3 + i % last)).collect()
    };
    sandbox.write("small.svm", rows(5));
    sandbox.write("large.svm", rows(9));
    let job = |path: &str| format!("data={{kind=\"libsvm\", path=\"{path}\"}}");
    let (small, large) = (job("small.svm"), job("large.svm"));
    let stop = "train.stop={epochs=2}";
    sandbox.ok(&args(&["train", "--run-dir", "first"], &[&small, stop, "cluster.mode=single"]));
    let first = sandbox.run_folder("first").summary()["test_loss"].as_f64().unwrap();
    assert!(first < 0.5, "{first}");
    for mode in ["single", "sync"] {
        let start = [&*large, "train.stop={steps=1}", "train.start=first"];
        let run = sandbox.train_cluster(mode, mode, &start);
        let loss = run.summary()["test_loss"].as_f64().unwrap();
        assert!(loss < first + 0.05, "{mode}: {loss} after {first}");
    }
    let missing = sandbox.fails(2, &args(&["train"], &[&small, "train.start=nowhere"]));
    assert_says(&missing, &["train.start cannot be used", "nowhere"]);
    let settings = [&*small, "train.start=single", "train.stop={steps=1}"];
    let wide = sandbox.fails(2, &args(&["train"], &settings));
    assert_says(&wide, &["tensor \"weight\" is [11], but the model has [7]"]);
}

#[test]
fn a_table_starts_from_a_model_by_its_columns_and_words() {
    let sandbox = Sandbox::new();
    // The label follows from the city alone.
    let rows = |cities: &[&str], order: [usize; 2]| -> String {
        let line = |fields: [String; 2]| format!("{},{}", fields[order[0]], fields[order[1]]);
        let mut text = line(["city".into(), "age".into()]) + ",buys\n";
        for i in 0..400 {
            let city = cities[i % cities.len()];
            let buys = if city > "M" { "yes" } else { "no" };
            text += &format!("{},{buys}\n", line([city.into(), (20 + i % 30).to_string()]));
        }
        text
    };
    sandbox.write("first.csv", rows(&["Bonn", "Rome"], [0, 1]));
    // The columns change places, and words come before and between those of the model.
    sandbox.write("grown.csv", rows(&["Aachen", "Bonn", "Oslo", "Rome"], [1, 0]));
    sandbox.write("words.csv", rows(&["Aachen", "Bonn", "Oslo", "Rome"], [0, 1]));
    let stop = "train.stop={epochs=20}";
    let adagrad = "train.optimizer={kind=\"adagrad\", rate=0.3}";
    let any_order = ["logistic", "softmax", "fm", "sparse-softmax"].map(|kind| (kind, "grown"));
    let by_fields = ["ffm", "deepfm"].map(|kind| (kind, "words"));
    for (kind, grown) in any_order.into_iter().chain(by_fields) {
        let model = &*format!("model.kind={kind}");
        let grown = format!("data.path={grown}.csv");
        let first = format!("first-{model}");
        let own = ["data.path=first.csv", model, stop, adagrad, "cluster.mode=single"];
        sandbox.ok(&args(&["train", "--run-dir", &first], &own));
        let start = format!("train.start={first:?}");
        for mode in ["single", "sync"] {
            let settings = [
                &*grown,
                model,
                "train.stop={steps=1}",
                "train.optimizer={kind=\"sgd\", rate=1e-9}",
                &*start,
            ];
            let name = format!("{mode}-{model}");
            sandbox.train_cluster(&name, mode, &settings);
            // What the model knows, it still answers so.
            let answers = |run: &str| sandbox.ok(&["predict", run, "first.csv"]).stdout;
            let [before, after] = [&first, &name].map(|run| answers(run));
            for (before, after) in before.lines().zip(after.lines()).skip(1) {
                let p = |line: &str| line.split(',').nth(1).unwrap().parse::<f64>().unwrap();
                assert!((p(before) - p(after)).abs() < 0.02, "{mode}: {before} and {after}");
            }
        }
    }
    let start = "train.start=first-model.kind=ffm";
    let settings = ["data.path=grown.csv", "model.kind=ffm", start];
    let other = sandbox.fails(2, &args(&["train"], &settings));
    assert_says(&other, &["has the fields city, age, but the table has age, city"]);
    let start = "train.start=first-model.kind=logistic";
    let columns = "data.columns={buys={as=\"label\", classes=[\"yes\", \"no\"]}}";
    let other = sandbox.fails(2, &args(&["train"], &["data.path=first.csv", columns, start]));
    assert_says(&other, &["train.start has the classes no, yes, but the table has yes, no"]);
    sandbox.write("rows.svm", "0 1:1\n1 2:1\n0 1:1\n1 2:1\n");
    let libsvm = ["data={kind=\"libsvm\", path=\"rows.svm\"}", "train.batch=1"];
    let other = sandbox.fails(2, &args(&["train"], &[&libsvm[..], &[start]].concat()));
    assert_says(&other, &["train.start was trained on a table", "data.kind = \"libsvm\""]);
    sandbox.ok(&args(&["train", "--run-dir", "rows"], &libsvm));
    let table = ["data.path=first.csv", "train.start=rows"];
    let other = sandbox.fails(2, &args(&["train"], &table));
    assert_says(&other, &["train.start was not trained on a table"]);
}

#[test]
fn probabilities_after_sampling_negatives_are_those_of_all_rows() {
    let sandbox = Sandbox::new();
    // One row in ten is of class 1, whatever its feature.
    let row = |i: u32| format!("{} {}:1\n", u32::from(i.is_multiple_of(10)), 1 + i % 3);
    sandbox.write("rows.svm", (0..4_000).map(row).collect::<String>());
    let settings = [
        "data={kind=\"libsvm\", path=\"rows.svm\", validation=0.1, negatives=0.2}",
        "train.stop={epochs=40}",
        "train.optimizer={kind=\"adagrad\", rate=0.1}",
    ];
    sandbox.ok(&args(&["train", "--run-dir", "run"], &settings));
    let summary = sandbox.run_folder("run").summary();
    // The entropy of one in ten is 0.3251; of one in three, as rows are after sampling, 0.6365.
    let loss = summary["test_loss"].as_f64().unwrap();
    assert!((loss - 0.3251).abs() < 0.01, "{summary}");
    let validated = summary["validation"]["loss"].as_f64().unwrap();
    assert!((validated - 0.3251).abs() < 0.01, "{summary}");
    let trained = summary["examples"].as_u64().unwrap() / 40;
    assert!((800..1_000).contains(&trained), "{trained} rows of 3,200");
}

#[test]
fn class_weights_that_do_not_fit_are_refused() {
    let sandbox = Sandbox::new();
    for mode in ["cluster.mode=single", "cluster.mode=sync"] {
        let weights = ["train.class_weights=[1]", mode];
        let text = sandbox.fails(2, &args(&["train"], &[&EARLY[..2], &weights].concat()));
        let says = "train.class_weights has 1 number, but the data has 10 classes";
        assert_says(&text, &["error: --set train.class_weights=[1]: ", says]);
        assert!(!text.contains("into runs/"), "nothing has started: {text}");
    }
}

#[test]
fn a_start_with_other_fields_of_numbers_names_the_key_that_makes_them_equal() {
    let sandbox = Sandbox::new();
    let row = |i: u32| format!("{},{},{}\n", ["Bonn", "Rome"][i as usize % 2], 20 + i % 30, i % 2);
    sandbox.write("rows.csv", format!("city,age,buys\n{}", (0..400).map(row).collect::<String>()));
    let own = ["data.path=rows.csv", "model.kind=deepfm", "train.stop={steps=2}"];
    let inputs = "city, age, the number age";
    let vectors = "city, age";
    for (numbers, other, theirs, ours) in
        [("inputs", "vectors", inputs, vectors), ("vectors", "inputs", vectors, inputs)]
    {
        let set = format!("model.numbers={numbers}");
        sandbox.ok(&args(&["train", "--run-dir", numbers], &[&own[..], &[&set]].concat()));
        let (set, start) = (format!("model.numbers={other}"), format!("train.start={numbers}"));
        let error = sandbox.fails(2, &args(&["train"], &[&own[..], &[&set, &start]].concat()));
        let fields = format!("has the fields {theirs}, but the table has {ours};");
        assert_says(&error, &[&fields, &format!("; set model.numbers = {numbers:?}")]);
    }
}
