//! Mode `mirrored` when workers are lost: the other workers keep their replicas, a new process gets
//! the state from one of them, and the run ends with the bits of an undisturbed run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::proxy::Proxy;
use crate::support::{
    ENDLESS, ManualRun, RunFolder, RunningProcess, Sandbox, assert_says, first_error, free_ports,
    processes_of, signal_to, tf_config, wait_until,
};

const WAIT: &str = "cluster.on_worker_loss=wait";

/// Makes steps last long enough that a run of some hundred is there to be disturbed.
const SLOW: [(&str, &str); 1] = [("PACELINE_TEST_SLOW", "*:100")];

/// A mirrored run that is making steps.
fn running(sandbox: &Sandbox, settings: &[&str]) -> RunningProcess {
    let mut command = sandbox.cluster("run", "mirrored", &[&[WAIT], settings].concat());
    let mut launched = RunningProcess::start(command.envs(SLOW), sandbox.path("run"));
    launched.wait_for_steps();
    launched
}

/// Checks that the run succeeds and ends like an undisturbed run with the same settings.
fn check_end(sandbox: &Sandbox, launched: RunningProcess, settings: &[&str]) -> RunFolder {
    let output = launched.finish();
    assert_eq!(output.code, Some(0), "{settings:?}: {output:?}");
    let undisturbed = sandbox.train_cluster("undisturbed", "mirrored", settings);
    let run = sandbox.run_folder("run");
    assert!(run.model() == undisturbed.model(), "{settings:?}: the bytes differ");
    for figure in ["global_steps", "stop_reason"] {
        assert_eq!(run.summary()[figure], undisturbed.summary()[figure], "{settings:?}: {figure}");
    }
    let tasks = run.summary()["tasks"].as_array().unwrap().len();
    assert_eq!(
        tasks,
        undisturbed.summary()["tasks"].as_array().unwrap().len(),
        "all have reported"
    );
    run
}

#[test]
fn mirrored_ends_with_the_same_bits_whichever_worker_is_killed() {
    for (kind, workers, killed) in [
        ("sgd", "2", &["worker:1"][..]),
        ("sgd", "3", &["worker:0"]),
        ("momentum", "3", &["worker:2", "worker:0", "worker:2"]),
    ] {
        let sandbox = Sandbox::new();
        let (kind, workers) =
            (format!("train.optimizer.kind={kind}"), format!("cluster.workers={workers}"));
        let settings = [&*kind, &*workers, "train.stop.steps=600"];
        let launched = running(&sandbox, &settings);
        killed.iter().for_each(|task| launched.kill_and_wait_for_restart(task));
        check_end(&sandbox, launched, &settings);
    }
}

#[test]
fn a_sparse_model_ends_with_the_same_bits_whichever_mirrored_worker_is_killed() {
    let sandbox = Sandbox::new();
    let model = ["model.kind=deepfm", "model.rank=2", "data.features=5000", "model.min_count=2"];
    let more = ["model.evict_after=50", "cluster.workers=3", "train.stop.steps=2000"];
    let settings = [&model[..], &more].concat();
    // Steps of this model take longer than those of others, so a small factor is enough.
    let launched = sandbox.launch_slow("mirrored", 10, &[&[WAIT], &settings[..]].concat());
    ["worker:2", "worker:0"].iter().for_each(|task| launched.kill_and_wait_for_restart(task));
    check_end(&sandbox, launched, &settings);
}

#[test]
fn mirrored_ends_with_the_same_bits_when_all_workers_are_killed_at_once() {
    // With a checkpoint the run continues from there, without one it starts again.
    for checkpoints in [false, true] {
        let sandbox = Sandbox::new();
        let mut settings =
            vec!["train.stop.steps=600", "train.optimizer.kind=momentum", "cluster.workers=3"];
        if checkpoints {
            settings.push("checkpoint.every_steps=50");
        }
        let launched = running(&sandbox, &settings);
        let complete = sandbox.path("run/checkpoints/step-000000000050/manifest.json");
        assert!(wait_until(|| !checkpoints || complete.exists()), "{}", launched.stderr());
        let tasks = ["worker:0", "worker:1", "worker:2"].map(|task| launched.task(task));
        tasks.into_iter().for_each(|pid| signal_to(pid, "KILL"));
        let run = check_end(&sandbox, launched, &settings);
        if checkpoints {
            sandbox.ok(&["checkpoint", "verify", run.str()]);
            let steps = run.task("worker:1")["steps"].as_u64().unwrap();
            assert!(steps <= 550, "{steps} steps of worker:1: the checkpoint was not used");
        }
    }
}

#[test]
fn an_epoch_of_mirrored_ends_with_the_same_bits_when_workers_are_killed() {
    // The last step has 20 examples for one worker, 1 for another and none for the third.
    let sandbox = Sandbox::new();
    let settings = ["train.batch=20", "cluster.workers=3", "train.stop.epochs=50"];
    let settings = [&settings[..], &["data.train_examples=607"]].concat();
    let launched = running(&sandbox, &settings);
    launched.kill_and_wait_for_restart("worker:1");
    launched.kill_and_wait_for_restart("worker:0");
    let run = check_end(&sandbox, launched, &settings);
    assert_eq!(run.summary()["stop_reason"], "epochs");
}

#[test]
fn workers_of_a_resumed_mirrored_run_come_back_after_its_checkpoint_is_gone() {
    let sandbox = Sandbox::new();
    let settings = ["cluster.workers=3", "train.optimizer.kind=momentum"];
    let kept = ["checkpoint={every_steps=50, keep=1}", WAIT];
    let settings = [&settings[..], &kept].concat();
    sandbox.train_cluster("run", "mirrored", &[&settings[..], &["train.stop.steps=50"]].concat());
    let run = sandbox.path("run");
    let stop = "train.stop.steps=600";
    let mut command = sandbox.command(&["train", "--resume", run.to_str().unwrap(), "--set", stop]);
    let launched = RunningProcess::start(command.envs(SLOW), run.clone());
    let first = run.join("checkpoints/step-000000000050");
    assert!(wait_until(|| !first.exists()), "{}", launched.stderr());
    launched.kill_and_wait_for_restart("worker:1");
    launched.kill_and_wait_for_restart("worker:0");
    check_end(&sandbox, launched, &[&settings[..], &[stop]].concat());
}

#[test]
fn a_mirrored_run_ends_when_a_worker_has_died_too_often() {
    let sandbox = Sandbox::new();
    let launched = running(&sandbox, &[ENDLESS, "cluster.workers=3", "cluster.restarts=1"]);
    launched.kill_and_wait_for_restart("worker:2");
    signal_to(launched.task("worker:2"), "KILL");
    let output = launched.finish();
    assert!(output.code.unwrap() >= 128, "{output:?}");
    let cause = "error: the run failed: worker:2 was killed by signal 9";
    assert_eq!(first_error(&output.stderr), cause);
}

/// A mirrored run whose tasks are started by hand.
fn manual(cluster: Value, settings: &[&str]) -> ManualRun {
    ManualRun::new(cluster, &[&["cluster.mode=mirrored", WAIT], settings].concat())
}

#[test]
fn a_mirrored_worker_that_does_not_come_back_is_named() {
    let at = free_ports::<3>().map(|port| format!("127.0.0.1:{port}"));
    let manual_run = manual(json!({"worker": at}), &[ENDLESS, "cluster.rejoin_timeout_s=1"]);
    let mut tasks = [0, 1, 2].map(|slot| manual_run.start("worker", slot));
    tasks[0].wait_for_steps();
    let started = Instant::now();
    tasks[1].signal("KILL");
    for (slot, task) in tasks.into_iter().enumerate() {
        let output = task.finish_task();
        if slot == 1 {
            continue;
        }
        assert_eq!(output.code, Some(200), "{output:?}");
        let lost = format!("error: lost worker:1 ({}): it did not come back within 1 s", at[1]);
        assert_says(&output.stderr, &[&lost]);
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert!(processes_of(&manual_run.run().path).is_empty());
}

#[test]
fn a_cut_connection_between_mirrored_workers_costs_nothing() {
    let at = free_ports::<3>().map(|port| format!("127.0.0.1:{port}"));
    let proxy = Proxy::to(at[1].clone());
    let settings = ["train.stop.steps=600", "train.optimizer.kind=momentum", "cluster.workers=3"];
    let manual_run = manual(json!({"worker": at}), &settings);
    let run = manual_run.run();
    // Worker 2 connects to worker 1 through the proxy.
    let mut proxied = at.clone();
    proxied[1] = format!("127.0.0.1:{}", proxy.port);
    let start = |at: &[String; 3], index: usize| {
        let config = tf_config(&json!({"worker": at}), "worker", index);
        RunningProcess::start(manual_run.command(&config).envs(SLOW), run.path.clone())
    };
    let mut tasks = vec![start(&at, 0), start(&at, 1), start(&proxied, 2)];
    tasks[0].wait_for_steps();
    proxy.cut();
    let noticed = || run.log("worker:1").contains("its place is kept");
    assert!(wait_until(noticed), "{}", run.log("worker:1"));
    manual_run.all_end_well(tasks);
    let undisturbed = manual_run.sandbox.train_cluster("undisturbed", "mirrored", &settings);
    assert!(run.model() == undisturbed.model(), "the bytes differ");
}
