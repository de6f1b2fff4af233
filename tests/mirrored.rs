//! Mode `mirrored`: training without servers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    ENDLESS, ManualRun, RunFolder, RunningProcess, Sandbox, assert_says, first_error, free_ports,
    processes_of, signal_to, wait_until, within,
};

/// The largest difference between the parameters of two runs.
fn difference(left: &RunFolder, right: &RunFolder) -> f32 {
    let (left, right) = (left.params(), right.params());
    assert_eq!(left.len(), right.len());
    left.iter().zip(&right).map(|(l, r)| (l - r).abs()).fold(0.0, f32::max)
}

#[test]
fn mirrored_has_the_bits_of_sync_and_follows_single() {
    for (workers, more) in [
        (2, &["train.stop={steps=50}"][..]),
        (3, &["train.stop={steps=50}"]),
        (3, &["train.stop={steps=50}", "train.optimizer.kind=momentum"]),
        // The last step has 20 examples for one worker, 1 for another and none for the third.
        (3, &["train.stop={epochs=3}", "train.optimizer.rate=0.1"]),
    ] {
        let sandbox = Sandbox::new();
        let common = [&["data.train_examples=607", "train.optimizer.rate=0.01"], more].concat();
        let batch = format!("train.batch={}", 20 * workers);
        let single = sandbox.train("single", &[&common[..], &[&batch]].concat());
        let workers = format!("cluster.workers={workers}");
        let settings = [&common[..], &["train.batch=20", &workers]].concat();
        let sync = sandbox.train_cluster("sync", "sync", &settings);
        let mirrored = sandbox.train_cluster("mirrored", "mirrored", &settings);
        assert!(sync.model() == mirrored.model(), "{settings:?}: the bytes differ");
        let differ = difference(&single, &mirrored);
        assert!(differ <= 1e-5, "{settings:?}: parameters differ by up to {differ}");
        for figure in ["global_steps", "examples", "stop_reason"] {
            assert_eq!(single.summary()[figure], mirrored.summary()[figure], "{figure}");
        }
    }
}

#[test]
fn two_mirrored_runs_of_one_seed_end_with_the_same_bytes() {
    let sandbox = Sandbox::new();
    for (name, more) in [
        ("adam", "train.optimizer={kind=\"adam\", rate=0.003}"),
        ("loss", "train.stop={test_loss=1.2}"),
    ] {
        let settings = ["cluster.workers=3", "train.evaluate.every=20", more];
        let settings = match name {
            "loss" => settings.to_vec(),
            _ => [&settings[..], &["train.stop={steps=150}"]].concat(),
        };
        let run =
            |again: &str| sandbox.train_cluster(&format!("{name}-{again}"), "mirrored", &settings);
        let (first, second) = (run("1"), run("2"));
        assert!(first.model() == second.model(), "{name}: the bytes differ");
        assert_eq!(first.summary()["global_steps"], second.summary()["global_steps"]);
    }
}

#[test]
fn one_mirrored_worker_does_exactly_what_single_does() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop={epochs=4}", "train.batch=17", "train.optimizer.kind=momentum"];
    let single = sandbox.train("single", &settings);
    let settings = [&settings[..], &["cluster.workers=1"]].concat();
    let mirrored = sandbox.train_cluster("mirrored", "mirrored", &settings);
    assert!(single.model() == mirrored.model(), "the bytes differ");
}

#[test]
fn every_condition_ends_a_mirrored_run_and_every_worker_reports() {
    for (stop, reason) in [
        ("{steps=25}", "steps"),
        ("{epochs=2}", "epochs"),
        ("{seconds=0.3, epochs=1000000}", "seconds"),
        ("{test_loss=1.5, steps=1000000}", "test_loss"),
    ] {
        let sandbox = Sandbox::new();
        let stop = format!("train.stop={stop}");
        let settings = ["cluster.workers=3", "train.evaluate.every=10", &stop];
        let run = sandbox.train_cluster("run", "mirrored", &settings);
        let summary = run.summary();
        assert_eq!(summary["stop_reason"], reason, "{stop}");
        assert_eq!((&summary["workers"], &summary["servers"]), (&3.into(), &0.into()));
        let tasks = summary["tasks"].as_array().unwrap();
        let names: Vec<_> = tasks.iter().map(|task| task["task"].as_str().unwrap()).collect();
        assert_eq!(names, ["worker:0", "worker:1", "worker:2"]);
        let steps = summary["global_steps"].as_u64().unwrap();
        assert!(reason != "steps" || steps == 25, "{steps}");
        for task in tasks {
            let own = task["steps"].as_u64().unwrap();
            assert!(steps - own <= u64::from(reason == "epochs"), "{stop}: {own} of {steps}");
            // Worker 0 owns the whole model: it sends the new parameters to two others, which each
            // send it a gradient; with a small overhead.
            let bytes = task["sent_bytes"].as_f64().unwrap() / own as f64;
            let models = if task["task"] == "worker:0" { 2.0 } else { 1.0 };
            assert!((0.9..1.1).contains(&(bytes / (7_850.0 * 4.0 * models))), "{bytes}");
        }
    }
}

/// A mirrored run of 3 workers that is making steps.
fn running(sandbox: &Sandbox, settings: &[&str]) -> RunningProcess {
    let settings = [&["cluster.workers=3"], settings].concat();
    let mut launched = sandbox.launch("run", "mirrored", &settings);
    launched.wait_for_steps();
    launched
}

#[test]
fn a_killed_mirrored_worker_ends_the_run_and_is_named() {
    for worker in ["worker:0", "worker:2"] {
        let sandbox = Sandbox::new();
        let launched = running(&sandbox, &[ENDLESS]);
        signal_to(launched.task(worker), "KILL");
        let started = Instant::now();
        let output = launched.finish();
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
        assert_eq!(output.code, Some(200), "{output:?}");
        // The first line of the error names the cause; both other workers report the loss.
        let cause = format!("error: the run failed: {worker} was killed by signal 9");
        assert_eq!(first_error(&output.stderr), cause);
        let lost = format!(": lost {worker} (");
        assert_eq!(output.stderr.matches(&lost).count(), 2, "{output:?}");
        assert!(!sandbox.path("run/summary.json").exists(), "a failed run has a summary");
    }
}

#[test]
fn a_signal_ends_a_mirrored_run_in_good_order() {
    let sandbox = Sandbox::new();
    let launched = running(&sandbox, &[ENDLESS]);
    launched.signal("INT");
    let output = launched.finish();
    assert_eq!(output.code, Some(130), "{output:?}");
    let run = sandbox.run_folder("run");
    assert_eq!(run.summary()["stop_reason"], "interrupted");
    assert_eq!(run.summary()["tasks"].as_array().unwrap().len(), 3);
    let again: Value =
        serde_json::from_str(&sandbox.ok(&["evaluate", "run", "--json"]).stdout).unwrap();
    assert_eq!(again["test_loss"], run.summary()["test_loss"]);
}

#[test]
fn a_stopped_mirrored_worker_is_waited_for_and_named() {
    let sandbox = Sandbox::new();
    let mut launched = running(&sandbox, &["train.stop={seconds=3.5}"]);
    let worker = launched.task("worker:1");
    signal_to(worker, "STOP");
    let started = Instant::now();
    launched.wait_for(" waits for worker:1");
    let still = sandbox.run_folder("run").event_bytes("worker:0");
    within(Duration::from_secs(10), "3 s", || started.elapsed() > Duration::from_secs(3));
    assert_eq!(sandbox.run_folder("run").event_bytes("worker:0"), still, "steps without worker:1");
    signal_to(worker, "CONT");
    let output = launched.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(sandbox.run_folder("run").summary()["stop_reason"], "seconds");
    // Worker 2 owns no shard and hears from worker 0 alone.
    assert_says(&sandbox.run_folder("run").log("worker:2"), &[" waits for worker:0"]);
}

#[test]
fn a_mirrored_stall_beyond_the_limit_names_the_worker() {
    let sandbox = Sandbox::new();
    let launched = running(&sandbox, &[ENDLESS, "cluster.stall_timeout_s=2"]);
    let worker = launched.task("worker:2");
    signal_to(worker, "STOP");
    let output = launched.finish();
    assert_eq!(output.code, Some(200), "{output:?}");
    assert_says(&output.stderr, &["error: waited 2 s for worker:2"]);
}

#[test]
fn mirrored_tasks_end_when_their_launcher_is_killed() {
    let sandbox = Sandbox::new();
    let launched = running(&sandbox, &[ENDLESS]);
    assert_eq!(processes_of(&sandbox.path("run")).len(), 4, "three workers and their launcher");
    launched.signal("KILL");
    within(Duration::from_secs(5), "all tasks are gone", || {
        processes_of(&sandbox.path("run")).is_empty()
    });
}

/// A mirrored run whose tasks are started by hand.
fn manual(cluster: Value, settings: &[&str]) -> ManualRun {
    ManualRun::new(cluster, &[&["cluster.mode=mirrored"], settings].concat())
}

#[test]
fn mirrored_tasks_start_by_hand_in_any_order_with_workers_only() {
    for chief in ["worker", "chief"] {
        let at = free_ports::<3>().map(|port| format!("127.0.0.1:{port}"));
        let (cluster, tasks) = match chief {
            "chief" => (
                json!({"chief": [at[0]], "worker": [at[1], at[2]]}),
                [("worker", 1), ("chief", 0), ("worker", 0)],
            ),
            _ => (json!({"worker": at}), [("worker", 2), ("worker", 0), ("worker", 1)]),
        };
        let manual_run = manual(cluster, &["train.stop={steps=40}"]);
        let start = |(role, index): (&str, usize)| manual_run.start(role, index);
        let early = [start(tasks[0]), start(tasks[1])];
        // Each task reports which task it waits for, and its state.
        let run = manual_run.run();
        let names = tasks.map(|(role, index)| format!("{role}:{index}"));
        let missing = format!("{} at {}, not connected yet", names[2], at[1]);
        assert!(wait_until(|| run.log(&names[1]).contains(&missing)), "{}", run.log(&names[1]));
        let refused = format!("{} at {}, refused", names[2], at[1]);
        assert!(wait_until(|| run.log(&names[0]).contains(&refused)), "{}", run.log(&names[0]));
        manual_run.all_end_well(early.into_iter().chain([start(tasks[2])]).collect());
        assert_eq!(run.summary()["global_steps"], 40);
        let sync = ["cluster.workers=3", "train.stop={steps=40}"];
        let sync = manual_run.sandbox.train_cluster("sync", "sync", &sync);
        assert!(sync.model() == run.model());
    }
}

#[test]
fn a_mirrored_worker_without_peers_gives_up_and_names_them() {
    let at = free_ports::<3>().map(|port| format!("127.0.0.1:{port}"));
    let manual_run = manual(json!({"worker": at}), &["cluster.start_timeout_s=2"]);
    let output = manual_run.start("worker", 1).finish();
    assert_eq!(output.code, Some(200), "{output:?}");
    assert_says(&output.stderr, &["error: the run did not start within 2 s: worker:0 at "]);
    assert_says(&output.stderr, &[&format!("worker:2 at {}, not connected yet", at[2])]);
}

#[test]
fn mirrored_refuses_what_it_cannot_do() {
    let sandbox = Sandbox::new();
    for (settings, says) in [
        (&["model.kind=logistic", "cluster.wire=bf16"][..], "model.dense = true"),
        (&["model.kind=fm", "cluster.factors=always"], "cluster.factors applies only with"),
        (&["cluster.on_worker_loss=continue"], "cluster.on_worker_loss is"),
    ] {
        let output = sandbox.launch("run", "mirrored", settings).finish();
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(&output.stderr, &["error: ", says]);
    }
    let [port] = free_ports();
    for (role, says) in [("ps", "has no servers"), ("evaluator", "has no servers")] {
        let address = format!("127.0.0.1:{port}");
        let cluster = json!({"worker": ["127.0.0.1:0"], role: [address]});
        let output = manual(cluster, &[]).start(role, 0).finish();
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(&output.stderr, &["error: ", says]);
    }
    // A dense model of sparse rows is allowed.
    let dense = ["model={kind=\"logistic\", dense=true}", "data.features=1000"];
    let settings = [&dense[..], &["train.stop={steps=20}"]].concat();
    let run = sandbox.train_cluster("dense", "mirrored", &settings);
    assert_eq!(run.summary()["global_steps"], 20);
}

#[test]
fn explain_shows_the_workers_of_a_mirrored_run() {
    let sandbox = Sandbox::new();
    let args = ["explain", "--set", "cluster.mode=mirrored", "--set", "cluster.workers=3"];
    assert_says(&sandbox.ok(&args).stdout, &["# tasks: 3 workers, which"]);
}
