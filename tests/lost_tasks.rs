//! Tasks that are killed, and launchers: the run ends or continues as the job says, no process is
//! left, and the error names the task that was lost.

use std::time::{Duration, Instant};

use crate::support::{
    ENDLESS, SHARED_MODES, Sandbox, assert_says, first_error, processes_of, signal_to,
    task_process, wait_until, within,
};

#[test]
fn a_killed_worker_ends_the_run_and_is_named() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        let launched = sandbox.launch_five_tasks(mode, &[ENDLESS]);
        signal_to(launched.task("worker:1"), "KILL");
        let started = Instant::now();
        let output = launched.finish();
        assert!(started.elapsed() < Duration::from_secs(15), "{mode}: {:?}", started.elapsed());
        assert!(output.code.unwrap() >= 128, "{mode}: worth a retry: {output:?}");
        // The first line of the error names the cause, and the next ones what followed from it.
        let cause = "error: the run failed: worker:1 was killed by signal 9";
        assert_eq!(first_error(&output.stderr), cause, "{mode}");
        let consequence = output.stderr.split_once(cause).unwrap().1;
        assert_says(consequence, &["\n  then ", "worker:1 was lost"]);
        assert!(!sandbox.path("run/summary.json").exists(), "{mode}: a failed run has a summary");
    }
}

#[test]
fn a_killed_coordinator_ends_the_run_even_if_other_workers_may_be_lost() {
    let sandbox = Sandbox::new();
    let launched =
        sandbox.launch_five_tasks("async", &[ENDLESS, "cluster.on_worker_loss=continue"]);
    signal_to(launched.task("worker:0"), "KILL");
    let output = launched.finish();
    assert!(output.code.unwrap() >= 128, "{output:?}");
    assert_says(&output.stderr, &["error: ", "worker:0"]);
}

#[test]
fn a_run_continues_without_a_killed_worker_if_allowed() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        let more = ["cluster.on_worker_loss=continue", "train.stop={seconds=0.7}"];
        let launched = sandbox.launch_five_tasks(mode, &more);
        signal_to(launched.task("worker:1"), "KILL");
        let output = launched.finish();
        assert_eq!(output.code, Some(0), "{mode}: {output:?}");
        assert_says(&output.stderr, &["worker:1 was lost", "the run continues without it"]);
        let summary = sandbox.run_folder("run").summary();
        assert_eq!(summary["stop_reason"], "seconds", "{mode}");
        let tasks = summary["tasks"].as_array().unwrap();
        let names: Vec<_> = tasks.iter().map(|task| task["task"].as_str().unwrap()).collect();
        assert_eq!(names, ["worker:0", "worker:2", "ps:0", "ps:1"], "{mode}");
        let seconds = summary["seconds"].as_f64().unwrap();
        assert!(seconds < 5.0, "{mode}: the run waited for the worker: {seconds} s");
    }
}

#[test]
fn a_killed_server_ends_the_run_and_is_named() {
    for mode in SHARED_MODES {
        for server in ["ps:0", "ps:1"] {
            let sandbox = Sandbox::new();
            let launched =
                sandbox.launch_five_tasks(mode, &[ENDLESS, "cluster.on_worker_loss=continue"]);
            signal_to(launched.task(server), "KILL");
            let started = Instant::now();
            let output = launched.finish();
            assert!(started.elapsed() < Duration::from_secs(15), "{mode}: {:?}", started.elapsed());
            assert!(output.code.unwrap() >= 128, "{mode}: {output:?}");
            let cause = format!("error: the run failed: {server} was killed by signal 9");
            assert_eq!(first_error(&output.stderr), cause);
        }
    }
}

#[test]
fn a_task_that_dies_before_the_start_ends_the_run() {
    let sandbox = Sandbox::new();
    let settings = ["cluster.workers=3", "data.train_examples=60000", ENDLESS];
    let launched = sandbox.launch("run", "sync", &settings);
    // Generating the digits takes a while, so the worker is killed before it has connected.
    let worker = || task_process(&sandbox.path("run"), "worker:2");
    assert!(wait_until(|| worker().is_some()));
    signal_to(launched.task("worker:2"), "KILL");
    let started = Instant::now();
    let output = launched.finish();
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert!(output.code.unwrap() >= 128, "{output:?}");
    assert_says(&output.stderr, &["error: ", "worker:2"]);
}

#[test]
fn tasks_end_when_their_launcher_is_killed() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        let launched = sandbox.launch_five_tasks(mode, &[ENDLESS]);
        assert_eq!(processes_of(&sandbox.path("run")).len(), 6, "five tasks and their launcher");
        launched.signal("KILL");
        within(Duration::from_secs(5), "all tasks are gone", || {
            processes_of(&sandbox.path("run")).is_empty()
        });
        assert_eq!(launched.finish().code, None, "killed");
    }
}

#[test]
fn tasks_end_when_their_launcher_is_killed_before_the_start() {
    let sandbox = Sandbox::new();
    let settings = ["cluster.workers=3", "data.train_examples=60000", ENDLESS];
    let launched = sandbox.launch("run", "sync", &settings);
    let run = sandbox.path("run");
    assert!(wait_until(|| processes_of(&run).len() == 5));
    launched.signal("KILL");
    within(Duration::from_secs(5), "all tasks are gone", || processes_of(&run).is_empty());
}
