//! Keys that are set but not used: an error before anything starts, or a way to use them.

use crate::support::{Sandbox, assert_says};

/// Checks that these arguments fail with exit code 2 and exactly this error, and leave nothing.
#[track_caller]
fn check(sandbox: &Sandbox, args: &[&str], error: &str) {
    let before = sandbox.tree();
    let printed = sandbox.fails(2, args);
    assert_eq!(printed, format!("error: {error}\n"), "{args:?}");
    assert_eq!(sandbox.tree(), before, "something was left behind by {args:?}");
}

#[test]
fn a_path_without_its_kind_does_not_train_on_generated_digits() {
    let sandbox = Sandbox::new();
    sandbox.write("people.csv", "age,income\n1,2\n");
    let printed = sandbox.fails(2, &["train", "--set", "data.path=people.csv"]);
    assert_says(&printed, &["no column is the label", "data.columns.NAME = \"label\""]);
    assert_eq!(sandbox.tree(), ["people.csv"]);
    sandbox.write("rows.svm", "x 1:1\n");
    let printed = sandbox.fails(2, &["train", "--set", "data.path=rows.svm"]);
    assert_says(&printed, &["rows.svm: line 1: the label is not one of 0, 1, -1, +1"]);
    std::fs::remove_file(sandbox.path("rows.svm")).unwrap();
    sandbox.write("people", "age,income\n1,2\n");
    let printed = sandbox.fails(2, &["train", "--set", "data.path=people"]);
    assert_says(
        &printed,
        &[
            "error: --set data.path=people: data.path applies only with data.kind = ",
            "\"libsvm\"",
            ", but data.kind is \"digits\" (default); it looks like a table with columns separated \
             by commas (CSV); set data.kind = \"table\", or leave data.path out",
        ],
    );
    assert_eq!(sandbox.tree(), ["people", "people.csv"]);
}

#[test]
fn keys_of_another_mode_or_optimizer_are_refused() {
    let sandbox = Sandbox::new();
    check(
        &sandbox,
        &["train", "--set", "cluster.mode=single", "--set", "cluster.workers=8"],
        "--set cluster.workers=8: cluster.workers applies only with cluster.mode = \"async\", \
         \"sync\", \"bounded\" or \"mirrored\", but cluster.mode is \"single\" (--set \
         cluster.mode=single); set cluster.mode too, or leave cluster.workers out",
    );
    check(
        &sandbox,
        &["train", "--set", "cluster.quorum=1"],
        "--set cluster.quorum=1: cluster.quorum applies only with cluster.mode = \"sync\", but \
         cluster.mode is \"async\" (default of the built-in job); set cluster.mode = \"sync\", or \
         leave cluster.quorum out",
    );
    sandbox.write("job.toml", "[train.optimizer]\nmomentum = 0.9\n");
    for command in ["train", "explain"] {
        check(
            &sandbox,
            &[command, "job.toml"],
            "job.toml:2: train.optimizer.momentum applies only with train.optimizer.kind = \
             \"momentum\", but train.optimizer.kind is \"sgd\" (default); set \
             train.optimizer.kind = \"momentum\", or leave train.optimizer.momentum out",
        );
    }
}

/// Jobs from before `single` was the default.
#[test]
fn workers_without_a_mode_are_refused_with_what_to_set() {
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", "[cluster]\nworkers = 3\nservers = 2\n");
    let printed = sandbox.fails(2, &["train", "job.toml"]);
    let why = "but cluster.mode is \"single\" (default: no cluster.mode, no TF_CONFIG); set \
               cluster.mode too";
    assert_says(&printed, &["job.toml:2: cluster.workers", "job.toml:3: cluster.servers", why]);
}

#[test]
fn a_run_that_is_resumed_in_another_mode_says_how_to_replace_the_section() {
    let sandbox = Sandbox::new();
    let settings = [
        "cluster.workers=2",
        "cluster.quorum=2",
        "train.stop={steps=20}",
        "checkpoint.every_steps=10",
    ];
    sandbox.train_cluster("run", "sync", &settings);
    let more = ["train", "--quiet", "--resume", "run", "--set", "train.stop={steps=30}"];
    let printed = sandbox.fails(2, &[&more[..], &["--set", "cluster.mode=async"]].concat());
    assert_says(
        &printed,
        &[
            "run/job.toml:",
            ": cluster.quorum applies only with cluster.mode = \"sync\"",
            "--set 'cluster={mode=\"async\"}' replaces the whole section",
        ],
    );
    sandbox.ok(&[&more[..], &["--set", "cluster={mode=\"async\"}"]].concat());
    let summary = sandbox.run_folder("run").summary();
    assert_eq!(summary["mode"], "async");
    assert!(summary["global_steps"].as_u64().unwrap() >= 30, "{summary}");
}

#[test]
fn the_jobs_of_finished_runs_run_resume_and_evaluate() {
    let sandbox = Sandbox::new();
    let small = ["--set", "data.train_examples=600", "--set", "data.test_examples=100"];
    let stop = ["--set", "train.stop={steps=20}", "--set", "checkpoint.every_steps=10"];
    sandbox.ok(&[&["train", "--quiet", "--run-dir", "first"], &small[..], &stop].concat());
    sandbox.ok(&["train", "--quiet", "first/job.toml", "--run-dir", "again"]);
    // The cluster was the built-in job's, so another mode may leave it.
    let alone = ["train", "--quiet", "again/job.toml", "--run-dir", "alone"];
    sandbox.ok(&[&alone[..], &["--set", "cluster.mode=single"]].concat());
    assert_eq!(sandbox.run_folder("alone").summary()["mode"], "single");
    sandbox.ok(&["train", "--quiet", "--resume", "again", "--set", "train.stop={steps=40}"]);
    sandbox.ok(&["evaluate", "first"]);
    check(
        &sandbox,
        &["evaluate", "first", "--set", "train.batch=5"],
        "--set train.batch=5: train.batch is not used by a test; leave it out",
    );
    // Other data than it was trained on, for which a line of the job has no meaning.
    sandbox.idx_set("set", 12, 3);
    let mnist = ["--set", "data.kind=mnist", "--set", "data.path=set"];
    let printed = sandbox.fails(2, &[&["evaluate", "first"], &mnist[..]].concat());
    assert!(!printed.contains("applies only"), "{printed}");
}

#[test]
fn a_sweep_accepts_keys_that_one_of_its_runs_uses() {
    let sandbox = Sandbox::new();
    let job = "[train.optimizer]\nmomentum = 0.8\n[sweep]\n\"train.optimizer.kind\" = ";
    sandbox.write("some.toml", format!("{job}[\"sgd\", \"momentum\"]\n"));
    sandbox.write("none.toml", format!("{job}[\"sgd\", \"adam\"]\n"));
    let listed = sandbox.ok(&["sweep", "--dry-run", "some.toml"]).stdout;
    assert_says(&listed, &["# some: 2 runs"]);
    let printed = sandbox.fails(2, &["sweep", "none.toml"]);
    assert_says(&printed, &["error: none.toml:2: train.optimizer.momentum applies only with"]);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert!(!sandbox.path("sweeps").exists());
}
