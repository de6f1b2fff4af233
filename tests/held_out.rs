//! Examples held out for tests: from every class, the same in every task and every session, with a
//! warning where results on them mean little.

use std::fs;

use crate::support::{RunningProcess, Sandbox, assert_says};

/// Rows without a positive one in the last tenth of the file, as in LIBSVM's w8a.
fn sorted_rows(sandbox: &Sandbox, name: &str) {
    let row = |i: usize| {
        if i < 1_800 && i.is_multiple_of(20) {
            format!("+1 1:1 {}:1\n", 3 + i % 7)
        } else {
            format!("-1 2:1 {}:1\n", 3 + i % 5)
        }
    };
    sandbox.write(name, (0..2_000).map(row).collect::<String>());
}

/// A short run on those rows.
const ROWS: [&str; 5] = [
    "data={kind=\"libsvm\", path=\"rows.svm\"}",
    "train.stop={epochs=2}",
    "train.batch=20",
    "train.optimizer.rate=0.5",
    "cluster.mode=single",
];

fn args<'a>(start: &[&'a str], settings: &[&'a str]) -> Vec<&'a str> {
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    start.iter().copied().chain(settings).collect()
}

#[test]
fn a_file_whose_last_tenth_has_one_class_gets_a_test_set_with_both() {
    let sandbox = Sandbox::new();
    sorted_rows(&sandbox, "rows.svm");
    let output = sandbox.ok(&args(&["train", "--run-dir", "run"], &ROWS));
    assert!(!output.stderr.contains("warning"), "{output:?}");
    assert_says(&output.stdout, &["AUC 1.0000"]);
    let run = sandbox.run_folder("run");
    let summary = run.summary();
    assert_eq!(summary["test_auc"], 1.0, "{summary}");
    assert!(summary.get("test_auc_undefined").is_none());
    assert_eq!(summary["examples"], 3_600, "a tenth is held out");
    assert_says(&fs::read_to_string(run.file("job.toml")).unwrap(), &["split = \"stratified\""]);
    assert_says(&sandbox.ok(&["evaluate", run.str()]).stdout, &["AUC 1.0000 of 200 examples"]);
    // Every task of a cluster holds out the same rows.
    let sync = [&ROWS[..4], &["cluster.mode=sync", "cluster.workers=1"]].concat();
    let mut command = sandbox.command(&args(&["train", "--quiet"], &sync));
    command.arg("--run-dir").arg(sandbox.path("sync"));
    let output = RunningProcess::start(&mut command, sandbox.path("sync")).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(sandbox.run_folder("sync").model() == run.model());
}

#[test]
fn a_test_set_of_one_class_is_warned_of_and_its_auc_is_undefined() {
    let sandbox = Sandbox::new();
    sorted_rows(&sandbox, "rows.svm");
    let settings = [&ROWS[..], &["data.split=plain"]].concat();
    let output = sandbox.ok(&args(&["train", "--run-dir", "run"], &settings));
    let warning = "the test set has one class only: every label is 0, so accuracy says little, \
                   and AUC is undefined";
    assert_says(&output.stderr, &[&format!("warning: {warning}")]);
    assert!(
        output.stderr.find("warning").unwrap() < output.stderr.find("step ").unwrap_or(usize::MAX)
    );
    let undefined = "AUC undefined (the test set has one class)";
    assert_says(&output.stdout, &[undefined]);
    let run = sandbox.run_folder("run");
    assert_says(&run.log("worker:0"), &[warning]);
    let summary = run.summary();
    assert!(summary.get("test_auc").is_some_and(serde_json::Value::is_null), "{summary}");
    assert_eq!(summary["test_auc_undefined"], "the test set has one class");
    assert_says(&sandbox.ok(&["evaluate", run.str()]).stdout, &[undefined]);
    let json = sandbox.ok(&["evaluate", run.str(), "--json"]).stdout;
    assert_says(&json, &["\"test_auc\":null", "\"test_auc_undefined\":\"the test set has one"]);
}

#[test]
fn test_labels_that_training_never_sees_are_warned_of() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.svm", "0 1:1\n".repeat(200));
    sandbox.write("test.svm", "0 1:1\n1 2:1\n1 2:1\n");
    let settings = [&ROWS[..], &["data.test_path=test.svm"]].concat();
    for mode in ["cluster.mode=single", "cluster.mode=async"] {
        let run = sandbox.path(mode);
        let mut command = sandbox.command(&args(&["train"], &settings));
        command.args(["--set", mode, "--run-dir"]).arg(&run);
        let output = RunningProcess::start(&mut command, run).finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_says(
            &output.stderr,
            &[
                "the training set has one class only: every label is 0",
                "the test set has labels that training never sees: 1 (2 of 3 test examples)",
            ],
        );
        assert_eq!(output.stderr.matches("never sees").count(), 1, "one task warns: {output:?}");
    }
}

#[test]
fn a_run_of_an_earlier_version_keeps_its_test_rows_when_it_is_resumed_or_evaluated() {
    let sandbox = Sandbox::new();
    sorted_rows(&sandbox, "rows.svm");
    let settings = [&ROWS[..], &["data.split=plain", "checkpoint.every_steps=50"]].concat();
    sandbox.ok(&args(&["train", "--run-dir", "run", "--quiet"], &settings));
    let job = sandbox.path("run/job.toml");
    let text = fs::read_to_string(&job).unwrap();
    let earlier: String =
        text.lines().filter(|line| !line.starts_with("split")).map(|l| format!("{l}\n")).collect();
    assert_ne!(earlier, text);
    fs::write(&job, &earlier).unwrap();
    let printed = sandbox.ok(&["evaluate", "run"]);
    assert_says(&printed.stderr, &["so data.split is \"plain\""]);
    assert_says(&printed.stdout, &["AUC undefined"]);
    let resume = ["train", "--resume", "run", "--set", "train.stop.epochs=3"];
    assert_says(&sandbox.ok(&resume).stderr, &["so data.split is \"plain\""]);
    assert_says(&fs::read_to_string(&job).unwrap(), &["split = \"plain\""]);
    assert!(sandbox.run_folder("run").summary()["test_auc"].is_null());
    // From now on the run's own job says it.
    let printed = sandbox.ok(&["evaluate", "run"]);
    assert!(!printed.stderr.contains("data.split"), "{printed:?}");
}

#[test]
fn a_run_of_an_earlier_version_keeps_its_numbers_and_test_rows_if_the_job_names_only_a_file() {
    let sandbox = Sandbox::new();
    let row = |i: u32| format!("{},{},{}\n", ["Bonn", "Rome"][i as usize % 2], 20 + i % 30, i % 2);
    sandbox
        .write("people.csv", format!("city,age,buys\n{}", (0..400).map(row).collect::<String>()));
    sandbox.write(
        "job.toml",
        "data.path = \"people.csv\"\nmodel = { kind = \"deepfm\", rank = 2, hidden = [4] }\n\
         train.stop.epochs = 2\ncluster.mode = \"single\"\ncheckpoint.every_steps = 20\n",
    );
    let old = ["model.numbers=vectors", "data.split=plain"];
    sandbox.ok(&args(&["train", "job.toml", "--run-dir", "run", "--quiet"], &old));
    let job = sandbox.path("run/job.toml");
    let is_new = |line: &&str| line.starts_with("split = ") || line.starts_with("numbers = ");
    let says = ["so data.split is \"plain\"", "so model.numbers is \"vectors\""];
    let by_file: &[&str] = &["train", "job.toml", "--resume", "run"];
    for (command, epochs) in [(by_file, "3"), (&["train", "--resume", "run"], "4")] {
        let text = fs::read_to_string(&job).unwrap();
        assert_eq!(text.lines().filter(is_new).count(), 2, "{text}");
        let lines = text.lines().filter(|line| !is_new(line));
        fs::write(&job, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        assert_says(&sandbox.ok(&["evaluate", "run"]).stderr, &says);
        let stop = format!("train.stop.epochs={epochs}");
        assert_says(&sandbox.ok(&args(command, &[&stop])).stderr, &says);
        assert_says(
            &fs::read_to_string(&job).unwrap(),
            &["split = \"plain\"", "numbers = \"vectors\""],
        );
    }
}
