//! Workers that die and are restarted: the run continues, and every push is applied once.

use std::time::Duration;

use crate::support::{
    ENDLESS, LossyRun, RunningProcess, SHARED_MODES, Sandbox, first_error, signal_to, within,
};

const WAIT: &str = "cluster.on_worker_loss=wait";

fn running(sandbox: &Sandbox, mode: &str, settings: &[&str]) -> RunningProcess {
    sandbox.launch_five_tasks(mode, &[&[WAIT], settings].concat())
}

const TASKS: [&str; 2] = ["cluster.workers=3", "cluster.servers=2"];

/// Checks that a `sync` run of 600 steps ends like an undisturbed one after these workers died.
fn check_equal_bits(settings: &[&str], killed: &[&str]) {
    let sandbox = Sandbox::new();
    let settings = [&TASKS[..], &["train.stop.steps=600"], settings].concat();
    let run =
        LossyRun { mode: "sync", slowdown: 100, settings: &settings, recovery: &[WAIT], killed };
    let (_, run) = run.ends_with_the_same_bits(&sandbox);
    assert_eq!(run.summary()["global_steps"], 600);
}

#[test]
fn sync_ends_with_the_same_bits_however_often_workers_die() {
    let settings = ["train.optimizer.kind=momentum", "train.batch=20"];
    check_equal_bits(&settings, &["worker:1", "worker:0", "worker:2"]);
}

#[test]
fn sync_on_sparse_rows_ends_with_the_same_bits_when_workers_die() {
    let settings = ["model.kind=logistic", "data.features=5000", "train.optimizer.kind=adagrad"];
    check_equal_bits(&settings, &["worker:1", "worker:0"]);
}

#[test]
fn the_other_workers_continue_and_a_new_process_takes_the_slot() {
    for mode in ["async", "bounded"] {
        let sandbox = Sandbox::new();
        let mut launched = running(&sandbox, mode, &[ENDLESS]);
        launched.kill_and_wait_for_restart("worker:1");
        let run = sandbox.run_folder("run");
        let taken = || run.log("ps:0").contains("a new process takes over worker:1");
        within(Duration::from_secs(30), "the slot is taken over", taken);
        launched.wait_for_more_steps();
        launched.signal("INT");
        assert_eq!(launched.finish().code, Some(130), "{mode}");
        let summary = run.summary();
        assert_eq!(summary["tasks"].as_array().unwrap().len(), 5, "{mode}: all have reported");
        assert!(run.task("worker:1")["steps"].as_u64().unwrap() > 0, "{mode}");
    }
}

#[test]
fn a_run_ends_when_a_worker_has_died_too_often() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        let launched = running(&sandbox, mode, &[ENDLESS, "cluster.restarts=1"]);
        launched.kill_and_wait_for_restart("worker:2");
        signal_to(launched.task("worker:2"), "KILL");
        let output = launched.finish();
        assert!(output.code.unwrap() >= 128, "{mode}: {output:?}");
        let cause = "error: the run failed: worker:2 was killed by signal 9";
        assert_eq!(first_error(&output.stderr), cause, "{mode}");
    }
}
