//! Workers that die and are started again: the run goes on, and what had been pushed counts once.

use std::time::Duration;

use crate::support::{
    ENDLESS, RunningProcess, SHARED_MODES, Sandbox, signal_to, wait_until, within,
};

const WAIT: &str = "cluster.on_worker_loss=wait";

/// A run of 3 workers and 2 servers that is making steps.
fn running(sandbox: &Sandbox, mode: &str, settings: &[&str]) -> RunningProcess {
    let settings = [&["cluster.workers=3", "cluster.servers=2", WAIT], settings].concat();
    let mut launched = sandbox.launch("run", mode, &settings);
    launched.wait_for_steps();
    launched
}

/// Kills a task and waits until another process has taken its place.
fn kill(launched: &RunningProcess, task: &str) {
    let before = launched.task(task);
    signal_to(before, "KILL");
    let printed = |text: &str| launched.stderr().contains(text);
    assert!(wait_until(|| printed(&format!("{task} is started again"))), "{}", launched.stderr());
}

#[test]
fn sync_ends_with_the_same_bits_however_often_workers_die() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop.steps=6000", "train.optimizer.kind=momentum", "train.batch=20"];
    let launched = running(&sandbox, "sync", &settings);
    for task in ["worker:1", "worker:0", "worker:2"] {
        kill(&launched, task);
    }
    let output = launched.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let tasks = ["cluster.workers=3", "cluster.servers=2"];
    let other = sandbox.train_cluster("other", "sync", &[&tasks[..], &settings].concat());
    let run = sandbox.run_folder("run");
    assert_eq!(run.summary()["global_steps"], 6000);
    assert!(run.model() == other.model());
}

#[test]
fn sync_on_sparse_rows_ends_with_the_same_bits_though_a_worker_died() {
    let sandbox = Sandbox::new();
    let settings = [
        "model.kind=logistic",
        "data.features=5000",
        "train.optimizer.kind=adagrad",
        "train.stop.steps=6000",
    ];
    let launched = running(&sandbox, "sync", &settings);
    for task in ["worker:1", "worker:0"] {
        kill(&launched, task);
    }
    let output = launched.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let tasks = ["cluster.workers=3", "cluster.servers=2"];
    let other = sandbox.train_cluster("other", "sync", &[&tasks[..], &settings].concat());
    assert!(sandbox.run_folder("run").model() == other.model());
}

#[test]
fn the_others_go_on_meanwhile_and_the_newcomer_takes_its_place() {
    for mode in ["async", "bounded"] {
        let sandbox = Sandbox::new();
        let mut launched = running(&sandbox, mode, &[ENDLESS]);
        kill(&launched, "worker:1");
        let run = sandbox.run_folder("run");
        let taken = || run.log("ps:0").contains("a new process takes worker:1 over");
        within(Duration::from_secs(30), "the place is taken", taken);
        launched.wait_for_more_steps();
        launched.signal("INT");
        assert_eq!(launched.finish().code, Some(130), "{mode}");
        let summary = run.summary();
        assert_eq!(summary["tasks"].as_array().unwrap().len(), 5, "{mode}: all have reported");
        // Both servers have applied the same pushes, or the chief's last word would differ.
        assert!(run.task("worker:1")["steps"].as_u64().unwrap() > 0, "{mode}");
    }
}

#[test]
fn a_run_ends_when_a_worker_has_died_too_often() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        let launched = running(&sandbox, mode, &[ENDLESS, "cluster.restarts=1"]);
        kill(&launched, "worker:2");
        signal_to(launched.task("worker:2"), "KILL");
        let output = launched.finish();
        assert!(output.code.unwrap() >= 128, "{mode}: {output:?}");
        let last = output.stderr.lines().last().unwrap();
        assert_eq!(last, "error: the run failed: worker:2 was killed by signal 9", "{mode}");
    }
}
