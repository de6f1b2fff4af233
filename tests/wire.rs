//! `cluster.wire = "bf16"`: half the bytes, the same accuracy, and the same bits however often
//! tasks die.

use crate::support::{RunFolder, Sandbox, assert_says, first_error};

const ROUNDED: &str = "cluster.wire=bf16";
const MOMENTUM: &str = "train.optimizer.kind=momentum";
const TASKS: [&str; 2] = ["cluster.workers=3", "cluster.servers=2"];

fn accuracy(run: &RunFolder) -> f64 {
    run.summary()["test_accuracy"].as_f64().unwrap()
}

fn sent_bytes(run: &RunFolder, task: &str) -> f64 {
    run.task(task)["sent_bytes"].as_f64().unwrap()
}

/// Trains with both formats; rounding may cost 0.5 % of accuracy, and the bytes must halve.
fn compare_with_f32(mode: &str, settings: &[&str]) {
    let sandbox = Sandbox::new();
    let exact = sandbox.train_cluster("exact", mode, settings);
    let rounded = sandbox.train_cluster("rounded", mode, &[settings, &[ROUNDED]].concat());
    let (left, right) = (accuracy(&exact), accuracy(&rounded));
    assert!(left > 0.8, "{mode}: {left} with f32");
    assert!(left - right <= 0.005, "{mode}: {left} with f32, {right} with bf16");
    if mode == "sync" {
        for task in ["worker:0", "ps:0"] {
            let share = sent_bytes(&rounded, task) / sent_bytes(&exact, task);
            assert!((0.49..0.52).contains(&share), "{task} sends {share} of the bytes");
        }
    }
}

#[test]
fn lenet_is_as_accurate_with_half_the_bytes() {
    let settings = [
        "model.kind=lenet",
        "model.init=pytorch",
        "train.optimizer={kind=\"momentum\", rate=0.02}",
        "train.batch=32",
        "train.stop={steps=600}",
        "data.train_examples=4000",
        "data.test_examples=2000",
    ];
    compare_with_f32("sync", &settings);
}

#[test]
fn softmax_is_as_accurate_in_every_mode() {
    for mode in ["sync", "async", "bounded"] {
        let examples = ["data.train_examples=20000", "data.test_examples=5000"];
        compare_with_f32(mode, &[&examples[..], &["train.stop={steps=3000}"]].concat());
    }
}

#[test]
fn workers_that_die_do_not_change_the_bits_of_sync() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop.steps=6000", MOMENTUM, "train.batch=20", ROUNDED];
    let wait = ["cluster.on_worker_loss=wait"];
    let launched = sandbox.launch_five_tasks("sync", &[&wait[..], &settings].concat());
    for task in ["worker:1", "worker:0", "worker:2"] {
        launched.kill_and_wait_for_restart(task);
    }
    let output = launched.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let undisturbed =
        sandbox.train_cluster("undisturbed", "sync", &[&TASKS[..], &settings].concat());
    assert!(sandbox.run_folder("run").model() == undisturbed.model());
}

#[test]
fn servers_that_die_do_not_change_the_bits_of_sync() {
    let sandbox = Sandbox::new();
    let same = ["train.stop.steps=4000", MOMENTUM, "train.batch=20", ROUNDED];
    let settings = [&TASKS[..], &same, &["checkpoint.every_steps=200"]].concat();
    let mut launched = sandbox.launch("run", "sync", &settings);
    launched.wait_for_steps();
    for server in ["ps:1", "ps:0"] {
        launched.kill_and_wait_for_restart(server);
    }
    let output = launched.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let undisturbed = sandbox.train_cluster("undisturbed", "sync", &[&TASKS[..], &same].concat());
    assert!(sandbox.run_folder("run").model() == undisturbed.model());
}

#[test]
fn a_job_that_sends_nothing_rounded_is_refused_with_a_reason() {
    let sandbox = Sandbox::new();
    let sparse = ["cluster.mode=sync", "model.kind=logistic", ROUNDED];
    for (settings, reason) in [
        (&["cluster.mode=single", ROUNDED][..], "applies only with cluster.mode"),
        (&["cluster.mode=sync", "cluster.wire=f16"], "must be"),
        (&sparse, "is \"bf16\", which is for dense models"),
    ] {
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let args: Vec<_> = ["explain"].into_iter().chain(settings).collect();
        assert_says(first_error(&sandbox.fails(2, &args)), &["cluster.wire", reason]);
    }
}
