//! Where a job runs if it does not say so, and what `explain` says about defaults.

use crate::support::{
    ManualRun, ProcessOutput, SECRET, SMALL_DATA, Sandbox, assert_says, cluster_of, finish,
    free_ports, start, tf_config,
};
use serde_json::json;

/// The arguments that set these keys.
fn set<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    settings.iter().flat_map(|setting| ["--set", setting]).collect()
}

/// The output of a command with this `TF_CONFIG`.
fn with_tf_config(sandbox: &Sandbox, config: &str, args: &[&str]) -> ProcessOutput {
    finish(start(sandbox.command(args).env("TF_CONFIG", config).env("PACELINE_TOKEN", SECRET)))
}

#[test]
fn a_job_without_a_cluster_runs_in_one_process() {
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", "[data]\ntrain_examples = 600\ntest_examples = 100\n");
    sandbox.ok(&["train", "--quiet", "job.toml", "--run-dir", "file"]);
    let other = set(&["model.kind=softmax", SMALL_DATA[0], SMALL_DATA[1]]);
    sandbox.ok(&[&["train", "--quiet", "--run-dir", "set"], &other[..]].concat());
    for run in ["file", "set"] {
        let summary = sandbox.run_folder(run).summary();
        assert_eq!((&summary["mode"], &summary["workers"]), (&"single".into(), &1.into()), "{run}");
    }
    // The built-in job asks for a small cluster.
    let demo = [&["train", "--quiet", "--run-dir", "demo"], &set(&SMALL_DATA)[..]].concat();
    sandbox.ok(&demo);
    let summary = sandbox.run_folder("demo").summary();
    let tasks = [&summary["mode"], &summary["workers"], &summary["servers"]];
    assert_eq!(tasks, [&json!("async"), &json!(2), &json!(1)]);
}

#[test]
fn explain_says_which_defaults_apply_and_why() {
    let sandbox = Sandbox::new();
    let explain =
        |settings: &[&str]| sandbox.ok(&[&["explain"], &set(settings)[..]].concat()).stdout;
    let line = |text: &str, start: &str| {
        let found = text.lines().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start}: {text}")).to_owned()
    };
    let demo = explain(&[]);
    assert_says(&line(&demo, "mode = \"async\""), &["# default of the built-in job"]);
    assert_says(&demo, &["2 workers and 1 server, which"]);
    let clicks = explain(&["model.kind=logistic"]);
    assert_says(&line(&clicks, "kind = \"clicks\""), &["# default: model.kind is logistic"]);
    let mode = line(&clicks, "mode = \"single\"");
    assert_says(&mode, &["# default: --set model.kind replaces the built-in job's [cluster]"]);
    assert_says(&clicks, &["# tasks: this process alone", "# threads: 1 (", "without locks"]);
    let lenet = explain(&["model.kind=lenet"]);
    assert_says(&line(&lenet, "# threads"), &["all cores"]);
    assert_says(&line(&explain(&["model.kind=softmax"]), "# threads"), &["train.batch of 256"]);
    let fixed = explain(&["model.kind=lenet", "train.threads=3"]);
    assert_says(&line(&fixed, "# threads"), &["# threads: 3 (train.threads)"]);
    sandbox.write("job.toml", "");
    let file = sandbox.ok(&["explain", "job.toml"]).stdout;
    assert_says(
        &line(&file, "mode = "),
        &["\"single\"", "# default: no cluster.mode, no TF_CONFIG"],
    );
}

#[test]
fn an_empty_tf_config_counts_as_unset() {
    let sandbox = Sandbox::new();
    let small = set(&[SMALL_DATA[0], SMALL_DATA[1], "model.kind=softmax"]);
    sandbox.write("sweep.toml", "[sweep]\n\"train.batch\" = [10]\n");
    for (name, config) in [("empty", ""), ("blank", " \n\t")] {
        let train = [&["train", "--quiet", "--run-dir", name], &small[..]].concat();
        for args in [&train[..], &["explain"], &["sweep", "--dry-run", "sweep.toml"]] {
            let output = with_tf_config(&sandbox, config, args);
            assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
        }
        assert_eq!(sandbox.run_folder(name).summary()["mode"], "single");
    }
    let output = with_tf_config(&sandbox, "x", &["explain"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["error: TF_CONFIG: not JSON"]);
}

#[test]
fn workers_without_servers_in_tf_config_train_in_mirrored() {
    let [first, second] = free_ports();
    let workers = [first, second].map(|port| format!("127.0.0.1:{port}"));
    let manual_run = ManualRun::new(json!({"worker": workers}), &["train.stop={steps=20}"]);
    manual_run.all_end_well((0..2).map(|index| manual_run.start("worker", index)).collect());
    let summary = manual_run.run().summary();
    assert_eq!((&summary["mode"], &summary["workers"]), (&"mirrored".into(), &2.into()));
}

#[test]
fn numbers_of_tasks_that_tf_config_contradicts_are_refused() {
    let sandbox = Sandbox::new();
    let config = tf_config(&cluster_of(2, &[1]), "worker", 0);
    for (setting, listed) in [("cluster.workers=8", 2), ("cluster.servers=3", 1)] {
        let key = setting.split('=').next().unwrap();
        for command in ["train", "explain"] {
            let output = with_tf_config(&sandbox, &config, &[command, "--set", setting]);
            assert_eq!(output.code, Some(2), "{output:?}");
            let says = format!("but TF_CONFIG lists {listed}; leave {key} out");
            assert_says(&output.stderr, &[&format!("error: --set {setting}: {key} is "), &says]);
        }
    }
    assert!(sandbox.tree().is_empty());
}
