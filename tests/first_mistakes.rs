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
