//! Predictions for tables: the featuriser of the model file reads the rows, whatever the order of
//! their columns.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::support::{RunFolder, Sandbox, assert_says, finish, start};

/// Rows with a number, a category and a label that follows from them.
fn rows(range: std::ops::Range<u32>) -> String {
    let mut text = String::from("id,age,city,buys\n");
    for row in range {
        let (age, city) = (20 + row * 7 % 50, ["Rome", "\"Split, HR\"", "Oslo"][row as usize % 3]);
        let buys = if age > 45 || row.is_multiple_of(3) { "yes" } else { "no" };
        let _ = writeln!(text, "u{row},{age},{city},{buys}");
    }
    text
}

#[test]
fn rows_are_read_as_in_training_whatever_their_quotes_ids_and_first_lines() {
    let (sandbox, _) = trained("model.kind=logistic");
    let expected = sandbox.ok(&["predict", "run", "test.csv"]).stdout;
    let text = rows(600..900);
    // A quote opens a field only at its beginning; empty lines are no rows.
    let inches = text.replace(",yes\n", ",yes,5\" pipe\n").replace(",no\n", ",no,x\n");
    let inches = inches.replacen("buys\n", "buys,note\n", 1);
    sandbox.write("inches.csv", format!("\r\n\n{inches}"));
    assert_eq!(sandbox.ok(&["predict", "run", "inches.csv"]).stdout, expected);

    // Without its ids, a row still has all columns of the header.
    let line = |line: &str| line.split_once(',').unwrap().1.to_owned() + "\n";
    sandbox.write("unnamed.csv", text.lines().map(line).collect::<String>());
    let printed = sandbox.ok(&["predict", "run", "unnamed.csv"]).stdout;
    let answers = |text: &str| text.lines().skip(1).map(line).collect::<String>();
    assert_eq!(answers(&printed), answers(&expected));

    let bad = "id,age,city,buys\nu1,old,Rome,no\nu2,3\nu3,44,Oslo,no\n";
    sandbox.write("bad.csv", bad);
    let marked = sandbox.ok(&["predict", "run", "bad.csv", "--on-bad", "mark"]).stdout;
    let lines: Vec<_> = marked.lines().collect();
    assert!(
        lines[1].starts_with("u1,,\"column 2") && lines[2].starts_with(",,\"2 fields"),
        "{marked}"
    );

    sandbox.write("twice.csv", "age,city,age\n1,Rome,2\n");
    let said = sandbox.fails(2, &["predict", "run", "twice.csv"]);
    assert_says(&said, &["twice.csv: two columns are named \"age\"; rename one"]);
    sandbox.write("mac.csv", text.replace('\n', "\r"));
    let said = sandbox.fails(2, &["predict", "run", "mac.csv"]);
    assert_says(&said, &["mac.csv: ", "carriage returns alone", "tr '\\r' '\\n'"]);
}

#[test]
fn a_file_without_any_column_of_the_model_is_refused_before_the_first_answer() {
    let (sandbox, _) = trained("model.kind=logistic");
    sandbox.write("other.csv", "length,width\n1,2\n");
    let mut command = sandbox.command(&["predict", "run", "other.csv"]);
    let output = finish(start(&mut command));
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
    assert_says(&output.stderr, &["other.csv: ", "the file has none of the model's columns"]);
}

const JOB: [&str; 5] = [
    "data.path=train.csv",
    "data.test_path=test.csv",
    "data.columns.id=id",
    "train.optimizer={kind=\"adagrad\", rate=0.3}",
    "train.stop={epochs=5}",
];

/// A run of this model on a table.
fn trained(model: &str) -> (Sandbox, RunFolder) {
    let sandbox = Sandbox::new();
    sandbox.write("train.csv", rows(0..600));
    sandbox.write("test.csv", rows(600..900));
    let run = sandbox.train("run", &[&JOB[..], &[model]].concat());
    (sandbox, run)
}

#[test]
fn a_table_is_answered_with_its_ids_and_evaluated_to_the_figures_of_the_trainer() {
    for model in ["model.kind=logistic", "model.kind=softmax", "model.kind=deepfm"] {
        let (sandbox, run) = trained(model);
        let printed = sandbox.ok(&["predict", "run", "test.csv"]).stdout;
        let lines: Vec<_> = printed.lines().collect();
        assert_eq!((lines[0], lines.len()), ("id,p_yes", 301), "{model}");
        assert!(lines[1].starts_with("u600,") && lines[300].starts_with("u899,"), "{model}");
        let evaluated = sandbox.ok(&["evaluate", "run", "test.csv", "--json"]).stdout;
        let figures: Value = serde_json::from_str(&evaluated).unwrap();
        let summary = run.summary();
        assert_eq!(figures["accuracy"], summary["test_accuracy"], "{model}");
        let [ours, theirs] =
            [&figures["log_loss"], &summary["test_loss"]].map(|loss| loss.as_f64().unwrap());
        assert!((ours - theirs).abs() < 1e-6, "{model}: {ours} and {theirs}");
        // The scores of rows from the text are those of the trainer's own test set.
        let scores = |args: &[&str]| -> Vec<String> {
            let all = [&["predict", "run", "--show", "scores"], args].concat();
            let printed = sandbox.ok(&all).stdout;
            let score = |line: &str| line.split_once(',').unwrap().1.to_owned();
            printed.lines().skip(1).map(score).collect()
        };
        assert_eq!(scores(&["test.csv"]), scores(&["--test"]), "{model}");
        assert_eq!(scores(&["test.csv", "--threads", "1"]), scores(&["test.csv"]), "{model}");
    }
}

#[test]
fn a_table_whose_words_changed_after_the_run_is_not_tested_as_the_runs_own() {
    let (sandbox, _) = trained("model.kind=logistic");
    // As many words as before, of which each has another place.
    sandbox.write("train.csv", rows(0..600).replace("Oslo", "Zagreb"));
    for args in [&["evaluate", "run"][..], &["predict", "run", "--test"]] {
        let said = sandbox.fails(2, args);
        assert_says(&said, &["train.csv: the table is not the one that ", "or has changed since"]);
        assert_says(&said, &["name it: paceline evaluate run/model.safetensors "]);
    }
    sandbox.ok(&["evaluate", "run", "test.csv"]);
}

#[test]
fn a_run_over_a_table_is_not_resumed_after_its_words_have_changed() {
    let (sandbox, _) = trained("checkpoint.every_steps=20");
    sandbox.write("train.csv", rows(0..600).replace("Oslo", "Zagreb"));
    let resume = ["train", "--quiet", "--resume", "run", "--set", "train.stop={epochs=6}"];
    let said = sandbox.fails(2, &resume);
    assert_says(&said, &["run: the table has changed since the run began", "restore the table"]);
    sandbox.write("train.csv", rows(0..600));
    sandbox.ok(&resume);
}

#[test]
fn columns_may_come_in_another_order_with_more_of_them_and_without_the_label() {
    let (sandbox, _) = trained("model.kind=logistic");
    let expected = sandbox.ok(&["predict", "run", "test.csv"]).stdout;
    let text = fs::read_to_string(sandbox.path("test.csv")).unwrap();
    let mut moved = String::from("\u{feff}city,note,id,age\n");
    for line in text.lines().skip(1) {
        let (id, rest) = line.split_once(',').unwrap();
        let (age, rest) = rest.split_once(',').unwrap();
        let city = rest.rsplit_once(',').unwrap().0;
        let _ = writeln!(moved, "{city},\"a\nnote\",{id},{age}");
    }
    sandbox.write("moved.csv", &moved);
    assert_eq!(sandbox.ok(&["predict", "run", "moved.csv"]).stdout, expected);
    let printed = sandbox.fails(2, &["evaluate", "run", "moved.csv"]);
    assert_says(&printed, &["moved.csv: there is no column \"buys\""]);
}

#[test]
fn tables_that_do_not_fit_are_refused_and_bad_rows_counted() {
    let (sandbox, _) = trained("model.kind=logistic");
    sandbox.write("no-age.csv", "id,city\nu1,Rome\n");
    let no_age = ["predict", "run", "no-age.csv", "-o", "/dev/null"];
    assert_says(&sandbox.fails(2, &no_age), &["no-age.csv", "\"age\""]);
    sandbox.write("ragged.csv", "id,age,city\nu1,30,Rome\nu2,30\nu3,old,Oslo\nu4,31,Oslo\n");
    assert_says(&sandbox.fails(2, &["predict", "run", "ragged.csv"]), &["ragged.csv, line 3: "]);
    let output = sandbox.ok(&["predict", "run", "ragged.csv", "--on-bad", "skip"]);
    assert_eq!(output.stdout.lines().count(), 3);
    assert_says(&output.stderr, &["2 bad rows skipped", "ragged.csv, line 3"]);
    sandbox.write("header.csv", "id,age,city\n");
    assert_says(&sandbox.fails(2, &["predict", "run", "header.csv"]), &["there are no rows"]);
    sandbox.write("unclosed.csv", "id,age,city\nu1,30,\"Rome\nu2,31,Oslo\n");
    let printed = sandbox.fails(2, &["predict", "run", "unclosed.csv"]);
    assert_says(&printed, &["unclosed.csv, line 2: a quote is not closed"]);
    // It is not one bad row: the rows after it are in the quote.
    let skip = ["predict", "run", "unclosed.csv", "--on-bad", "skip"];
    assert_says(&sandbox.fails(2, &skip), &["unclosed.csv, line 2: a quote is not closed"]);
    sandbox.write("label.csv", "id,age,city,buys\nu1,30,Rome,perhaps\n");
    let printed = sandbox.fails(2, &["evaluate", "run", "label.csv"]);
    assert_says(&printed, &["label.csv, line 2", "perhaps"]);
    sandbox.write("rows.svm", "1 3:1 4:1\n");
    assert_says(&sandbox.fails(2, &["predict", "run", "rows.svm"]), &["LIBSVM text", "a table"]);
}

#[test]
fn the_export_of_a_table_model_names_its_inputs() {
    let (sandbox, _) = trained("model.kind=softmax");
    let printed = sandbox.ok(&["export", "run", "-o", "model.onnx"]).stdout;
    assert_says(&printed, &["inputs of numbers", "\"age\"", "inputs of texts", "\"city\""]);
}

#[test]
fn answers_as_parquet_are_those_of_csv_and_are_read_as_a_table() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    let (sandbox, _) = trained("model.kind=logistic");
    let csv = sandbox.ok(&["predict", "run", "test.csv"]).stdout;
    let said = sandbox.ok(&["predict", "run", "test.csv", "-o", "out.parquet"]).stderr;
    assert_says(&said, &["out.parquet: 300 rows"]);
    let file = fs::File::open(sandbox.path("out.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<String> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| {
            let row = row.unwrap();
            format!("{},{:?}", row.get_string(0).unwrap(), row.get_float(1).unwrap())
        })
        .collect();
    assert_eq!(rows, csv.lines().skip(1).collect::<Vec<_>>());
    let described = sandbox.ok(&["data", "describe", "out.parquet"]).stdout;
    assert_says(&described, &["p_yes = ", "No column is clearly the label"]);
    // Rows that cannot be scored have an error and no answer.
    sandbox.write("bad.csv", "id,age,city\na,30,Rome\nb,x,Rome\n");
    let mark = ["--on-bad", "mark", "--top", "2", "--format", "parquet", "-o", "marked"];
    sandbox.ok(&[&["predict", "run", "bad.csv"], &mark[..]].concat());
    let file = fs::File::open(sandbox.path("marked")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert!(rows[0].get_string(1).is_ok() && rows[0].get_string(5).is_err());
    assert!(rows[1].get_string(1).is_err());
    assert!(rows[1].get_string(5).unwrap().contains("age"));
}

#[test]
fn rows_of_parquet_files_are_counted_as_rows_and_not_as_lines() {
    let (sandbox, _) = trained("model.kind=logistic");
    // Ids with line ends in them.
    sandbox.write("test.csv", rows(600..900).replace("u6", "\"u\n6\"").replace("u8,", "8,"));
    for answers in ["answers.csv", "answers.parquet"] {
        sandbox.ok(&["predict", "run", "test.csv", "--top", "1", "-o", answers]);
    }
    let settings = ["data.path=answers.csv", "data.columns={id=\"ignore\", class_1=\"label\"}"];
    sandbox.ok(&["train", "--run-dir", "again", "--set", settings[0], "--set", settings[1]]);
    let answers = |input: &str| sandbox.ok(&["predict", "again", input]).stdout;
    let [lines, rows] = ["answers.csv", "answers.parquet"].map(answers);
    assert!(lines.starts_with("line,p_yes\n2,"), "{lines}");
    assert!(rows.starts_with("row,p_yes\n1,"), "{rows}");
    for (number, (line, row)) in lines.lines().zip(rows.lines()).enumerate().skip(1) {
        let (counted, answer) = row.split_once(',').unwrap();
        assert_eq!(counted, number.to_string());
        assert_eq!(answer, line.split_once(',').unwrap().1);
    }
    let two = sandbox.ok(&["predict", "again", "answers.parquet", "answers.csv"]).stdout;
    assert!(two.starts_with("file,line,p_yes\nanswers.parquet,1,"), "{two}");
}

#[test]
fn a_dense_model_skips_a_file_of_bad_rows() {
    let (sandbox, _) = trained("model.kind=softmax");
    sandbox.write("bad.csv", "id,age,city\na,x,Rome\nb,y,Rome\n");
    let skipped = sandbox.ok(&["predict", "run", "bad.csv", "--on-bad", "skip"]);
    assert_eq!(skipped.stdout.lines().count(), 1);
    assert_says(&skipped.stderr, &["2 bad rows skipped"]);
}

#[test]
fn predictions_do_not_look_at_labels() {
    let (sandbox, _) = trained("model.kind=logistic");
    sandbox.write("new.csv", "id,age,city,buys\nu1,30,Rome,\nu2,30,Rome,perhaps\n");
    let answered = sandbox.ok(&["predict", "run", "new.csv"]).stdout;
    assert_eq!(answered.lines().count(), 3);
    let printed = sandbox.fails(2, &["evaluate", "run", "new.csv"]);
    assert_says(&printed, &["new.csv, line 2: the label is missing"]);
}

#[test]
fn a_table_with_another_separator_is_read_by_its_header() {
    let (sandbox, _) = trained("model.kind=logistic");
    let [csv, tsv] = [("new.csv", ","), ("new.tsv", "\t")].map(|(name, separator)| {
        let line = |fields: [&str; 3]| fields.join(separator) + "\n";
        let rows = [["id", "city", "age"], ["u1", "Rome", "30"], ["u2", "Oslo", ""]].map(line);
        sandbox.write(name, rows.concat());
        sandbox.ok(&["predict", "run", name]).stdout
    });
    assert_eq!((csv.lines().count(), &csv), (3, &tsv));
    sandbox.write("short.tsv", "id\tage\nu1\t30\n");
    let printed = sandbox.fails(2, &["predict", "run", "short.tsv"]);
    assert_says(&printed, &["short.tsv: there is no column \"city\"; there are \"id\", \"age\""]);
    sandbox.write("bare.csv", "u1,30,Rome\nu2,40,Oslo\n");
    let printed = sandbox.fails(2, &["predict", "run", "bare.csv"]);
    assert_says(&printed, &["bare.csv: there is no column", "the first row must name the columns"]);
}
