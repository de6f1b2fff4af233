//! Workers that are stopped for a while: the others wait as their mode says, and report it.

use std::time::{Duration, Instant};

use crate::support::{ENDLESS, Sandbox, assert_says, signal_to, wait_until, within};

#[test]
fn async_continues_while_a_worker_is_stopped_for_five_seconds() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch_five_tasks("async", &["train.stop={seconds=7}"]);
    let worker = launched.task("worker:1");
    signal_to(worker, "STOP");
    let started = Instant::now();
    launched.wait_for_more_steps();
    launched.wait_for_more_steps();
    within(Duration::from_secs(5), "5 s", || started.elapsed() > Duration::from_secs(5));
    signal_to(worker, "CONT");
    let output = launched.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(!output.stderr.contains("waits for"), "a task waited: {output:?}");
    let run = sandbox.run_folder("run");
    let steps = |task| run.task(task)["steps"].as_u64().unwrap();
    assert!(steps("worker:0") > steps("worker:1"), "the stopped worker made fewer steps");
}

/// Checks that no step is made while a worker is stopped for this long, that the coordinator
/// reports what it waits for, and that the run succeeds after the worker continues.
fn check_waits(mode: &str, settings: &[&str], stopped: Duration) {
    let sandbox = Sandbox::new();
    let stop = format!("train.stop={{seconds={}}}", stopped.as_secs_f64() + 0.5);
    let mut launched = sandbox.launch_five_tasks(mode, &[settings, &[&stop]].concat());
    let run = sandbox.run_folder("run");
    let worker = launched.task("worker:1");
    signal_to(worker, "STOP");
    let started = Instant::now();
    launched.wait_for("\nworker:0: step ");
    // A thread of its own writes the log.
    let is_logged = wait_until(|| run.log("worker:0").contains(" waits for worker:1 ("));
    assert!(is_logged, "{}", run.log("worker:0"));
    let still = (run.event_bytes("worker:0"), launched.last_step());
    within(2 * stopped, "the time to be stopped", || started.elapsed() > stopped);
    let then = (run.event_bytes("worker:0"), launched.last_step());
    assert_eq!(then, still, "{mode}: steps were made without worker:1");
    signal_to(worker, "CONT");
    let output = launched.finish();
    assert_eq!(output.code, Some(0), "{mode}: {output:?}");
    assert_eq!(run.summary()["stop_reason"], "seconds");
    // The worker may have been stopped after its push to one of the servers.
    assert_says(&(run.log("ps:0") + &run.log("ps:1")), &["waits for worker:1"]);
}

#[test]
fn sync_waits_for_a_stopped_worker_and_reports_it() {
    check_waits("sync", &[], Duration::from_secs(2));
}

#[test]
fn bounded_waits_for_a_stopped_worker_and_reports_it() {
    check_waits("bounded", &["cluster.staleness=1"], Duration::from_secs(2));
}

#[test]
fn a_stall_of_five_seconds_is_no_failure() {
    check_waits("sync", &[], Duration::from_secs(5));
}

#[test]
fn a_stall_beyond_the_limit_ends_the_run_and_names_the_worker() {
    let sandbox = Sandbox::new();
    let launched = sandbox.launch_five_tasks("sync", &[ENDLESS, "cluster.stall_timeout_s=2"]);
    let worker = launched.task("worker:1");
    signal_to(worker, "STOP");
    let started = Instant::now();
    let output = launched.finish();
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert!(output.code.unwrap() >= 128, "{output:?}");
    assert_says(&output.stderr, &["error: step ", "waits for worker:1"]);
}

#[test]
fn a_stopped_backup_delays_no_step() {
    let sandbox = Sandbox::new();
    let settings = ["cluster.workers=3", "cluster.quorum=2", "train.stop={seconds=3}"];
    let mut launched = sandbox.launch("run", "sync", &settings);
    launched.wait_for_steps();
    let worker = launched.task("worker:2");
    signal_to(worker, "STOP");
    launched.wait_for_more_steps();
    signal_to(worker, "CONT");
    let output = launched.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
}
