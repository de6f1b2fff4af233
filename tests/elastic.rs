//! Workers that join and leave a run while it trains: every example still comes once per epoch,
//! `sync` ends with the same bits, and every process ends without help.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{
    ENDLESS, RunFolder, RunningProcess, SHARED_MODES, Sandbox, assert_says, processes_of,
    signal_to, within,
};

/// Long enough for one worker to join and another to leave: 5 epochs of 600 examples, in slow steps
/// of 4.
const EPOCHS: [&str; 2] = ["train.stop.epochs=5", "train.batch=1"];
const EXAMPLES: u64 = 5 * 600;

/// A run of 2 workers that fill 4 slots and are making steps.
fn running(sandbox: &Sandbox, mode: &str, settings: &[&str]) -> RunningProcess {
    let settings = [&["cluster.slots=4", "cluster.servers=2"], settings].concat();
    let mut command = sandbox.cluster("run", mode, &settings);
    let mut launched = RunningProcess::start(slow(&mut command), sandbox.path("run"));
    launched.wait_for_steps();
    launched
}

/// Slows all workers down, so that there is time to join and leave.
fn slow(command: &mut Command) -> &mut Command {
    command.env("PACELINE_TEST_SLOW", "*:600")
}

/// Starts a worker that joins the run.
fn join(sandbox: &Sandbox) -> RunningProcess {
    let mut command = sandbox.command(&["worker", "--join", sandbox.path("run").to_str().unwrap()]);
    RunningProcess::start(slow(&mut command), sandbox.path("run"))
}

/// Waits until the log of server 0 contains this text.
#[track_caller]
fn wait_for_server_log(run: &RunFolder, text: &str) {
    within(Duration::from_secs(60), text, || run.log("ps:0").contains(text));
}

fn names(summary: &Value) -> Vec<&str> {
    summary["tasks"].as_array().unwrap().iter().map(|task| task["task"].as_str().unwrap()).collect()
}

#[test]
fn sync_has_the_same_bits_however_many_processes_fill_its_slots() {
    for model in ["softmax", "logistic"] {
        let sandbox = Sandbox::new();
        let kind = format!("model.kind={model}");
        let settings = ["cluster.slots=4", "train.stop.steps=200", "data.features=5000", &kind];
        let settings = if model == "softmax" {
            [settings[0], settings[1], settings[3], "seed=1"]
        } else {
            settings
        };
        let runs = [1, 2, 4].map(|workers| {
            let workers = format!("cluster.workers={workers}");
            let name = workers.replace('=', "-");
            sandbox.train_cluster(&name, "sync", &[&settings[..], &[&workers]].concat())
        });
        assert!(
            runs[0].model() == runs[1].model() && runs[1].model() == runs[2].model(),
            "{model}"
        );
        let summary = runs[1].summary();
        assert_eq!(names(&summary), ["worker:0", "worker:1", "ps:0"]);
        // Each of the two workers has made the steps of two slots.
        assert_eq!(runs[1].task("worker:1")["steps"], 400, "{model}");
        assert_eq!(runs[0].summary()["examples"], summary["examples"], "{model}");
    }
}

/// Checks a run that a third worker joins and the second leaves: all processes succeed, and every
/// example comes once per epoch.
fn check_join_and_leave(mode: &str, settings: &[&str], is_same: bool) {
    let sandbox = Sandbox::new();
    let all = [&EPOCHS[..], settings].concat();
    let launched = running(&sandbox, mode, &all);
    let run = sandbox.run_folder("run");
    let joined = join(&sandbox);
    wait_for_server_log(&run, "worker:2 takes ");
    let second = launched.task("worker:1");
    signal_to(second, "TERM");
    within(Duration::from_secs(60), "worker:1 is gone", || {
        !processes_of(&sandbox.path("run")).contains(&second)
    });
    let output = launched.finish_task();
    assert_eq!(output.code, Some(0), "{mode}: {output:?}");
    let joined = joined.finish();
    assert_eq!(joined.code, Some(0), "{mode}: {joined:?}");
    assert_says(&output.stderr, &["worker:1: leaves the run cleanly"]);
    let summary = run.summary();
    assert_eq!(summary["examples"], EXAMPLES, "{mode}: every example once an epoch");
    assert_eq!(names(&summary), ["worker:0", "worker:1", "worker:2", "ps:0", "ps:1"], "{mode}");
    for worker in ["worker:1", "worker:2"] {
        assert!(run.task(worker)["steps"].as_u64().unwrap() > 0, "{mode}: {worker}");
        assert!(run.event_bytes(worker) > 0, "{mode}: {worker} has a folder of its own");
    }
    assert!(!run.file("join.json").exists(), "join.json is removed at the end");
    if is_same {
        let settings = [&["cluster.slots=4", "cluster.servers=2"], &all[..]].concat();
        let undisturbed = sandbox.train_cluster("undisturbed", mode, &settings);
        assert!(undisturbed.model() == run.model(), "{mode}: the same bits as an undisturbed run");
    }
}

#[test]
fn in_sync_one_worker_joins_and_another_leaves_with_the_same_bits() {
    check_join_and_leave("sync", &[], true);
}

#[test]
fn in_sync_on_sparse_rows_one_worker_joins_and_another_leaves_with_the_same_bits() {
    check_join_and_leave("sync", &["model.kind=logistic", "data.features=5000"], true);
}

#[test]
fn in_async_and_bounded_one_worker_joins_and_another_leaves() {
    check_join_and_leave("async", &[], false);
    check_join_and_leave("bounded", &["cluster.staleness=1"], false);
    check_join_and_leave("async", &["model.kind=logistic", "data.features=5000"], false);
}

#[test]
fn restarted_servers_know_the_workers_that_joined_and_left() {
    let sandbox = Sandbox::new();
    let launched =
        running(&sandbox, "sync", &[&EPOCHS[..], &["checkpoint.every_steps=25"]].concat());
    let run = sandbox.run_folder("run");
    let joined = join(&sandbox);
    wait_for_server_log(&run, "worker:2 takes ");
    launched.kill_and_wait_for_restart("ps:1");
    let second = launched.task("worker:1");
    signal_to(second, "TERM");
    within(Duration::from_secs(60), "worker:1 is gone", || {
        !processes_of(&sandbox.path("run")).contains(&second)
    });
    launched.kill_and_wait_for_restart("ps:0");
    let output = launched.finish_task();
    assert_eq!(output.code, Some(0), "{output:?}");
    let joined = joined.finish();
    assert_eq!(joined.code, Some(0), "{joined:?}");
    assert_says(&output.stderr, &["ps:1: the run goes back to ", "worker:1: leaves the run"]);
    let settings = [&["cluster.slots=4", "cluster.servers=2"], &EPOCHS[..]].concat();
    let undisturbed = sandbox.train_cluster("undisturbed", "sync", &settings);
    assert!(undisturbed.model() == run.model(), "the same bits as an undisturbed run");
}

#[test]
fn a_spare_takes_over_from_a_killed_worker() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        let settings = ["cluster.on_worker_loss=wait", "cluster.slots=2", ENDLESS];
        let mut launched = sandbox.launch("run", mode, &settings);
        launched.wait_for_steps();
        let run = sandbox.run_folder("run");
        let mut spare = join(&sandbox);
        spare.wait_for("waits for a slot, as a spare: all 2 are filled");
        signal_to(launched.task("worker:1"), "KILL");
        wait_for_server_log(&run, "worker:2 takes over worker:1");
        // The restarted task finds its slot taken and becomes a spare.
        launched.wait_for("worker:1: waits for a slot, as a spare");
        launched.wait_for_more_steps();
        launched.signal("INT");
        let output = launched.finish_task();
        assert_eq!(output.code, Some(130), "{mode}: {output:?}");
        assert_eq!(spare.finish().code, Some(0), "{mode}");
        assert_eq!(names(&run.summary()), ["worker:0", "worker:2", "ps:0"], "{mode}");
    }
}

#[test]
fn a_spare_leaves_on_request_and_ends_with_the_run() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch("run", "async", &["cluster.slots=2", ENDLESS]);
    launched.wait_for_steps();
    let [mut first, mut second] = [join(&sandbox), join(&sandbox)];
    first.wait_for("waits for a slot");
    second.wait_for("waits for a slot");
    first.signal("TERM");
    assert_eq!(first.finish_task().code, Some(0));
    launched.signal("INT");
    assert_eq!(launched.finish_task().code, Some(130));
    assert_eq!(second.finish().code, Some(0));
}

#[test]
fn a_worker_that_cannot_join_reports_why() {
    let sandbox = Sandbox::new();
    let mut launched = running(&sandbox, "async", &[ENDLESS]);
    let text = std::fs::read(sandbox.path("run/join.json")).unwrap();
    let access: Value = serde_json::from_slice(&text).unwrap();
    let address = access["servers"][1].as_str().unwrap();
    let secret = sandbox.write_secret("wrong", "not the secret of this run");
    let refused = sandbox
        .fails(200, &["worker", "--join", address, "--token-file", secret.to_str().unwrap()]);
    assert_says(&refused, &["wrong token", address]);
    let unreachable = sandbox.fails(200, &["worker", "--join", "127.0.0.1:1"]);
    assert_says(&unreachable, &["127.0.0.1:1", "refused"]);
    let none = sandbox.fails(2, &["worker", "--join", sandbox.path("").to_str().unwrap()]);
    assert_says(&none, &["join.json"]);
    // Any server accepts the right token.
    let secret = sandbox.write_secret("right", access["token"].as_str().unwrap());
    let mut command =
        sandbox.command(&["worker", "--join", address, "--token-file", secret.to_str().unwrap()]);
    let mut joined = RunningProcess::start(&mut command, sandbox.path("run"));
    joined.wait_for("worker:2: has joined");
    launched.wait_for_more_steps();
    launched.signal("INT");
    assert_eq!(launched.finish_task().code, Some(130));
    assert_eq!(joined.finish().code, Some(0));
}
