//! `paceline predict`: answers equal the trainer's own test, in every format, and bad input is an
//! error or a counted skip.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use paceline_data::idx::{write_images, write_labels};
use paceline_data::{Digits, TrainTest};
use serde_json::Value;

use crate::support::{RunFolder, Sandbox, assert_says, finish, signal, start, within};

/// Settings of a small job for each model that a job can name.
const MODELS: [(&str, &[&str]); 9] = [
    ("softmax", &["data.test_examples=2350"]),
    ("logistic", &["data.kind=clicks", "data.features=3000", "train.batch=50"]),
    ("fm", &["model.kind=fm", "data.features=3000", "train.batch=50"]),
    ("ffm", &["model.kind=ffm", "data.features=3000", "train.stop={steps=200}"]),
    ("deepfm", &["model.kind=deepfm", "data.features=3000", "train.stop={steps=200}"]),
    ("wide-deep", &["model.kind=wide-deep", "data.features=3000", "train.stop={steps=200}"]),
    ("lenet", &["model.kind=lenet", "train.stop={steps=5}", "data.test_examples=150"]),
    (
        "network",
        &[
            "model.kind=network",
            "model.layers=[{kind=\"conv\", channels=3, size=3, stride=2}, {kind=\"tanh\"}, \
             {kind=\"adaptive-average-pool\", size=5}, {kind=\"flatten\"}, \
             {kind=\"dense\", size=\"classes\"}]",
            "train.stop={steps=5}",
        ],
    ),
    (
        "alexnet",
        &[
            "data.kind=fake-images",
            "data.size=64",
            "data.classes=5",
            "data.train_examples=8",
            "data.test_examples=9",
            "train.batch=4",
            "train.stop={steps=1}",
        ],
    ),
];

/// The rows of an output with a header, as text.
fn csv(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(',').collect()).collect()
}

/// The loss and the accuracy of a test, computed from raw scores as the trainer does.
fn loss_of(scores: &[Vec<f32>], labels: &[u32]) -> f64 {
    let mut tally = paceline_model::Tally::default();
    for (scores, &label) in scores.iter().zip(labels) {
        match scores[..] {
            [score] => {
                use paceline_model::ScoreLoss;
                let loss = paceline_model::LogisticLoss.loss(score, label).loss;
                tally.count_two_class(score, label, loss);
            }
            _ => tally.count_scores(scores, label),
        }
    }
    tally.loss()
}

fn scores_of(sandbox: &Sandbox, run: &RunFolder, more: &[&str]) -> Vec<Vec<f32>> {
    let args = [&["predict", run.str(), "--test", "--show", "scores"], more].concat();
    let printed = sandbox.ok(&args).stdout;
    let rows = csv(&printed);
    let numbers = |row: &Vec<&str>| row[1..].iter().map(|text| text.parse().unwrap()).collect();
    rows[1..].iter().map(numbers).collect()
}

#[test]
fn predictions_are_the_same_bits_on_any_number_of_threads_for_every_model() {
    for (name, settings) in MODELS {
        let sandbox = Sandbox::new();
        let run = sandbox.train("run", settings);
        let one = scores_of(&sandbox, &run, &["--threads", "1"]);
        let three = scores_of(&sandbox, &run, &["--threads", "3"]);
        assert!(!one.is_empty() && one == three, "{name}");
    }
}

#[test]
fn evaluating_the_test_set_gives_the_loss_of_the_trainer_for_every_model() {
    for (name, settings) in MODELS {
        let sandbox = Sandbox::new();
        let run = sandbox.train("run", settings);
        let printed = sandbox.ok(&["evaluate", "run", "--json"]).stdout;
        let figures: Value = serde_json::from_str(&printed).unwrap();
        let summary = run.summary();
        assert_eq!(figures["test_loss"], summary["test_loss"], "{name}");
        assert_eq!(figures["accuracy"], summary["test_accuracy"], "{name}");
        let [ours, theirs] = [&figures["log_loss"], &summary["test_loss"]];
        let [ours, theirs] = [ours, theirs].map(|loss| loss.as_f64().unwrap());
        assert!((ours - theirs).abs() < 1e-6 * theirs, "{name}: {ours} and {theirs}");
        let saved = fs::read_to_string(run.file("evaluation.json")).unwrap();
        let saved: Value = serde_json::from_str(&saved).unwrap();
        assert_eq!(saved["confusion"], figures["confusion"], "{name}");
    }
}

/// Writes generated digits as IDX files. Returns the labels.
fn write_digits(sandbox: &Sandbox, name: &str, examples: usize) -> Vec<u8> {
    let TrainTest { train, .. } = Digits::generate(examples, 5);
    fs::create_dir_all(sandbox.path(name)).unwrap();
    let [images, labels] = ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
        .map(|file| sandbox.path(name).join(file));
    write_images(&images, 28, 28, train.pixels()).unwrap();
    write_labels(&labels, train.labels()).unwrap();
    train.labels().to_vec()
}

#[test]
fn an_idx_file_is_answered_and_evaluated_with_the_labels_beside_it() {
    let sandbox = Sandbox::new();
    sandbox.train("run", &["train.stop={epochs=5}"]);
    let labels = write_digits(&sandbox, "set", 300);
    let file = "set/t10k-images-idx3-ubyte";
    let printed = sandbox.ok(&["predict", "run", file, "--show", "class"]).stdout;
    let rows = csv(&printed);
    assert_eq!((&rows[0][..], rows.len()), (&["row", "class"][..], 301));
    let hits = rows[1..].iter().zip(&labels).filter(|(row, label)| row[1] == label.to_string());
    let hits = hits.count();
    assert!(hits > 150, "{hits} of 300");
    let printed = sandbox.ok(&["evaluate", "run", file, "--json"]).stdout;
    let figures: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(figures["accuracy"].as_f64().unwrap(), hits as f64 / 300.0);
    let scores = sandbox.ok(&["predict", "run", file, "--show", "scores"]).stdout;
    let numbers = |row: &Vec<&str>| row[1..].iter().map(|text| text.parse().unwrap()).collect();
    let scores: Vec<Vec<f32>> = csv(&scores)[1..].iter().map(numbers).collect();
    let labels: Vec<u32> = labels.iter().map(|&label| label.into()).collect();
    assert_eq!(figures["log_loss"].as_f64().unwrap(), loss_of(&scores, &labels));
    let top = sandbox.ok(&["predict", "run", file, "--top", "2", "--format", "jsonl"]).stdout;
    let first: Value = serde_json::from_str(top.lines().next().unwrap()).unwrap();
    assert_eq!(first["class_1"], rows[1][1]);
    assert!(first["probability_1"].as_f64() >= first["probability_2"].as_f64());
    // Without labels there is nothing to compare with.
    fs::remove_file(sandbox.path("set/t10k-labels-idx1-ubyte")).unwrap();
    let printed = sandbox.fails(2, &["evaluate", "run", file]);
    assert_says(&printed, &["t10k-images-idx3-ubyte, row 1: it has no label"]);
}

/// A run of logistic regression over clicks, with 500 rows as text.
pub(crate) fn clicks_run(sandbox: &Sandbox) -> RunFolder {
    let clicks = ["data.kind=clicks", "data.features=3000", "data.train_examples=3000"];
    let run = sandbox.train("run", &[&clicks[..], &["train.batch=50"]].concat());
    let make = ["data", "make", "clicks", "--features", "3000", "--rows", "500"];
    sandbox.ok(&[&make[..], &["--format", "libsvm", "rows.svm"]].concat());
    run
}

#[test]
fn text_is_answered_in_order_on_any_number_of_threads_plain_or_packed() {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    sandbox.ok(&["predict", "run", "rows.svm", "-o", "one.csv", "--threads", "1"]);
    let one = fs::read_to_string(sandbox.path("one.csv")).unwrap();
    let rows = csv(&one);
    assert_eq!((&rows[0][..], rows.len()), (&["line", "p_1"][..], 501));
    assert!(rows[1..].iter().enumerate().all(|(i, row)| row[0] == (i + 1).to_string()));
    assert!(rows[1..].iter().all(|row| (0.0..=1.0).contains(&row[1].parse::<f32>().unwrap())));
    let three = sandbox.ok(&["predict", "run", "rows.svm", "--threads", "3"]).stdout;
    assert_eq!(three, one);
    let make = ["data", "make", "clicks", "--features", "3000", "--rows", "500", "--gzip"];
    sandbox.ok(&[&make[..], &["--format", "libsvm", "rows.svm.gz"]].concat());
    assert_eq!(sandbox.ok(&["predict", "run", "rows.svm.gz"]).stdout, one);
    // Without labels, the answers are the same.
    let text = fs::read_to_string(sandbox.path("rows.svm")).unwrap();
    let bare: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    sandbox.write("bare.svm", bare.join("\n"));
    assert_eq!(sandbox.ok(&["predict", "run", "bare.svm"]).stdout, one);
    // Several files say which one a row is from.
    let both = sandbox.ok(&["predict", "run", "bare.svm", "rows.svm"]).stdout;
    let both = csv(&both);
    assert_eq!((&both[0][..], both.len()), (&["file", "line", "p_1"][..], 1001));
    assert_eq!((both[501][0], both[501][1]), ("rows.svm", "1"));
}

#[test]
fn a_model_of_libffm_text_answers_as_one_of_the_same_rows_in_libsvm_text() {
    let sandbox = Sandbox::new();
    let make = ["data", "make", "clicks", "--features", "3000", "--rows", "500", "--format"];
    let mut answers = Vec::new();
    for kind in ["libsvm", "libffm"] {
        sandbox.ok(&[&make[..], &[kind, kind]].concat());
        let data = format!("data={{kind=\"{kind}\", path=\"{kind}\", features=3000}}");
        sandbox.train(&format!("run-{kind}"), &[&data, "train.batch=50"]);
        answers.push(sandbox.ok(&["predict", &format!("run-{kind}"), kind]).stdout);
    }
    assert_eq!(csv(&answers[0]).len(), 501);
    assert_eq!(answers[0], answers[1]);
    sandbox.write("bare", "3:17:1 4:18:0.5\n");
    sandbox.ok(&["predict", "run-libffm", "bare"]);
    assert_says(&sandbox.fails(2, &["predict", "run-libffm", "libsvm"]), &["LIBFFM text"]);
    sandbox.write("bad", "1 3:17:1\n1 3:17\n");
    assert_says(&sandbox.fails(2, &["predict", "run-libffm", "bad"]), &["bad", "line 2", "byte 3"]);
}

#[test]
fn cached_rows_and_text_get_the_same_answers() {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    let text = sandbox.ok(&["predict", "run", "rows.svm", "--show", "scores"]).stdout;
    let job = ["data.kind=libsvm", "data.path=rows.svm", "data.features=3000", "data.cache=cache"];
    sandbox.train("other", &[&job[..], &["train.stop={steps=1}", "train.batch=5"]].concat());
    let entries = fs::read_dir(sandbox.path("cache")).unwrap().flatten();
    let paths = entries.map(|entry| entry.path().to_str().unwrap().to_owned());
    let cache = paths.into_iter().find(|path| path.ends_with(".paceline-rows")).unwrap();
    let cached = sandbox.ok(&["predict", "run", &cache, "--show", "scores"]).stdout;
    assert_eq!(cached.replacen("row,", "line,", 1), text);
}

#[test]
fn each_line_of_standard_input_is_answered_as_it_arrives() {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    let expected = sandbox.ok(&["predict", "run", "rows.svm"]).stdout;
    let mut command = sandbox.command(&["predict", "run", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let text = fs::read_to_string(sandbox.path("rows.svm")).unwrap();
    let mut lines = expected.lines();
    assert_eq!(answers.next().unwrap().unwrap(), lines.next().unwrap());
    for (row, expected) in text.lines().zip(lines).take(100) {
        stdin.write_all(format!("{row}\n").as_bytes()).unwrap();
        // This would wait for ever if the answer waited for the next line.
        assert_eq!(answers.next().unwrap().unwrap(), expected);
    }
    drop(stdin);
    assert_eq!(answers.count(), 0);
    assert!(child.wait().unwrap().success());
}

#[test]
fn bad_rows_end_the_prediction_or_are_skipped_or_marked() {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    sandbox.write("bad.svm", "1 3:1\n1 x:1\n\n0 99999:1\n0 7:1 8:nan\n1 4:1\n");
    let printed = sandbox.fails(2, &["predict", "run", "bad.svm", "-o", "out.csv"]);
    assert_says(&printed, &["bad.svm, line 2: byte 3"]);
    assert!(!sandbox.tree().iter().any(|file| file.contains("out.csv")), "no half file stays");
    let output = sandbox.ok(&["predict", "run", "bad.svm", "--on-bad", "skip"]);
    let rows = csv(&output.stdout);
    assert_eq!(rows[1..].iter().map(|row| row[0]).collect::<Vec<_>>(), ["1", "6"]);
    assert_says(&output.stderr, &["3 bad rows skipped", "bad.svm, line 2"]);
    let output = sandbox.ok(&["predict", "run", "bad.svm", "--on-bad", "mark"]);
    let lines: Vec<_> = output.stdout.lines().collect();
    assert_eq!(lines[0], "line,p_1,error");
    assert_says(lines[2], &["2,,", "byte 3"]);
    assert_says(lines[3], &["4,,", "features"]);
    assert_eq!(lines.len(), 6);
    let printed = sandbox.fails(2, &["evaluate", "run", "bad.svm"]);
    assert_says(&printed, &["bad.svm, line 2"]);
}

#[test]
fn input_that_does_not_fit_the_model_is_refused_with_what_it_is() {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    write_digits(&sandbox, "set", 6);
    sandbox.write("table.csv", "age,city\n30,Rome\n");
    sandbox.write("rows.parquet", "PAR1xxxxPAR1");
    sandbox.write(
        "wide.txt",
        "\u{feff}".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
    );
    sandbox.write("empty.svm", "");
    sandbox.write("comments.svm", "# nothing\n\n");
    let check = |input: &str, says: &[&str]| {
        assert_says(&sandbox.fails(2, &["predict", "run", input]), says);
        let printed = sandbox.fails(2, &["evaluate", "run", input]);
        assert!(printed.contains(input) || says.is_empty(), "{printed}");
    };
    check("set/t10k-images-idx3-ubyte", &["an IDX file", "the model takes LIBSVM text"]);
    check("table.csv", &["a table with columns", "LIBSVM"]);
    check("rows.parquet", &["a Parquet file"]);
    check("wide.txt", &["UTF-16"]);
    check("empty.svm", &["empty.svm: there are no rows"]);
    check("comments.svm", &["no rows"]);
    check("missing.svm", &["missing.svm"]);
    check("run/model.safetensors", &["a binary file"]);
    let sandbox = Sandbox::new();
    sandbox.train("run", &[]);
    sandbox.write("rows.svm", "1 3:1\n");
    let printed = sandbox.fails(2, &["predict", "run", "rows.svm"]);
    assert_says(&printed, &["LIBSVM text", "IDX files of grey images of 28 x 28"]);
    write_images(&sandbox.path("small"), 2, 3, &[0; 12]).unwrap();
    assert_says(&sandbox.fails(2, &["predict", "run", "small"]), &["2 x 3", "28 x 28"]);
    write_digits(&sandbox, "set", 6);
    write_labels(&sandbox.path("set/few"), &[1, 2]).unwrap();
    let args = ["evaluate", "run", "set/t10k-images-idx3-ubyte", "--labels", "set/few"];
    assert_says(&sandbox.fails(2, &args), &["2 labels", "6 images"]);
    write_labels(&sandbox.path("set/strange"), &[1, 2, 3, 44, 5, 6]).unwrap();
    let args = ["evaluate", "run", "set/t10k-images-idx3-ubyte", "--labels", "set/strange"];
    assert_says(&sandbox.fails(2, &args), &["row 4: its label 44 is unknown", "10 classes"]);
}

#[test]
fn an_existing_file_is_replaced_only_by_force() {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    for args in
        [&["predict", "run", "rows.svm", "-o", "out.csv"][..], &["export", "run", "-o", "out.onnx"]]
    {
        let out = args[args.len() - 1];
        sandbox.write(out, "precious");
        assert_says(&sandbox.fails(2, args), &[&format!("{out} exists already"), "--force"]);
        assert_eq!(fs::read(sandbox.path(out)).unwrap(), b"precious");
    }
    let printed = sandbox.ok(&["predict", "run", "rows.svm", "-o", "out.csv", "--force"]).stderr;
    assert_says(&printed, &["out.csv: 500 rows"]);
    assert_eq!(csv(&fs::read_to_string(sandbox.path("out.csv")).unwrap()).len(), 501);
    sandbox.ok(&["predict", "run", "rows.svm", "-o", "out.jsonl", "--show", "class"]);
    let text = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!(first["line"] == 1 && (first["class"] == "0" || first["class"] == "1"), "{first}");
}

/// Checks that a prediction that receives this many signals leaves no file.
fn check_interrupted(signals: usize) {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    let mut command = sandbox.command(&["predict", "run", "-", "-o", "out.csv"]);
    let mut child = start(command.stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"1 3:1\n").unwrap();
    within(Duration::from_secs(60), "the unfinished file", || {
        sandbox.tree().iter().any(|file| file.ends_with(".part"))
    });
    (0..signals).for_each(|_| signal(&child, "INT"));
    let output = finish(child);
    assert_eq!(output.code, Some(130), "{output:?}");
    assert!(!sandbox.tree().iter().any(|file| file.contains("out.csv")), "{:?}", sandbox.tree());
}

#[test]
fn an_interrupted_prediction_leaves_no_file() {
    check_interrupted(1);
}

#[test]
fn an_evaluation_of_files_says_how_far_it_has_come() {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    let mut child = start(sandbox.command(&["evaluate", "run", "-"]).stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"1 3:1\n0 4:1\n").unwrap();
    // The input ends when progress is shown, which takes a second, or after a minute without it.
    let (shown, is_shown) = channel::<()>();
    thread::spawn(move || {
        let _ = is_shown.recv_timeout(Duration::from_secs(60));
        drop(stdin);
    });
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    drop(shown);
    assert!(said.starts_with("testing ") && said.contains(" rows"), "{said}");
    let output = finish(child);
    assert_says(&output.stdout, &["of 2 examples"]);
}

#[test]
fn a_second_signal_leaves_no_file_either() {
    check_interrupted(2);
}

#[test]
fn a_file_that_is_no_model_is_named_as_such() {
    let sandbox = Sandbox::new();
    sandbox.write("flowers.csv", "length,kind\n1.5,rose\n");
    let said = sandbox.fails(2, &["predict", "flowers.csv", "flowers.csv"]);
    assert_says(&said, &["flowers.csv: this is not a model: it looks like a table"]);
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_prediction_quietly() {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    let text = fs::read_to_string(sandbox.path("rows.svm")).unwrap();
    sandbox.write("many.svm", text.repeat(200));
    let mut command = sandbox.command(&["predict", "run", "many.svm"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "line,p_1\n");
    let output = finish(child);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_model_of_an_earlier_version_is_described_by_the_job_beside_it() {
    let sandbox = Sandbox::new();
    let run = clicks_run(&sandbox);
    let expected = sandbox.ok(&["predict", "run", "rows.svm"]).stdout;
    let bytes = run.model();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let bare = safetensors::serialize(tensors.tensors(), None).unwrap();
    fs::write(run.file("model.safetensors"), &bare).unwrap();
    let mut summary = run.summary();
    summary.as_object_mut().unwrap().remove("model_sha256");
    fs::write(run.file("summary.json"), summary.to_string()).unwrap();
    assert_eq!(sandbox.ok(&["predict", "run", "rows.svm"]).stdout, expected);
    sandbox.write("alone/model.safetensors", &bare);
    let printed = sandbox.fails(2, &["predict", "alone", "rows.svm"]);
    assert_says(&printed, &["does not say what its model takes", "job.toml"]);
}
