//! Tables: they train as they are, and a description of their columns changes nothing but what it
//! says.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use paceline_data::Random;

use crate::support::{RunFolder, Sandbox, assert_says, finish, signal, start, within};

/// Rows of people who buy or do not, drawn by a logistic model, with missing values.
fn people(rows: u64, seed: u64) -> String {
    let cities = ["Paris", "Rome", "Oslo", "Bern", "Riga", "\"Split, HR\"", "Lviv", "Cork"];
    let jobs = ["nurse", "cook", "clerk", "pilot", "miner", "actor", "baker", "judge", "tailor"];
    let mut text = String::from("id,age,hours,city,job,gain,buys\n");
    for row in 0..rows {
        let mut random = Random::keyed(&[seed, row]);
        let age = 18 + random.range(60) as i64;
        let hours = 10 + random.range(50) as i64;
        let (city, job) = (random.range(8) as usize, random.range(9) as usize);
        let gain = if random.range(10) == 0 { 1000 + random.range(50_000) } else { 0 };
        let score = 0.05 * (age - 48) as f32
            + 0.04 * (hours - 35) as f32
            + [0.9, -0.7, 0.3, 0.0, -1.1, 0.5, -0.2, 0.8][city]
            + [-0.8, 0.6, 0.1, 1.2, -0.4, 0.0, -0.9, 0.7, 0.2][job]
            + if gain > 0 { 1.5 } else { -0.2 };
        let buys = random.unit() < 1.0 / (1.0 + (-score).exp());
        let age = if random.range(20) == 0 { String::new() } else { age.to_string() };
        let (city, job) = (cities[city], if random.range(25) == 0 { "" } else { jobs[job] });
        let buys = if buys { "yes" } else { "no" };
        let _ = writeln!(text, "p{seed}-{row},{age},{hours},{city},{job},{gain},{buys}");
    }
    text
}

/// The settings of the documented job.
const JOB: [&str; 4] = [
    "data.path=people.csv",
    "data.test_path=more.csv",
    "train.optimizer={kind=\"adagrad\", rate=0.1}",
    "train.stop={epochs=20}",
];

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("people.csv", people(4000, 1));
    sandbox.write("more.csv", people(2000, 2));
    sandbox
}

fn saved_job(run: &RunFolder) -> String {
    std::fs::read_to_string(run.file("job.toml")).unwrap()
}

fn test_loss(run: &RunFolder) -> f64 {
    run.summary()["test_loss"].as_f64().unwrap()
}

/// scikit-learn 1.9: `StandardScaler` for numbers (missing ones replaced by the mean, with an
/// indicator, and the gain by its logarithm), `OneHotEncoder` for categories and
/// `LogisticRegression` with its default penalty, on the same rows (bench/tables.py --people).
const SCIKIT_LEARN_LOSS: f64 = 0.545_372;

#[test]
fn a_table_that_nothing_describes_reaches_the_loss_of_scikit_learn() {
    let sandbox = sandbox();
    let loss = test_loss(&sandbox.train("run", &JOB));
    assert!(loss < 1.005 * SCIKIT_LEARN_LOSS, "{loss}");
    let job = saved_job(&sandbox.run_folder("run"));
    assert_says(&job, &["kind = \"table\"", "# default: data.path ends in .csv"]);
}

#[test]
fn every_mode_and_every_model_learns_a_table() {
    let network = "model.layers=[{kind=\"flatten\"}, {kind=\"dense\", size=8}, \
                   {kind=\"relu\"}, {kind=\"dense\", size=\"classes\"}]";
    for model in ["model.kind=logistic", "model.kind=softmax", network] {
        for mode in ["single", "async", "sync", "mirrored"] {
            if mode == "mirrored" && model == "model.kind=logistic" {
                continue; // It is for dense models.
            }
            let sandbox = sandbox();
            let settings = [model, "data.path=people.csv", "train.stop={epochs=8}"];
            let run = match mode {
                "single" => sandbox.train("run", &settings),
                _ => sandbox.train_cluster("run", mode, &settings),
            };
            assert!(test_loss(&run) < 0.62, "{model} {mode}: {}", test_loss(&run));
        }
    }
}

#[test]
fn numbers_are_inputs_of_a_perceptron_with_equal_bits_in_every_exact_mode() {
    let model = ["model.kind=deepfm", "model.rank=3", "model.hidden=[8]"];
    let settings = [&model[..], &JOB[..2], &["train.stop={epochs=4}"]].concat();
    let sandbox = sandbox();
    let single = sandbox.train("single", &settings);
    assert_says(&saved_job(&single), &["numbers = \"inputs\""]);
    let one = [&settings[..], &["cluster.workers=1", "cluster.servers=2"]].concat();
    let sync = sandbox.train_cluster("sync", "sync", &one);
    assert!(single.model() == sync.model(), "the bytes of single and sync differ");
    let two = [&settings[..], &["cluster.workers=2"]].concat();
    let sync = sandbox.train_cluster("two", "sync", &two);
    let mirrored = sandbox.train_cluster("mirrored", "mirrored", &two);
    assert!(sync.model() == mirrored.model(), "the bytes of sync and mirrored differ");

    let tensor = |run: &RunFolder| {
        let model = run.model();
        let tensors = safetensors::SafeTensors::deserialize(&model).unwrap();
        tensors.tensor("hidden.0.weight").unwrap().shape().to_vec()
    };
    // Columns with features: age, hours, city, job and gain; three of them are numbers.
    assert_eq!(tensor(&single), [8, 5 * 3 + 3]);
    let vectors = [&settings[..], &["model.numbers=vectors"]].concat();
    let vectors = sandbox.train("vectors", &vectors);
    assert_eq!(tensor(&vectors), [8, 5 * 3]);
    for run in [&single, &sync, &vectors] {
        assert!(test_loss(run) < 0.6, "{}", test_loss(run));
    }
    let printed = sandbox.fails(
        2,
        &[
            "train",
            "--set",
            "data.path=people.csv",
            "--set",
            "model.kind=ffm",
            "--set",
            "model.numbers=inputs",
        ],
    );
    assert_says(&printed, &["model.numbers applies only with model.kind = \"deepfm\""]);
}

#[test]
fn a_description_that_is_pasted_trains_the_same_model() {
    let sandbox = sandbox();
    let described = sandbox.ok(&["data", "describe", "people.csv"]).stdout;
    assert_says(
        &described,
        &[
            "id = \"id\"",
            "age = \"number\"",
            "city = { as = \"category\", min_count = 1 }",
            "gain = { as = \"number\", scale = \"log\" }",
            "buys = \"label\"",
        ],
    );
    sandbox.write("job.toml", described);
    let train = ["--set", "train.stop={steps=100}", "--quiet", "--run-dir"];
    sandbox.ok(&[&["train", "job.toml"], &train[..], &["described"]].concat());
    sandbox.ok(&[&["train", "--set", "data.path=people.csv"], &train[..], &["plain"]].concat());
    let params = |name| sandbox.run_folder(name).params();
    assert_eq!(params("described"), params("plain"));
    // What a run used is read again, and is the same job.
    sandbox.ok(&["evaluate", "described"]);
    let explained = saved_job(&sandbox.run_folder("described"));
    assert_says(&explained, &["[data.columns]", "gain = { as = \"number\", scale = \"log\" }"]);
}

#[test]
fn a_description_may_come_from_standard_input() {
    let sandbox = sandbox();
    let mut command = sandbox.program("sh");
    let line = format!("'{}' data describe - < people.csv", crate::support::PACELINE);
    let output = crate::support::finish(crate::support::start(command.args(["-c", &line])));
    assert_says(&output.stdout, &["path = \"PATH\"", "buys = \"label\""]);
}

#[test]
fn a_table_may_come_from_standard_input() {
    let sandbox = sandbox();
    let train = |path: &str, name: &str| {
        let options = "--set train.stop={steps=50} --quiet --run-dir";
        let program = crate::support::PACELINE;
        let line =
            format!("'{program}' train --set data.path={path} {options} {name} < people.csv");
        let mut command = sandbox.program("sh");
        let output = crate::support::finish(crate::support::start(command.args(["-c", &line])));
        assert_eq!(output.code, Some(0), "{output:?}");
        sandbox.run_folder(name).params()
    };
    assert_eq!(train("-", "piped"), train("people.csv", "read"));
    sandbox.ok(&["evaluate", "piped"]);
}

#[test]
fn training_that_is_interrupted_while_it_saves_standard_input_leaves_nothing() {
    let sandbox = sandbox();
    let cache = sandbox.path("cache");
    let command = || {
        let mut command = sandbox.command(&["train", "--set", "data.path=-"]);
        command.env("PACELINE_CACHE", &cache);
        command
    };
    let mut child = start(command().stdin(Stdio::piped()));
    child.stdin.as_mut().unwrap().write_all(b"a,y\n1,0\n").unwrap();
    let saved = || fs::read_dir(cache.join("stdin")).map_or(0, Iterator::count);
    within(Duration::from_secs(60), "the unfinished file", || saved() == 1);
    signal(&child, "INT");
    let output = finish(child);
    assert_eq!((output.code, saved()), (Some(130), 0), "{output:?}");
    // What is no text is refused before it fills the disk.
    let output = finish(start(command().stdin(fs::File::open("/dev/zero").unwrap())));
    assert_eq!((output.code, saved()), (Some(1), 0), "{output:?}");
    assert_says(&output.stderr, &["standard input", "it is not text"]);
}

#[test]
fn declared_columns_crosses_and_classes_are_used() {
    let sandbox = sandbox();
    let settings = [
        "data.path=people.csv",
        "data.columns.age={as=\"number\", scale=\"buckets\", buckets=5}",
        "data.columns.city={as=\"category\", bits=6}",
        "data.columns.gain=ignore",
        "data.columns.buys={as=\"label\", classes=[\"yes\", \"no\"]}",
        "data.cross=[[\"city\", \"job\"]]",
        "data.bits=8",
        "train.stop={epochs=4}",
    ];
    let run = sandbox.train("run", &settings);
    // age 6, hours 2, city 65, job 11, cross 256, and the bias.
    assert_eq!(run.params().len(), 6 + 2 + 65 + 11 + 256 + 1);
    assert!(test_loss(&run) < 0.62);
}

#[test]
fn mistakes_in_a_table_are_named_before_training() {
    let sandbox = sandbox();
    let colours = "x,colour\n1,red\n2,green\n3,blue\n4,red\n".repeat(20).replace("\nx,colour", "");
    sandbox.write("colours.csv", colours);
    sandbox.write("rows.svm", "+1 1:1 3:1\n-1 2:1\n".repeat(10));
    let fails = |settings: &[&str]| {
        let sets = settings.iter().flat_map(|setting| ["--set", setting]);
        sandbox.fails(2, &["train"].into_iter().chain(sets).collect::<Vec<_>>())
    };
    let check = |settings: &[&str], says: &[&str]| assert_says(&fails(settings), says);
    check(
        &["data.path=colours.csv", "model.kind=logistic"],
        &["the label \"colour\" has 3; set model.kind = \"softmax\""],
    );
    check(
        &["data.path=people.csv", "data.columns.agee=number"],
        &["there is no column \"agee\"; did you mean \"age\"?"],
    );
    check(&["data.kind=libsvm", "data.path=people.csv"], &["set data.kind = \"table\""]);
    check(
        &["data.kind=table", "data.path=rows.svm"],
        &["it looks like LIBSVM text; set data.kind = \"libsvm\""],
    );
    check(
        &["data.path=people.csv", "data.columns.city=number"],
        &["people.csv: line 2: column 4 (\"city\"):", "is not a number"],
    );
    check(
        &["data.path=people.csv", "data.columns.age={scale=\"log\"}"],
        &["data.columns.age does not say what the column is"],
    );
    check(
        &["data.path=people.csv", "data.columns.age={as=\"number\", bits=3}"],
        &["data.columns.age.bits applies only with data.columns.age.as"],
    );
    check(
        &["data.path=people.csv", "data.cross=[[\"age\"]]"],
        &["a cross has at least two columns"],
    );
    check(&["data.path=none.csv"], &["none.csv"]);
}

/// Rows of three kinds of flowers, with a price that has a comma and one row that is too short.
fn flowers() -> String {
    let kinds = ["rose", "tulip", "lily"];
    let row = |row: usize| {
        let kind = kinds[row % 3];
        format!("{}.{},\"1,{:03}\",{kind}\n", row % 3 + 1, row % 10, row % 97)
    };
    let rows: String = (0..300).map(row).collect();
    format!("length,price,kind\n{rows}")
}

#[test]
fn a_table_of_three_classes_trains_as_it_is() {
    let sandbox = Sandbox::new();
    sandbox.write("flowers.csv", flowers());
    let steps = ["--set", "train.stop={steps=20}"];
    let path = ["--set", "data.path=flowers.csv"];
    let trained = sandbox.ok(&[&["train", "--run-dir", "run"], &path[..], &steps].concat());
    assert_says(&trained.stderr, &["softmax", "\"price\"", "numbers with a comma"]);
    let explained = sandbox.ok(&[&["explain"], &path[..]].concat()).stdout;
    let why = "kind = \"softmax\"                 # default: the label \"kind\" has 3 classes";
    assert_says(&explained, &[why]);
    let described = sandbox.ok(&["data", "describe", "flowers.csv"]).stdout;
    assert_says(&described, &["[model]\nkind = \"softmax\"", "numbers with a comma"]);
    sandbox.write("flowers.toml", described);
    sandbox.ok(&[&["train", "flowers.toml"], &steps[..]].concat());
    // A model that is set is not replaced.
    let logistic = ["--set", "model.kind=logistic"];
    let said = sandbox.fails(2, &[&["train"], &path[..], &logistic].concat());
    assert_says(&said, &["model.kind is \"logistic\"", "has 3"]);
    let said = sandbox.fails(2, &["evaluate", "run", "--threshold", "0.3"]);
    assert_says(&said, &["--threshold is for two classes, but the model has 3"]);
}

#[test]
fn a_description_names_rows_with_another_number_of_fields() {
    let sandbox = Sandbox::new();
    sandbox.write("ragged.csv", "a,b,label\n1,2,x\n3,4\n5,6,y\n7,8,x\n");
    let described = sandbox.ok(&["data", "describe", "ragged.csv"]).stdout;
    let says = "# 1 of the first 4 rows does not have 3 fields, the first in line 3";
    assert_says(&described, &[says]);
}

#[test]
fn bad_rows_are_skipped_and_counted() {
    let sandbox = sandbox();
    let bad = "p,1\np,\"1,234\",3,Rome,cook,0,yes\np,inf,3,Rome,cook,0,yes\n";
    sandbox.write("people.csv", people(4000, 1) + bad);
    let settings = ["data.path=people.csv", "data.columns.age=number", "data.on_bad=skip"];
    let sets: Vec<_> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let steps = ["--set", "train.stop={steps=10}"];
    let output = sandbox.ok(&[&["train"], &sets[..], &steps].concat());
    assert_says(&output.stderr, &["3 bad rows were skipped"]);
}
