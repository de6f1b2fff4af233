//! Workers that die and are started again: the run goes on, and what had been pushed counts once.

use std::time::Duration;

use crate::support::{ENDLESS, Launched, Room, SHARED, signal_to, wait_until, within};

const WAIT: &str = "cluster.on_worker_loss=wait";

/// A run of 3 workers and 2 servers that is making steps.
fn running(room: &Room, mode: &str, settings: &[&str]) -> Launched {
    let settings = [&["cluster.workers=3", "cluster.servers=2", WAIT], settings].concat();
    let mut launched = Launched::start(&mut room.cluster("run", mode, &settings), room.path("run"));
    launched.wait_for_steps();
    launched
}

/// Kills a task and waits until another process has taken its place.
fn kill(launched: &Launched, task: &str) {
    let before = launched.task(task);
    signal_to(before, "KILL");
    let said = |text: &str| launched.said().contains(text);
    assert!(wait_until(|| said(&format!("{task} is started again"))), "{}", launched.said());
}

#[test]
fn sync_ends_with_the_same_bits_however_often_workers_die() {
    let room = Room::new();
    let settings = ["train.stop.steps=6000", "train.optimizer.kind=momentum", "train.batch=20"];
    let launched = running(&room, "sync", &settings);
    for task in ["worker:1", "worker:0", "worker:2"] {
        kill(&launched, task);
    }
    let done = launched.finish();
    assert_eq!(done.code, Some(0), "{done:?}");
    let tasks = ["cluster.workers=3", "cluster.servers=2"];
    let other = room.train_cluster("other", "sync", &[&tasks[..], &settings].concat());
    let run = room.run_dir("run");
    assert_eq!(run.summary()["global_steps"], 6000);
    assert!(run.model() == other.model());
}

#[test]
fn sync_on_sparse_rows_ends_with_the_same_bits_though_a_worker_died() {
    let room = Room::new();
    let settings = [
        "model.kind=logistic",
        "data.features=5000",
        "train.optimizer.kind=adagrad",
        "train.stop.steps=6000",
    ];
    let launched = running(&room, "sync", &settings);
    for task in ["worker:1", "worker:0"] {
        kill(&launched, task);
    }
    let done = launched.finish();
    assert_eq!(done.code, Some(0), "{done:?}");
    let tasks = ["cluster.workers=3", "cluster.servers=2"];
    let other = room.train_cluster("other", "sync", &[&tasks[..], &settings].concat());
    assert!(room.run_dir("run").model() == other.model());
}

#[test]
fn the_others_go_on_meanwhile_and_the_newcomer_takes_its_place() {
    for mode in ["async", "bounded"] {
        let room = Room::new();
        let mut launched = running(&room, mode, &[ENDLESS]);
        kill(&launched, "worker:1");
        let run = room.run_dir("run");
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
    for mode in SHARED {
        let room = Room::new();
        let launched = running(&room, mode, &[ENDLESS, "cluster.restarts=1"]);
        kill(&launched, "worker:2");
        signal_to(launched.task("worker:2"), "KILL");
        let done = launched.finish();
        assert!(done.code.unwrap() >= 128, "{mode}: {done:?}");
        let last = done.stderr.lines().last().unwrap();
        assert_eq!(last, "error: the run failed: worker:2 was killed by signal 9", "{mode}");
    }
}
