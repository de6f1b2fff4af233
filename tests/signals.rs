//! Signals to single tasks: each ends within two seconds, whatever it does or waits for, and says
//! what that was.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    ENDLESS, ManualRun, ProcessOutput, RunningProcess, Sandbox, assert_says, cluster_of,
    first_error, free_ports, processes_of, within,
};

/// How long a task may take to end. The machine may be busy with other tests.
const LIMIT: Duration = Duration::from_secs(3);

/// Sends a signal to a task, which must end in time with this code.
#[track_caller]
fn interrupt(mut task: RunningProcess, signal: &str, code: i32) -> ProcessOutput {
    let begun = Instant::now();
    task.signal(signal);
    within(Duration::from_secs(20), "the end after a signal", || task.has_ended());
    let took = begun.elapsed();
    let output = task.finish_task();
    assert!(took < LIMIT, "{signal}: {took:?}: {output:?}");
    assert_eq!(output.code, Some(code), "{output:?}");
    output
}

fn addresses<const N: usize>() -> [String; N] {
    free_ports::<N>().map(|port| format!("127.0.0.1:{port}"))
}

#[test]
fn a_server_that_waits_for_workers_says_so_and_ends_at_a_signal() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let [port] = free_ports();
        let manual_run = ManualRun::new(cluster_of(2, &[port]), &["cluster.mode=sync"]);
        let mut server = manual_run.start("ps", 0);
        server.wait_for("ps:0: waiting for worker:0, worker:1 (1 s of 60 s)");
        let output = interrupt(server, signal, code);
        assert_says(first_error(&output.stderr), &["while waiting for worker:0, worker:1"]);
    }
}

#[test]
fn a_worker_that_waits_for_servers_says_so_and_ends_at_a_signal() {
    let [first, second] = free_ports();
    for index in [0, 1] {
        let manual_run = ManualRun::new(cluster_of(2, &[first, second]), &["cluster.mode=sync"]);
        let mut worker = manual_run.start("worker", index);
        let named = format!("worker:{index}: waiting for ps:0 at 127.0.0.1:{first}, refused");
        worker.wait_for(&named);
        assert_says(&worker.stderr(), &["(1 s of 60 s)"]);
        let output = interrupt(worker, "INT", 130);
        assert_says(
            first_error(&output.stderr),
            &["interrupted by signal 2 while waiting for ps:0"],
        );
    }
}

#[test]
fn a_mirrored_worker_that_waits_for_others_says_so_and_ends_at_a_signal() {
    let at = addresses::<3>();
    for index in [0, 2] {
        let manual_run = ManualRun::new(json!({"worker": at}), &["cluster.mode=mirrored"]);
        let mut worker = manual_run.start("worker", index);
        worker.wait_for(&format!("worker:{} at {}", 2 - index, at[2 - index]));
        assert!(!worker.stderr().contains(&format!("worker:{index} at")), "{}", worker.stderr());
        let output = interrupt(worker, "TERM", 143);
        assert_says(first_error(&output.stderr), &["interrupted by signal 15 while waiting for"]);
    }
}

#[test]
fn an_evaluator_that_waits_for_servers_says_so_and_ends_at_a_signal() {
    let [port] = free_ports();
    let mut cluster = cluster_of(1, &[port]);
    cluster["evaluator"] = json!(["127.0.0.1:0"]);
    let manual_run = ManualRun::new(cluster, &["cluster.mode=sync"]);
    let mut evaluator = manual_run.start("evaluator", 0);
    evaluator.wait_for(&format!("evaluator:0: waiting for ps:0 at 127.0.0.1:{port}"));
    interrupt(evaluator, "INT", 130);
}

#[test]
fn a_worker_that_asks_a_silent_server_for_its_run_ends_at_a_signal() {
    // The connection is accepted by the system, but nothing answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["worker", "--join", &address]);
    let worker = RunningProcess::start(&mut command, sandbox.path("run"));
    let _open = silent.accept().unwrap();
    let output = interrupt(worker, "INT", 130);
    assert_says(first_error(&output.stderr), &["waiting for the server at ", &address]);
}

#[test]
fn a_server_that_waits_for_a_lock_ends_at_a_signal() {
    let [port] = free_ports();
    let manual_run = ManualRun::new(cluster_of(1, &[port]), &["cluster.mode=sync"]);
    let run = manual_run.run();
    fs::create_dir_all(&run.path).unwrap();
    let lock = File::create(run.file("generation.lock")).unwrap();
    lock.lock().unwrap();
    let server = manual_run.start("ps", 0);
    let log = run.file("ps_0/log.txt");
    within(Duration::from_secs(20), "the server has started", || log.exists());
    interrupt(server, "TERM", 143);
}

#[test]
fn a_server_of_a_run_under_way_ends_at_a_signal() {
    let [port] = free_ports();
    let manual_run = ManualRun::new(cluster_of(1, &[port]), &["cluster.mode=sync", ENDLESS]);
    let (server, mut worker) = (manual_run.start("ps", 0), manual_run.start("worker", 0));
    worker.wait_for_steps();
    let output = interrupt(server, "TERM", 143);
    assert_says(first_error(&output.stderr), &["before the end of the run"]);
    assert!(worker.finish_task().code.unwrap() >= 128);
}

#[test]
fn all_tasks_of_a_run_started_by_hand_end_well_at_a_common_signal() {
    let [port] = free_ports();
    let manual_run = ManualRun::new(cluster_of(2, &[port]), &["cluster.mode=sync", ENDLESS]);
    let server = manual_run.start("ps", 0);
    let worker = manual_run.start("worker", 1);
    let mut coordinator = manual_run.start("worker", 0);
    coordinator.wait_for_steps();
    [&server, &worker, &coordinator].iter().for_each(|task| task.signal("INT"));
    let output = coordinator.finish_task();
    assert_eq!(output.code, Some(130), "{output:?}");
    assert_eq!(manual_run.run().summary()["stop_reason"], "interrupted");
    for task in [server, worker] {
        let output = task.finish_task();
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}

/// A run in one process whose steps and tests are slow: LeNet on many digits.
fn slow_run(sandbox: &Sandbox, settings: &[&str], slowdown: &str) -> RunningProcess {
    let run = sandbox.path("run");
    let mut command = sandbox.command(&["train", "--run-dir", run.to_str().unwrap()]);
    let common = ["cluster.mode=single", "model.kind=lenet", "data.train_examples=10000"];
    command.args(common.iter().chain(settings).flat_map(|setting| ["--set", setting]));
    command.env("PACELINE_TEST_SLOW", slowdown);
    RunningProcess::start(&mut command, run)
}

#[test]
fn a_long_test_shows_how_far_it_got_and_ends_at_a_signal() {
    let sandbox = Sandbox::new();
    let settings = [
        "data.test_examples=200000",
        "train.stop={steps=2}",
        "train.batch=16",
        "train.evaluate.every=1000",
    ];
    let mut training = slow_run(&sandbox, &settings, "");
    training.wait_for("\ntesting ");
    let output = interrupt(training, "INT", 130);
    assert_says(&output.stdout, &["test         skipped because the run was interrupted"]);
    let summary = sandbox.run_folder("run").summary();
    assert!(summary.get("test_loss").is_none(), "{summary}");
    assert!(sandbox.path("run/model.safetensors").exists());
    assert!(output.stderr.lines().count() < 12, "{output:?}");
}

#[test]
fn a_long_step_is_abandoned_at_a_signal_and_the_model_is_kept() {
    let sandbox = Sandbox::new();
    // The second step takes minutes: each of its 64 blocks is slowed down.
    let settings = ["data.test_examples=100", "train.batch=8192", ENDLESS];
    let mut training = slow_run(&sandbox, &settings, "0:4");
    training.wait_for("examples (");
    let run = sandbox.run_folder("run");
    within(Duration::from_secs(60), "the loop has begun", || {
        run.log("worker:0").contains("examples (")
    });
    let output = interrupt(training, "INT", 130);
    assert_says(&output.stdout, &["stopped by   interrupted after "]);
    assert!(sandbox.path("run/model.safetensors").exists(), "{output:?}");
}

#[test]
fn a_run_that_waits_for_a_stopped_worker_ends_at_a_signal() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch_five_tasks("sync", &[ENDLESS]);
    let stopped = launched.task("worker:1");
    crate::support::signal_to(stopped, "STOP");
    launched.wait_for("waits for worker:1");
    let output = interrupt(launched, "INT", 130);
    assert_says(first_error(&output.stderr), &["interrupted by signal 2", "did not end in time"]);
    within(Duration::from_secs(5), "all tasks are gone", || {
        processes_of(&sandbox.path("run")).is_empty()
    });
}

#[test]
fn quiet_prints_the_run_path_and_nothing_else() {
    let sandbox = Sandbox::new();
    for mode in ["single", "sync"] {
        let output = sandbox
            .cluster(mode, mode, &["train.stop={steps=20}"])
            .arg("--quiet")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let path = sandbox.path(mode);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", path.display()));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn the_file_for_joining_goes_with_a_killed_launcher_and_a_stale_one_is_reported() {
    let sandbox = Sandbox::new();
    let launched = sandbox.launch_five_tasks("async", &[ENDLESS]);
    let file = sandbox.path("run/join.json");
    let text = fs::read(&file).unwrap();
    launched.signal("KILL");
    within(Duration::from_secs(5), "the file is removed", || !file.exists());
    within(Duration::from_secs(5), "all tasks are gone", || {
        processes_of(&sandbox.path("run")).is_empty()
    });
    // If all processes are killed at once, none can remove the file.
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let why = sandbox.fails(2, &["worker", "--join", "run"]);
    assert_says(
        &why,
        &["join.json is left from a run that has ended: lost the server (127.0.0.1:"],
    );
}

#[test]
fn one_is_singular() {
    let sandbox = Sandbox::new();
    let output = sandbox.ok(&[
        "train",
        "--run-dir",
        "run",
        "--set",
        "cluster.mode=single",
        "--set",
        "train.batch=1",
        "--set",
        "train.stop={steps=1}",
        "--set",
        "data.train_examples=600",
        "--set",
        "data.test_examples=1",
    ]);
    assert_says(&output.stdout, &["steps after 1 step, 1 example, "]);
    assert_says(&sandbox.ok(&["evaluate", "run"]).stdout, &[" of 1 example ("]);
    let args = ["explain", "--set", "cluster.mode=async", "--set", "cluster.workers=1"];
    assert_says(&sandbox.ok(&args).stdout, &["# tasks: 1 worker and 1 server, which"]);
    let summary: Value = sandbox.run_folder("run").summary();
    assert_eq!(summary["global_steps"], 1);
}
