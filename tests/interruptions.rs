//! Signals to runs of several tasks.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{
    ENDLESS, RunningProcess, Sandbox, assert_says, processes_of, python_json, signal_to, within,
};

/// Checks that an interrupted run of five tasks has a valid model and summary, and exited with
/// `expected`.
#[track_caller]
pub(crate) fn check_interrupted(sandbox: &Sandbox, mode: &str, code: Option<i32>, expected: i32) {
    assert_eq!(code, Some(expected), "{mode}");
    let run = sandbox.run_folder("run");
    let summary = run.summary();
    assert_eq!(summary["stop_reason"], "interrupted", "{mode}");
    assert_eq!(summary["tasks"].as_array().unwrap().len(), 5, "{mode}");
    assert!(summary["global_steps"].as_u64().unwrap() > 0);
    let model = run.file("model.safetensors");
    assert!(python_json("python/read_model.py", &[model.as_os_str()])["weight"].is_object());
    let again = sandbox.ok(&["evaluate", "run", "--json"]).stdout;
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["test_loss"], summary["test_loss"], "{mode}");
}

/// A mode, the signal that its tasks get, and the code that the run ends with.
const SIGNALS: [(&str, &str, i32); 4] =
    [("async", "INT", 130), ("sync", "INT", 130), ("bounded", "INT", 130), ("sync", "TERM", 143)];

#[test]
fn a_signal_to_the_launcher_ends_the_run_cleanly() {
    for (mode, name, code) in SIGNALS {
        let sandbox = Sandbox::new();
        let launched = sandbox.launch_five_tasks(mode, &[ENDLESS]);
        launched.signal(name);
        let output = launched.finish();
        assert_says(&output.stderr, &["error: interrupted by signal"]);
        assert_says(&output.stdout, &["stopped by   interrupted"]);
        check_interrupted(&sandbox, mode, output.code, code);
    }
}

#[test]
fn a_signal_to_all_tasks_at_once_ends_the_run_cleanly() {
    // As a terminal sends Ctrl-C, and a service manager SIGTERM.
    for (mode, name, code) in SIGNALS {
        let sandbox = Sandbox::new();
        let settings = ["cluster.workers=3", "cluster.servers=2", ENDLESS];
        let mut command = sandbox.cluster("run", mode, &settings);
        // In a process group of its own, as a shell starts a command.
        let mut launched = RunningProcess::start(command.process_group(0), sandbox.path("run"));
        launched.wait_for_steps();
        let kill = format!("kill -{name} -{}", launched.pid());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let output = launched.finish();
        check_interrupted(&sandbox, mode, output.code, code);
    }
}

#[test]
fn a_second_ctrl_c_ends_a_run_that_cannot_end_by_itself() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch_five_tasks("sync", &[ENDLESS]);
    // The coordinator can end nothing while it is stopped.
    let stopped = launched.task("worker:0");
    signal_to(stopped, "STOP");
    launched.signal("INT");
    launched.signal("INT");
    within(Duration::from_secs(5), "the launcher is gone", || launched.has_ended());
    signal_to(stopped, "CONT");
    within(Duration::from_secs(5), "all tasks are gone", || {
        processes_of(&sandbox.path("run")).is_empty()
    });
    assert_eq!(launched.finish().code, Some(130));
}

#[test]
fn a_run_that_is_interrupted_in_its_first_step_ends_well() {
    for mode in ["single", "sync"] {
        let sandbox = Sandbox::new();
        let large = ["model.kind=lenet", "data.train_examples=20000", "train.batch=8192", ENDLESS];
        let mut command = sandbox.cluster("run", mode, &large);
        // The first step takes many seconds, but each of its 64 blocks little time.
        command.env("PACELINE_TEST_SLOW", "0:10");
        let launched = RunningProcess::start(&mut command, sandbox.path("run"));
        let run = sandbox.run_folder("run");
        within(Duration::from_secs(60), "the loop has begun", || {
            run.log("worker:0").contains("examples (")
                && (mode == "single" || run.log("ps:0").contains("step 0 waits for worker:0"))
        });
        launched.signal("INT");
        let output = launched.finish_task();
        assert_eq!(output.code, Some(130), "{mode}: {output:?}");
        let says = ["after 0 steps", "train loss   none: no step was made"];
        assert!(says.iter().all(|text| output.stdout.contains(text)), "{mode}: {output:?}");
        sandbox.ok(&["report", "run"]);
    }
}
