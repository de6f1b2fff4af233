//! Mistakes of a first hour: options of other programs, shares that are none, tables that are read
//! otherwise than they are written, and results that would say less than they seem to.

use std::fmt::Write as _;

use crate::support::{Sandbox, assert_says};

/// A table with a category, a number and a label of two classes.
fn people(sandbox: &Sandbox, name: &str, rows: u32) {
    let mut text = "age,job,income\n".to_owned();
    for i in 0..rows {
        let (age, job) = (18 + i * 7 % 60, ["cook", "nurse", "pilot"][i as usize % 3]);
        let _ = writeln!(text, "{age},{job},{}", if age > 45 { "high" } else { "low" });
    }
    sandbox.write(name, text);
}

/// What training on `people.csv` with these settings prints to standard error; it must succeed.
fn trained(sandbox: &Sandbox, settings: &[&str]) -> String {
    let path = ["data.path=people.csv"];
    let settings = path.iter().chain(settings).flat_map(|setting| ["--set", setting]);
    sandbox.ok(&["train"].into_iter().chain(settings).collect::<Vec<_>>()).stderr
}

/// The same, if training must be refused.
fn refused(sandbox: &Sandbox, settings: &[&str]) -> String {
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    sandbox.fails(2, &["train"].into_iter().chain(settings).collect::<Vec<_>>())
}

#[test]
fn an_option_that_is_none_names_the_key_of_the_job_that_it_probably_means() {
    let sandbox = Sandbox::new();
    for (option, key) in [
        ("--epochs", "train.stop.epochs"),
        ("--lr", "train.optimizer.rate"),
        ("--batch-size", "train.batch"),
        ("--data", "data.path"),
        ("--model", "model.kind"),
        ("--workers", "cluster.workers"),
    ] {
        let printed = sandbox.fails(2, &["train", option, "3"]);
        let tip = format!("a key of the job is set with --set {key}=VALUE");
        assert_says(&printed, &["unexpected argument", option, &tip]);
        assert!(!printed.contains("as a value"), "{printed}");
    }
    let printed = sandbox.fails(2, &["train", "-set", "train.batch=10"]);
    assert_says(&printed, &["an option of several letters begins with two dashes: --set"]);
    let printed = sandbox.fails(2, &["train", "-v"]);
    assert!(!printed.contains("tip"), "{printed}");
    // No key is like this one, and a command without a job has none.
    let printed = sandbox.fails(2, &["train", "--gpu"]);
    assert!(!printed.contains("tip"), "{printed}");
    let printed = sandbox.fails(2, &["data", "list", "--epochs"]);
    assert!(!printed.contains("train.stop"), "{printed}");
}

#[test]
fn keys_of_other_programs_are_translated() {
    let sandbox = Sandbox::new();
    for (other, key) in [
        ("batch_size", "train.batch"),
        ("train.iterations", "train.stop.steps"),
        ("model.type", "model.kind"),
        ("data.file", "data.path"),
        ("dataset", "data.kind"),
        ("train.weight_decay", "train.optimizer.decay"),
        ("train.num_workers", "cluster.workers"),
    ] {
        let printed = refused(&sandbox, &[&format!("{other}=3")]);
        assert_says(&printed, &[&format!("{other} is not a key; did you mean {key}?")]);
    }
}

#[test]
fn a_setting_that_a_later_one_replaces_is_named() {
    let sandbox = Sandbox::new();
    people(&sandbox, "people.csv", 300);
    let printed = trained(&sandbox, &["train.batch=10", "train.batch=20"]);
    assert_says(
        &printed,
        &["warning: --set train.batch=10 has no effect: --set train.batch=20 replaces it"],
    );
    let settings = ["train.stop.steps=9", "train.stop={epochs=1}"];
    let printed = trained(&sandbox, &settings);
    assert_says(&printed, &["--set train.stop.steps=9 has no effect"]);
    // Conditions that add up, and equal settings, lose nothing.
    let printed = trained(&sandbox, &["train.stop={epochs=2}", "train.stop.steps=3"]);
    assert!(!printed.contains("warning"), "{printed}");
    let printed = trained(&sandbox, &["train.batch=10", "train.batch=10"]);
    assert!(!printed.contains("warning"), "{printed}");
}

#[test]
fn a_share_that_is_none_is_named_with_its_key() {
    let sandbox = Sandbox::new();
    people(&sandbox, "people.csv", 200);
    let path = "data.path=people.csv";
    for text in ["20%", "0,2"] {
        let printed = refused(&sandbox, &[path, &format!("data.test={text}")]);
        let says = "data.test must be a number between 0 and 1, or a path, not the text";
        assert_says(&printed, &[says, "for a share write 0.2"]);
    }
    let printed = refused(&sandbox, &[path, "data.validation=0.999"]);
    assert_says(
        &printed,
        &["data.validation = 0.999 takes 200 training examples", "there are 180", "smaller share"],
    );
    let printed = refused(&sandbox, &[path, "data.hold_out=5000"]);
    assert_says(&printed, &["5000 of 200 rows", "set data.hold_out to fewer"]);
}

#[test]
fn rows_that_are_both_trained_and_tested_on_are_warned_of() {
    let sandbox = Sandbox::new();
    people(&sandbox, "people.csv", 200);
    people(&sandbox, "others.csv", 50);
    for setting in ["data.test=people.csv", "data.test_path=./people.csv", "data.test_path=*.csv"] {
        let printed = trained(&sandbox, &[setting]);
        assert_says(&printed, &["warning: ", "people.csv is read for training and as test data"]);
    }
    let printed = trained(&sandbox, &["data.test_path=others.csv"]);
    assert!(!printed.contains("warning"), "{printed}");
    sandbox.write("rows.svm", "+1 1:1\n-1 2:1\n".repeat(50));
    let rows = ["--set", "data.path=rows.svm", "--set", "data.index_base=one"];
    let validation = ["--set", "data.validation=rows.svm", "--set", "train.batch=10"];
    let printed = sandbox.ok(&[&["train"], &rows[..], &validation].concat()).stderr;
    assert_says(&printed, &["rows.svm is read for training and as validation data"]);
}

#[test]
fn a_label_of_many_numbers_is_warned_of() {
    let sandbox = Sandbox::new();
    people(&sandbox, "people.csv", 600);
    let printed = trained(&sandbox, &["data.columns.age=label"]);
    assert_says(
        &printed,
        &[
            "warning: the label \"age\" has 60 different numbers, and each is a class of its own",
            "Paceline predicts classes, not numbers",
        ],
    );
    let printed = trained(&sandbox, &["data.columns.job=label"]);
    assert!(!printed.contains("warning"), "{printed}");
}

#[test]
fn what_is_decided_about_a_table_is_said_by_every_run_and_by_one_task_of_each() {
    let sandbox = Sandbox::new();
    people(&sandbox, "people.csv", 600);
    let says = ["the label is the column \"income\" (the last column, with 2 different values)"];
    let same = "seed=1";
    // The second run finds the rows and the featuriser of the first in the cache.
    for _ in 0..2 {
        assert_says(&trained(&sandbox, &[same]), &says);
    }
    let shared = trained(&sandbox, &[same, "cluster.mode=async", "cluster.workers=2"]);
    assert_eq!(shared.matches(says[0]).count(), 1, "{shared}");
    for _ in 0..2 {
        let printed = trained(&sandbox, &["data.columns.age=label"]);
        assert_says(&printed, &["warning: the label \"age\" has 60 different numbers"]);
    }
}

#[test]
fn a_last_column_that_cannot_be_the_label_is_explained() {
    let sandbox = Sandbox::new();
    let row = |i: u32| format!("{},{}.5,low\n", 20 + i, 30 + i);
    sandbox
        .write("people.csv", format!("age,size,income\n{}", (0..90).map(row).collect::<String>()));
    let printed = refused(&sandbox, &["data.path=people.csv"]);
    let why = "; if you mean \"income\", its first rows have only one value, \"low\"";
    assert_says(&printed, &["people.csv: no column is the label: declare it", why]);
}

#[test]
fn data_of_an_unknown_kind_is_recognised_by_its_content() {
    let sandbox = Sandbox::new();
    sandbox.write("people.json", "[{\"age\": 31}, {\"age\": 44}]\n");
    sandbox.write("page.html", "<!DOCTYPE html>\n<html></html>\n");
    sandbox.write("page.csv", "<!DOCTYPE html>\n<html></html>\n");
    sandbox.write("parts/1.csv", "age,income\n1,low\n50,high\n");
    sandbox.write("pets/cat/1.png", b"\x89PNG\r\n\x1a\n");
    for (path, says) in [
        ("people.json", "it looks like JSON; convert it to CSV or Parquet"),
        ("page.html", "it is a web page (HTML); fetch the file again"),
        ("parts", "1.csv in it looks like a table with columns separated by commas (CSV); set"),
        ("pets", "cat/1.png in it is a PNG picture; set data.kind = \"images\""),
        ("people.jsn", "correct the path, at which there is nothing (did you mean "),
    ] {
        let printed = refused(&sandbox, &[&format!("data.path={path}")]);
        assert_says(&printed, &[&format!("--set data.path={path}: data.path applies only"), says]);
        assert_says(&printed, &["or leave data.path out"]);
    }
    let printed = refused(&sandbox, &["data.path=page.csv"]);
    assert_says(&printed, &["page.csv: data.kind is \"table\", but it is a web page (HTML)"]);
}

#[test]
fn a_job_file_that_is_none_names_what_was_meant() {
    let sandbox = Sandbox::new();
    sandbox.write("mnist.toml", "");
    let printed = sandbox.fails(2, &["train", "minst.toml"]);
    assert_says(
        &printed,
        &["minst.toml: cannot read the job file: there is no such file (did you"],
    );
    assert_says(&printed, &["mnist.toml?)"]);
    let printed = sandbox.fails(2, &["train", "train.batch=10"]);
    assert_says(&printed, &["there is no such file; a key is set with --set train.batch=10"]);
}

#[test]
fn an_address_that_is_none_is_not_worth_a_retry() {
    let sandbox = Sandbox::new();
    for address in ["server:port", "127.0.0.1:99999"] {
        let printed = sandbox.fails(2, &["worker", "--join", address]);
        assert_says(&printed, &[address, "nor an address such as host:2222"]);
    }
}

#[test]
fn outputs_that_cannot_be_written_name_the_file_and_a_remedy() {
    let sandbox = Sandbox::new();
    people(&sandbox, "people.csv", 200);
    trained(&sandbox, &["name=people"]);
    let run = sandbox.only_run();
    let args = ["predict", run.str(), "people.csv", "-o", "nowhere/out.csv"];
    let printed = sandbox.fails(2, &args);
    assert_says(&printed, &["nowhere/out.csv: there is no directory nowhere; make it first"]);
    let printed = sandbox.fails(1, &["predict", run.str(), "people.csv", "-o", "/dev/full"]);
    assert_says(&printed, &["cannot write /dev/full: No space left"]);
}

#[test]
fn a_report_names_the_runs_it_cannot_show() {
    let sandbox = Sandbox::new();
    people(&sandbox, "people.csv", 200);
    for name in ["all/good", "all/damaged", "all/killed"] {
        let settings = ["--set", "data.path=people.csv", "--run-dir", name];
        sandbox.ok(&[&["train", "--quiet"], &settings[..]].concat());
    }
    sandbox.write("all/damaged/summary.json", "{");
    std::fs::remove_file(sandbox.path("all/killed/summary.json")).unwrap();
    let printed = sandbox.ok(&["report", "all"]).stderr;
    assert_says(
        &printed,
        &[
            "warning: the report has no results of damaged: its summary.json is damaged",
            "warning: the report has no results of killed: it has no summary.json",
        ],
    );
    let page = std::fs::read_to_string(sandbox.path("all/report.html")).unwrap();
    assert_says(&page, &["2 without results", "<h2>Runs without results</h2>"]);
    let printed = sandbox.fails(2, &["report", "all/killed"]);
    assert_says(&printed, &["all/killed: it contains no complete runs"]);
}

#[test]
fn a_sweep_with_a_value_twice_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", "[sweep]\n\"train.batch\" = [10, 20, 10]\n");
    let printed = sandbox.fails(2, &["sweep", "job.toml"]);
    let says = "job.toml:2: sweep.train.batch has 10 twice; remove one, or set sweep.repeats";
    assert_says(&printed, &[says]);
}

#[test]
fn a_label_guessed_from_the_first_column_says_why_it_is_not_the_last() {
    let sandbox = Sandbox::new();
    let row = |i: u32| format!("{},{}.5,{}\n", 1 + i % 6, 20 + i, 1000 + i * 10);
    let rows = (0..300).map(row).collect::<String>();
    sandbox.write("people.csv", format!("rooms,area,price\n{rows}"));
    let printed = trained(&sandbox, &[]);
    assert_says(
        &printed,
        &[
            "the label is the column \"rooms\" (the first column, with 6 different values",
            "if you mean \"price\", its values are numbers",
        ],
    );
}

#[test]
fn a_wrong_delimiter_and_unlike_tables_are_named() {
    let sandbox = Sandbox::new();
    people(&sandbox, "people.csv", 100);
    let printed = refused(&sandbox, &["data.path=people.csv", "data.delimiter=tab"]);
    assert_says(
        &printed,
        &["people.csv: there is only one column, \"age,job,income\"; set data.delimiter to"],
    );
    sandbox.write("parts/a.csv", "age,income\n1,low\n50,high\n");
    sandbox.write("parts/b.csv", "age,wage\n1,low\n50,high\n");
    let printed = refused(&sandbox, &["data.path=parts/*.csv", "train.batch=1"]);
    assert_says(
        &printed,
        &["b.csv: its columns are not those of the first file: column 2 is \"wage\", not "],
    );
}

#[test]
fn a_label_that_only_test_rows_have_is_named_with_a_remedy() {
    let sandbox = Sandbox::new();
    sandbox.write("train.svm", "0 1:1\n1 2:1\n2 3:1\n".repeat(30));
    sandbox.write("test.svm", "0 1:1\n1 2:1\n7 3:1\n");
    let rows = ["data.path=train.svm", "data.test_path=test.svm", "model.kind=sparse-softmax"];
    let printed = refused(&sandbox, &[&rows[..], &["data.kind=libsvm", "train.batch=10"]].concat());
    assert_says(
        &printed,
        &["test.svm: test rows have the label 7, which no training row has; train on rows with it"],
    );
}
