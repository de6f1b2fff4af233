//! Signals to runs whose steps take long: AlexNet in each mode ends in time, in the middle of a
//! step, and keeps the parameters of the last step that was complete.

use std::time::{Duration, Instant};

use crate::support::{ENDLESS, RunningProcess, Sandbox, assert_says, processes_of, within};

/// How long a run may take to end: two seconds, and more because the program of the tests is not
/// fully optimised and writes a model of 228 MB.
const LIMIT: Duration = Duration::from_secs(5);

/// AlexNet for small pictures.
const LARGE: [&str; 8] = [
    "model.kind=alexnet",
    "data.kind=fake-images",
    "data.size=64",
    "data.train_examples=256",
    "data.test_examples=8",
    "train.evaluate.every=1000",
    "train.batch=32",
    "cluster.workers=2",
];

/// Starts a run at full speed, and waits until it makes steps.
fn launch(sandbox: &Sandbox, mode: &str, settings: &[&str]) -> RunningProcess {
    let mut command = sandbox.cluster("run", mode, settings);
    command.env_remove("PACELINE_TEST_SLOW");
    let mut launched = RunningProcess::start(&mut command, sandbox.path("run"));
    launched.wait_for_steps();
    launched
}

/// Interrupts a run after its first steps. Returns the number of whole steps it has made.
fn interrupt(sandbox: &Sandbox, mode: &str, settings: &[&str], tasks: usize) -> u64 {
    let settings = [&LARGE[..], settings, &[ENDLESS]].concat();
    let mut launched = launch(sandbox, mode, &settings);
    let begun = Instant::now();
    launched.signal("INT");
    within(Duration::from_secs(60), "the end after a signal", || launched.has_ended());
    let took = begun.elapsed();
    let output = launched.finish();
    assert!(took < LIMIT, "{mode}: {took:?}: {output:?}");
    assert_eq!(output.code, Some(130), "{mode}: {output:?}");
    assert_says(&output.stdout, &["stopped by   interrupted after "]);
    let summary = sandbox.run_folder("run").summary();
    assert_eq!(summary["stop_reason"], "interrupted", "{mode}");
    assert_eq!(summary["tasks"].as_array().unwrap().len(), tasks, "{mode}: {output:?}");
    within(Duration::from_secs(5), "all tasks are gone", || {
        processes_of(&sandbox.path("run")).is_empty()
    });
    summary["global_steps"].as_u64().unwrap()
}

/// Checks that an interrupted run has saved what a run of `steps` steps saves.
fn check_bits(sandbox: &Sandbox, mode: &str, settings: &[&str], steps: u64) {
    let stop = format!("train.stop={{steps={steps}}}");
    let settings = [&LARGE[..], settings, &[&stop]].concat();
    let whole = sandbox.train_cluster("whole", mode, &settings);
    assert!(sandbox.run_folder("run").model() == whole.model(), "{mode}: {steps} steps differ");
}

#[test]
fn alexnet_in_mirrored_ends_in_the_middle_of_a_step_with_the_bits_of_the_last_whole_one() {
    // With factors every worker makes the updates itself; without, each makes those of its shard.
    for factors in ["cluster.factors=auto", "cluster.factors=never"] {
        let sandbox = Sandbox::new();
        let steps = interrupt(&sandbox, "mirrored", &[factors], 2);
        check_bits(&sandbox, "mirrored", &[factors], steps);
    }
}

#[test]
fn alexnet_in_sync_ends_in_the_middle_of_a_step_with_the_bits_of_the_last_whole_one() {
    let sandbox = Sandbox::new();
    let servers = ["cluster.servers=2"];
    let steps = interrupt(&sandbox, "sync", &servers, 4);
    check_bits(&sandbox, "sync", &servers, steps);
}

#[test]
fn alexnet_in_async_and_bounded_ends_in_the_middle_of_a_step() {
    for mode in ["async", "bounded"] {
        let sandbox = Sandbox::new();
        interrupt(&sandbox, mode, &["cluster.servers=1"], 3);
        assert!(sandbox.path("run/model.safetensors").exists());
    }
}

#[test]
fn a_large_batch_of_a_small_network_is_given_up_by_every_worker() {
    // Long steps, in many blocks, that are pushed at once when they are computed.
    for mode in ["mirrored", "sync"] {
        let sandbox = Sandbox::new();
        let settings =
            ["model.kind=lenet", "train.batch=10000", "data.train_examples=20000", ENDLESS];
        let settings = [&settings[..], &["cluster.workers=2"]].concat();
        let mut launched = launch(&sandbox, mode, &settings);
        let run = sandbox.run_folder("run");
        let begun = Instant::now();
        launched.signal("TERM");
        within(Duration::from_secs(60), "the end after a signal", || launched.has_ended());
        let (took, output) = (begun.elapsed(), launched.finish());
        assert!(took < LIMIT, "{mode}: {took:?}: {output:?}");
        assert_eq!(output.code, Some(143), "{mode}: {output:?}");
        let tasks = if mode == "sync" { 3 } else { 2 };
        let summary = run.summary();
        assert_eq!(summary["tasks"].as_array().unwrap().len(), tasks, "{mode}: {output:?}");
        assert!(run.file("model.safetensors").exists());
    }
}
