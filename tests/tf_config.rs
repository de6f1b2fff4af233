//! Tasks that are started one by one with `TF_CONFIG`, as a user or Kubeflow does.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::ManualRun;
use crate::support::{
    ENDLESS, RunningProcess, SECRET, SMALL_DATA, Sandbox, assert_says, cluster_of, events,
    free_ports, points, tf_config,
};

/// Starts tasks in this order, the last one when all others have reported what they wait for.
/// Returns the time from the last start to the first step.
fn time_to_start(order: [(&str, usize); 5], missing: &str) -> Duration {
    let [first, second] = free_ports();
    // Slow steps: a run that is over at once prints none.
    let stop = ["cluster.mode=sync", ENDLESS, "train.stop.steps=200"];
    let manual_run = ManualRun::new(cluster_of(3, &[first, second]), &stop);
    let (last, early) = order.split_last().unwrap();
    let mut tasks: Vec<_> =
        early.iter().map(|&(role, index)| manual_run.start(role, index)).collect();
    // A server that has seen all workers does not wait.
    for (role, index) in early.iter().filter(|task| task.0 == "worker" || last.0 == "worker") {
        manual_run.wait_for_log(&format!("{role}:{index}"), "waiting for ");
    }
    manual_run.wait_for_log(&format!("{}:{}", early[0].0, early[0].1), missing);
    let started = Instant::now();
    tasks.push(manual_run.start(last.0, last.1));
    let coordinator = order.iter().position(|task| *task == ("worker", 0)).unwrap();
    tasks[coordinator].wait_for_steps();
    let took = started.elapsed();
    manual_run.all_end_well(tasks);
    assert_eq!(manual_run.run().summary()["global_steps"], 200);
    took
}

#[test]
fn tasks_start_in_any_order_and_train_within_a_second_of_the_last() {
    let server_last = [("worker", 1), ("worker", 0), ("ps", 1), ("worker", 2), ("ps", 0)];
    let worker_last = [("ps", 0), ("worker", 1), ("worker", 0), ("ps", 1), ("worker", 2)];
    let coordinator_last = [("ps", 1), ("worker", 2), ("ps", 0), ("worker", 1), ("worker", 0)];
    for (order, missing) in [
        (server_last, ", refused"),
        (worker_last, "waiting for worker:2 ("),
        (coordinator_last, "waiting for worker:0 ("),
    ] {
        // Other work on the machine may delay one attempt, but not three in a row.
        let took = (0..3).map(|_| time_to_start(order, missing));
        let in_time = |took: &Duration| *took < Duration::from_secs(1);
        assert!(took.into_iter().any(|took| in_time(&took)), "{order:?}");
    }
}

#[test]
fn a_waiting_task_reports_which_tasks_it_waits_for_and_their_state() {
    let [first, second] = free_ports();
    let settings = ["train.stop={steps=100}", "cluster.mode=async"];
    let manual_run = ManualRun::new(cluster_of(2, &[first, second]), &settings);
    let mut coordinator = manual_run.start("worker", 0);
    coordinator.wait_for(&format!("ps:0 at 127.0.0.1:{first}, refused"));
    assert_says(&coordinator.stderr(), &[&format!("ps:1 at 127.0.0.1:{second}, refused")]);
    let server = manual_run.start("ps", 0);
    coordinator.wait_for("other workers, as ps:0 does");
    manual_run.wait_for_log("ps:0", "waiting for worker:1 (");
    let tasks = vec![server, coordinator, manual_run.start("ps", 1), manual_run.start("worker", 1)];
    manual_run.all_end_well(tasks);
    assert_eq!(manual_run.run().summary()["stop_reason"], "steps");
}

#[test]
fn a_task_with_a_wrong_token_is_refused() {
    let [port] = free_ports();
    let manual_run = ManualRun::new(cluster_of(1, &[port]), &["train.stop={steps=20}"]);
    let [right, wrong] = ["right", "wrong"]
        .map(|name| manual_run.sandbox.write_secret(name, &format!("the {name} secret of a run")));
    let [right, wrong] =
        [right, wrong].map(|path| format!("cluster.token_file={}", path.display()));
    let server = manual_run.start_with("ps", 0, &[&right]);
    let mut intruder = manual_run.start_with("worker", 0, &[&wrong]);
    intruder.wait_for(&format!("ps:0 at 127.0.0.1:{port}, wrong token"));
    manual_run.wait_for_log("ps:0", "during the handshake, as one with another token does");
    drop(intruder);
    fs::rename(manual_run.run().file("worker_0"), manual_run.sandbox.path("intruder")).unwrap();
    let worker = manual_run.start_with("worker", 0, &[&right]);
    manual_run.all_end_well(vec![server, worker]);
    for task in ["ps:0", "worker:0"] {
        assert!(!manual_run.run().log(task).contains("the right secret"), "the token is in a log");
    }
}

#[test]
fn a_task_without_peers_gives_up_and_names_them() {
    let [port, unused] = free_ports();
    let manual_run = ManualRun::new(cluster_of(2, &[port, unused]), &["cluster.start_timeout_s=2"]);
    let started = Instant::now();
    let (server, worker) = (manual_run.start("ps", 0), manual_run.start("worker", 1));
    let (server, worker) = (server.finish_task(), worker.finish_task());
    let took = started.elapsed();
    assert!((2.0..6.0).contains(&took.as_secs_f64()), "{took:?}");
    for output in [&server, &worker] {
        assert!(output.code.unwrap() >= 128, "worth a retry: {output:?}");
        assert_says(&output.stderr, &["error: the run did not start within 2 s: "]);
    }
    assert_says(&server.stderr, &["worker:0"]);
    assert_says(&worker.stderr, &[&format!("ps:1 at 127.0.0.1:{unused}, refused")]);
}

#[test]
fn a_sparse_map_string_indices_a_master_and_unknown_keys_are_understood() {
    let [port] = free_ports();
    let cluster = json!({
        "master": {"0": "127.0.0.1:0"},
        "worker": {"0": "127.0.0.1:0", "1": "127.0.0.1:0"},
        "ps": {"0": format!("127.0.0.1:{port}")},
        "reserve": ["127.0.0.1:0"],
    });
    let manual_run = ManualRun::new(cluster, &["cluster.mode=sync", "train.stop={steps=30}"]);
    let mut tasks = Vec::new();
    for (role, index) in [("ps", "0"), ("worker", "0"), ("worker", "1"), ("master", "0")] {
        let config = json!({
            "cluster": manual_run.cluster,
            "task": {"type": role, "index": index, "trial": "7"},
            "environment": "cloud",
            "rpc_layer": "grpc",
        });
        let mut command = manual_run.command(&config.to_string());
        tasks.push(RunningProcess::start(&mut command, manual_run.run().path));
    }
    let summary_of = |task: RunningProcess| {
        let output = task.finish_task();
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout
    };
    let shown: Vec<_> = tasks.into_iter().map(summary_of).collect();
    // Only the chief prints a result.
    assert_says(&shown[3], &["chief:0", "worker:0", "worker:1", "ps:0", "30 steps"]);
    assert_eq!(shown[..3], ["", "", ""]);
    let summary = manual_run.run().summary();
    assert_eq!((&summary["workers"], &summary["servers"]), (&3.into(), &1.into()));
    for folder in ["chief_0", "worker_0", "worker_1", "ps_0"] {
        assert!(manual_run.run().file(folder).is_dir(), "{folder}");
    }
    assert!(
        manual_run.run().file("job.toml").is_file()
            && manual_run.run().file("model.safetensors").is_file()
    );
}

#[test]
fn a_lost_worker_is_named_as_the_cluster_names_it() {
    for (coordinator, lost) in [("worker", 1), ("chief", 0)] {
        let [port] = free_ports();
        let mut cluster = cluster_of(2, &[port]);
        if coordinator == "chief" {
            cluster[coordinator] = json!(["127.0.0.1:0"]);
        }
        let manual_run = ManualRun::new(cluster, &[ENDLESS]);
        let mut others = vec![manual_run.start("ps", 0), manual_run.start(coordinator, 0)];
        if coordinator == "chief" {
            others.push(manual_run.start("worker", 1));
        }
        let worker = manual_run.start("worker", lost);
        others[1].wait_for_steps();
        drop(worker);
        for task in others {
            let output = task.finish_task();
            assert!(output.code.unwrap() >= 128, "{output:?}");
            assert_says(&output.stderr, &[&format!("error: worker:{lost} was lost")]);
        }
    }
}

#[test]
fn an_evaluator_in_or_out_of_the_cluster_tests_and_is_never_waited_for() {
    for listed in [true, false] {
        let [port] = free_ports();
        let mut cluster = cluster_of(2, &[port]);
        if listed {
            cluster["evaluator"] = json!(["127.0.0.1:0"]);
        }
        let often = "train.evaluate.every=50";
        let rate = "train.optimizer.rate=0.01";
        let settings = ["train.stop={seconds=1}", often, rate, "observe.every=1000"];
        let manual_run = ManualRun::new(cluster, &settings);
        let mut tasks = vec![manual_run.start("evaluator", 0), manual_run.start("ps", 0)];
        tasks.extend([manual_run.start("worker", 0), manual_run.start("worker", 1)]);
        manual_run.wait_for_log("evaluator:0", "test loss ");
        manual_run.all_end_well(tasks);
        let evaluator = events(&manual_run.run().path)["runs"]["evaluator_0"].clone();
        let (tests, last) = (points(&evaluator, "test/loss"), manual_run.run().summary());
        let last = last["global_steps"].as_u64().unwrap();
        assert!(tests.len() >= 2, "{tests:?}");
        assert!(tests.is_sorted_by_key(|(step, _)| *step), "{tests:?}");
        assert!(tests.iter().all(|(step, _)| (50..=last).contains(step)), "{tests:?} of {last}");
        assert!(tests[0].1 > tests.last().unwrap().1, "the loss falls: {tests:?}");
    }
    // A listed evaluator that never starts is not waited for.
    let [port] = free_ports();
    let mut cluster = cluster_of(1, &[port]);
    cluster["evaluator"] = json!(["127.0.0.1:0"]);
    let manual_run = ManualRun::new(cluster, &["train.stop={steps=20}"]);
    manual_run.all_end_well(vec![manual_run.start("ps", 0), manual_run.start("worker", 0)]);
}

#[test]
fn a_worker_restarted_after_the_end_of_the_run_exits_with_code_0() {
    let [port] = free_ports();
    let wait = ["cluster.mode=async", "cluster.on_worker_loss=wait", "train.stop={steps=50}"];
    let manual_run = ManualRun::new(cluster_of(2, &[port]), &wait);
    let tasks = [("ps", 0), ("worker", 0), ("worker", 1)];
    manual_run.all_end_well(tasks.map(|(role, index)| manual_run.start(role, index)).into());
    let summary = manual_run.run().summary();
    for worker in [1, 0] {
        let late = manual_run.start("worker", worker).finish_task();
        assert_eq!(late.code, Some(0), "{late:?}");
        assert_says(&late.stderr, &["the run is over"]);
    }
    assert_eq!(manual_run.run().summary(), summary, "the summary has changed");
}

#[test]
fn the_same_task_twice_in_one_run_is_refused() {
    let [port] = free_ports();
    let manual_run = ManualRun::new(cluster_of(2, &[port]), &["train.stop={steps=20}"]);
    let mut tasks = vec![manual_run.start("ps", 0), manual_run.start("worker", 1)];
    manual_run.wait_for_log("worker:1", "waiting for other workers");
    for (role, index) in [("worker", 1), ("ps", 0)] {
        let again = manual_run.start(role, index).finish_task();
        assert_eq!(again.code, Some(2), "{again:?}");
        assert_says(&again.stderr, &[&format!("{role}:{index} already has a folder in this run")]);
    }
    // The first processes are unharmed.
    tasks.push(manual_run.start("worker", 0));
    manual_run.all_end_well(tasks);
}

#[test]
fn every_task_may_have_a_run_directory_of_its_own() {
    let [port] = free_ports();
    let cluster = cluster_of(2, &[port]);
    let sandbox = Sandbox::new();
    let start = |role: &str, index: usize| {
        let dir = sandbox.path(&format!("{role}-{index}"));
        let mut command = sandbox.command(&["train", "--run-dir", dir.to_str().unwrap()]);
        for setting in SMALL_DATA.iter().chain(&["train.stop={steps=20}"]) {
            command.args(["--set", setting]);
        }
        RunningProcess::start(
            command
                .env("TF_CONFIG", tf_config(&cluster, role, index))
                .env("PACELINE_TOKEN", SECRET),
            dir,
        )
    };
    let tasks = [start("ps", 0), start("worker", 0), start("worker", 1)];
    for task in tasks {
        let output = task.finish();
        assert_eq!(output.code, Some(0), "{output:?}");
    }
    assert!(sandbox.path("worker-0/summary.json").is_file());
    assert!(
        sandbox.path("worker-1/worker_1").is_dir() && sandbox.path("ps-0/ps_0/log.txt").is_file()
    );
}

#[test]
fn a_secret_that_others_could_guess_is_refused() {
    let [port] = free_ports();
    for content in ["", "\n", "fifteen letters"] {
        let cluster = json!({"worker": ["127.0.0.1:0"], "ps": [format!("0.0.0.0:{port}")]});
        let manual_run = ManualRun::new(cluster, &[]);
        let path = manual_run.sandbox.write_secret("token", content);
        let setting = format!("cluster.token_file={}", path.display());
        let output = manual_run.start_with("ps", 0, &[&setting]).finish();
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(&output.stderr, &["error: cluster.token_file", "must have 16 to 256"]);
    }
}

#[test]
fn a_task_outside_the_cluster_is_refused() {
    let single = "cluster.mode is single, which has neither servers nor an evaluator";
    for role in ["ps", "worker", "evaluator"] {
        let run = ManualRun::new(cluster_of(1, &[1]), &["cluster.mode=single"]);
        let output = run.start(role, 0).finish();
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(&output.stderr, &["error: ", single, &format!("it is {role}:0")]);
        assert!(!run.run().path.exists(), "a run of its own");
    }
    for (cluster, role, index, says) in [
        (cluster_of(2, &[1]), "worker", 2, "worker:2 is not in the cluster"),
        (cluster_of(2, &[1]), "boss", 0, "boss"),
        (cluster_of(2, &[]), "worker", 0, "lists no ps"),
        (
            json!({"worker": ["127.0.0.1:0"], "ps": {"1": "127.0.0.1:1"}}),
            "worker",
            0,
            "ps:0 has no",
        ),
    ] {
        let output = ManualRun::new(cluster, &["cluster.mode=async"]).start(role, index).finish();
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(&output.stderr, &["error: ", "TF_CONFIG", says]);
    }
}
