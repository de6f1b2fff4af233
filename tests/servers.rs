//! Servers that die and are restarted: the run continues from the newest complete checkpoint, or
//! from its beginning.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::{
    ENDLESS, LossyRun, RunFolder, RunningProcess, SECRET, SHARED_MODES, SMALL_DATA, Sandbox,
    assert_says, cluster_of, free_ports, signal_to, tf_config, wait_until, within,
};

const TASKS: [&str; 2] = ["cluster.workers=2", "cluster.servers=2"];

/// Starts a run of 2 workers and 2 servers, and waits until it makes steps.
fn running(sandbox: &Sandbox, mode: &str, settings: &[&str]) -> RunningProcess {
    let settings = [&TASKS[..], settings].concat();
    let mut launched = sandbox.launch("run", mode, &settings);
    launched.wait_for_steps();
    launched
}

/// The directories of the complete checkpoints, the oldest first.
fn checkpoints(sandbox: &Sandbox) -> Vec<PathBuf> {
    let entries = fs::read_dir(sandbox.path("run/checkpoints")).into_iter().flatten().flatten();
    let places = entries.map(|entry| entry.path());
    let is_one = |place: &PathBuf| place.extension().is_none();
    let mut complete: Vec<_> =
        places.filter(|place| is_one(place) && place.join("manifest.json").exists()).collect();
    complete.sort();
    complete
}

/// Checks that a `sync` run of 600 steps ends like an undisturbed one after these servers died.
/// Returns what it printed and left.
fn check_equal_bits(sandbox: &Sandbox, more: &[&str], killed: &[&str]) -> (String, RunFolder) {
    let same = ["train.stop.steps=600", "train.optimizer.kind=momentum", "train.batch=20"];
    let same = [&TASKS[..], &same].concat();
    let run = LossyRun { mode: "sync", slowdown: 100, settings: &same, recovery: more, killed };
    let (stderr, run) = run.ends_with_the_same_bits(sandbox);
    assert_eq!(run.summary()["global_steps"], 600);
    (stderr, run)
}

#[test]
fn sync_ends_with_the_same_bits_when_every_server_dies() {
    let sandbox = Sandbox::new();
    check_equal_bits(&sandbox, &["checkpoint.every_steps=30"], &["ps:1", "ps:0", "ps:0"]);
}

#[test]
fn without_checkpoints_the_run_starts_again_from_its_beginning() {
    let sandbox = Sandbox::new();
    let (printed, run) = check_equal_bits(&sandbox, &["cluster.on_server_loss=wait"], &["ps:1"]);
    assert_says(&printed, &["ps:0: the run goes back to its beginning", "lost"]);
    assert!(run.summary()["lost_pushes"].as_u64().unwrap() > 0);
}

#[test]
fn pushes_lost_with_a_server_are_counted_and_every_other_push_is_applied_once() {
    for mode in ["async", "bounded"] {
        let sandbox = Sandbox::new();
        let mut launched = running(&sandbox, mode, &[ENDLESS, "checkpoint.every_steps=100"]);
        assert!(wait_until(|| !checkpoints(&sandbox).is_empty()), "{}", launched.stderr());
        launched.kill_and_wait_for_restart("ps:0");
        launched.wait_for("ps:1: the run goes back to the checkpoint of step ");
        let run = sandbox.run_folder("run");
        let logged = || run.log("ps:0").matches("all workers are connected").count() > 1;
        within(Duration::from_secs(30), "all workers are back", logged);
        launched.wait_for_more_steps();
        launched.signal("INT");
        let output = launched.finish();
        assert_eq!(output.code, Some(130), "{mode}: {output:?}");
        let summary = run.summary();
        for server in ["ps:0", "ps:1"] {
            assert_eq!(run.task(server)["steps"], summary["global_steps"], "{mode}: {server}");
        }
        let lost = |task: &str| run.task(task)["lost"].as_u64().unwrap();
        let lost_pushes = summary["lost_pushes"].as_u64().unwrap();
        assert_eq!(lost_pushes, lost("worker:0") + lost("worker:1"), "{mode}");
    }
}

#[test]
fn a_server_skips_a_damaged_checkpoint_and_restores_the_one_before() {
    let sandbox = Sandbox::new();
    let settings = [ENDLESS, "checkpoint.every_steps=50", "checkpoint.keep=5"];
    let mut launched = running(&sandbox, "sync", &settings);
    assert!(wait_until(|| checkpoints(&sandbox).len() > 2), "{}", launched.stderr());
    // A stopped coordinator requests no further checkpoint.
    let server = launched.task("ps:1");
    signal_to(server, "STOP");
    let newest = checkpoints(&sandbox).pop().unwrap();
    let file = newest.join("ps-0.safetensors");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    signal_to(server, "KILL");
    launched.wait_for("ps:1: skipped the checkpoint of step ");
    launched.wait_for("ps:0: the run goes back to the checkpoint of step ");
    launched.wait_for_more_steps();
    launched.signal("INT");
    assert_eq!(launched.finish().code, Some(130));
    assert!(fs::exists(newest.with_extension("aside-1")).unwrap(), "what is damaged is kept");
}

#[test]
fn a_stopped_server_is_waited_for_and_named() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        let mut launched = running(&sandbox, mode, &[ENDLESS]);
        let server = launched.task("ps:1");
        signal_to(server, "STOP");
        launched.wait_for("worker:0: waiting for ps:1 (1 s)");
        signal_to(server, "CONT");
        launched.wait_for_more_steps();
        launched.signal("INT");
        assert_eq!(launched.finish().code, Some(130), "{mode}");
    }
}

#[test]
fn a_server_that_does_not_come_back_in_time_ends_the_run_and_is_named() {
    let sandbox = Sandbox::new();
    let [port] = free_ports();
    let cluster = cluster_of(1, &[port]);
    let start = |role: &str| {
        let run = sandbox.path("run");
        let mut command = sandbox.command(&["train", "--run-dir", run.to_str().unwrap()]);
        let settings = [ENDLESS, "cluster.on_server_loss=wait", "cluster.rejoin_timeout_s=2"];
        for setting in SMALL_DATA.into_iter().chain(settings) {
            command.args(["--set", setting]);
        }
        command.env("TF_CONFIG", tf_config(&cluster, role, 0)).env("PACELINE_TOKEN", SECRET);
        RunningProcess::start(&mut command, run)
    };
    let (server, mut worker) = (start("ps"), start("worker"));
    worker.wait_for_steps();
    server.signal("KILL");
    drop(server.finish_task());
    worker.wait_for("waiting for ps:0 to come back (lost: ");
    let output = worker.finish_task();
    assert!(output.code.unwrap() >= 128, "worth a retry: {output:?}");
    assert_says(&output.stderr, &["error: lost ps:0", "it has not come back"]);
}
