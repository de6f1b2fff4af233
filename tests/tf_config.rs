//! Tasks that are started one by one, told their place by `TF_CONFIG`: by hand or by Kubeflow.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::ManualRun;
use crate::support::{
    ENDLESS, RunningProcess, SMALL_DATA, Sandbox, assert_says, cluster_of, events, free_ports,
    points, tf_config, within,
};

/// Starts tasks in this order, the last one when all others have said whom they wait for, and
/// says how long after that the first step was made.
fn time_to_start(order: [(&str, usize); 5], missing: &str) -> Duration {
    let [first, second] = free_ports();
    let stop = ["cluster.mode=sync", "train.stop={steps=50}"];
    let manual_run = ManualRun::new(cluster_of(3, &[first, second]), &stop);
    let (last, early) = order.split_last().unwrap();
    let mut tasks: Vec<_> =
        early.iter().map(|&(role, index)| manual_run.start(role, index)).collect();
    // A server that has seen all workers has nothing more to wait for.
    for (role, index) in early.iter().filter(|task| task.0 == "worker" || last.0 == "worker") {
        manual_run.wait_for_log(&format!("{role}:{index}"), "waiting for the start: ");
    }
    manual_run.wait_for_log(&format!("{}:{}", early[0].0, early[0].1), missing);
    let begun = Instant::now();
    tasks.push(manual_run.start(last.0, last.1));
    let chief = order.iter().position(|task| *task == ("worker", 0)).unwrap();
    tasks[chief].wait_for_steps();
    let took = begun.elapsed();
    manual_run.all_end_well(tasks);
    assert_eq!(manual_run.run().summary()["global_steps"], 50);
    took
}

#[test]
fn tasks_start_in_any_order_and_train_within_a_second_of_the_last() {
    let server_last = [("worker", 1), ("worker", 0), ("ps", 1), ("worker", 2), ("ps", 0)];
    let worker_last = [("ps", 0), ("worker", 1), ("worker", 0), ("ps", 1), ("worker", 2)];
    let chief_last = [("ps", 1), ("worker", 2), ("ps", 0), ("worker", 1), ("worker", 0)];
    for (order, missing) in [
        (server_last, " is refused ("),
        (worker_last, "worker:2 missing"),
        (chief_last, "worker:0 missing"),
    ] {
        // Other work on the machine may hold up one of them, but not three in a row.
        let took = (0..3).map(|_| time_to_start(order, missing));
        let in_time = |took: &Duration| *took < Duration::from_secs(1);
        assert!(took.into_iter().any(|took| in_time(&took)), "{order:?}");
    }
}

#[test]
fn whoever_waits_says_for_whom_and_in_what_state_that_is() {
    let [first, second] = free_ports();
    let settings = ["train.stop={steps=100}", "cluster.mode=async"];
    let manual_run = ManualRun::new(cluster_of(2, &[first, second]), &settings);
    let mut chief = manual_run.start("worker", 0);
    chief.wait_for(&format!("ps:0 at 127.0.0.1:{first} is refused"));
    assert_says(&chief.stderr(), &[&format!("ps:1 at 127.0.0.1:{second} is refused")]);
    let server = manual_run.start("ps", 0);
    chief.wait_for("ps:0 is ready and waits for other workers");
    manual_run.wait_for_log("ps:0", "waiting for the start: worker:1 missing");

    // Somebody else's server in the place of the second.
    let sandbox = Sandbox::new();
    let mut stranger =
        sandbox.command(&["train", "--run-dir", sandbox.path("run").to_str().unwrap()]);
    stranger.env("TF_CONFIG", tf_config(&manual_run.cluster, "ps", 1));
    let stranger = RunningProcess::start(&mut stranger, sandbox.path("run"));
    chief.wait_for(&format!("ps:1 at 127.0.0.1:{second} is wrong job (it works for another job)"));
    // It goes, the right one comes, and all is well.
    drop(stranger);
    let tasks = vec![server, chief, manual_run.start("ps", 1), manual_run.start("worker", 1)];
    manual_run.all_end_well(tasks);
    assert_eq!(manual_run.run().summary()["stop_reason"], "steps");
}

#[test]
fn without_the_token_nobody_gets_in() {
    let [port] = free_ports();
    let manual_run = ManualRun::new(cluster_of(1, &[port]), &["train.stop={steps=20}"]);
    let [right, wrong] = ["right", "wrong"].map(|token| manual_run.sandbox.write(token, token));
    let [right, wrong] =
        [right, wrong].map(|path| format!("cluster.token_file={}", path.display()));
    let server = manual_run.start_with("ps", 0, &[&right]);
    let mut stranger = manual_run.start_with("worker", 0, &[&wrong]);
    stranger.wait_for(&format!("ps:0 at 127.0.0.1:{port} is wrong token"));
    manual_run.wait_for_log("ps:0", "refused a connection: the token is not this run's");
    drop(stranger);
    fs::rename(manual_run.run().file("worker_0"), manual_run.sandbox.path("stranger")).unwrap();
    let worker = manual_run.start_with("worker", 0, &[&right]);
    manual_run.all_end_well(vec![server, worker]);
    for task in ["ps:0", "worker:0"] {
        assert!(!manual_run.run().log(task).contains("right"), "a secret does not belong in a log");
    }
}

#[test]
fn whoever_stays_alone_gives_up_and_names_the_missing() {
    let [port, nobody] = free_ports();
    let manual_run = ManualRun::new(cluster_of(2, &[port, nobody]), &["cluster.start_timeout_s=2"]);
    let begun = Instant::now();
    let (server, worker) = (manual_run.start("ps", 0), manual_run.start("worker", 1));
    let (server, worker) = (server.finish_task(), worker.finish_task());
    let took = begun.elapsed();
    assert!((2.0..6.0).contains(&took.as_secs_f64()), "{took:?}");
    for output in [&server, &worker] {
        assert!(output.code.unwrap() >= 128, "worth a retry: {output:?}");
        assert_says(&output.stderr, &["error: the run did not start within 2 s: "]);
    }
    assert_says(&server.stderr, &["worker:0"]);
    assert_says(&worker.stderr, &[&format!("ps:1 at 127.0.0.1:{nobody} is refused")]);
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
    // The chief alone has a result to show.
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
    for (chief, lost) in [("worker", 1), ("chief", 0)] {
        let [port] = free_ports();
        let mut cluster = cluster_of(2, &[port]);
        if chief == "chief" {
            cluster[chief] = json!(["127.0.0.1:0"]);
        }
        let manual_run = ManualRun::new(cluster, &[ENDLESS]);
        let mut others = vec![manual_run.start("ps", 0), manual_run.start(chief, 0)];
        if chief == "chief" {
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
        let settings = ["train.stop={seconds=1}", "train.evaluate.every=50", "observe.every=1000"];
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
    // Listed, but not there: the run does as well without it.
    let [port] = free_ports();
    let mut cluster = cluster_of(1, &[port]);
    cluster["evaluator"] = json!(["127.0.0.1:0"]);
    let manual_run = ManualRun::new(cluster, &["train.stop={steps=20}"]);
    manual_run.all_end_well(vec![manual_run.start("ps", 0), manual_run.start("worker", 0)]);
}

#[test]
fn a_worker_that_is_started_again_when_the_run_is_over_says_so_and_ends_well() {
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
    assert_eq!(manual_run.run().summary(), summary, "it stays as it is");
}

#[test]
fn the_same_task_twice_in_one_run_is_refused() {
    let [port] = free_ports();
    let manual_run = ManualRun::new(cluster_of(2, &[port]), &["train.stop={steps=20}"]);
    let mut tasks = vec![manual_run.start("ps", 0), manual_run.start("worker", 1)];
    manual_run.wait_for_log("worker:1", "ps:0 is ready");
    for (role, index) in [("worker", 1), ("ps", 0)] {
        let again = manual_run.start(role, index).finish_task();
        assert_eq!(again.code, Some(2), "{again:?}");
        assert_says(&again.stderr, &[&format!("{role}:{index} has been in this run already")]);
    }
    // The first ones are none the worse for it.
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
        RunningProcess::start(command.env("TF_CONFIG", tf_config(&cluster, role, index)), dir)
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
fn listening_beyond_this_machine_needs_a_token() {
    let [port] = free_ports();
    for address in [format!("0.0.0.0:{port}"), format!("192.0.2.1:{port}")] {
        let cluster = json!({"worker": ["127.0.0.1:0"], "ps": [address]});
        let output = ManualRun::new(cluster, &[]).start("ps", 0).finish();
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(&output.stderr, &["error: ", &address, "cluster.token_file"]);
    }
    // A token that is none does not count, and is named.
    for content in ["", "\n"] {
        let cluster = json!({"worker": ["127.0.0.1:0"], "ps": [format!("0.0.0.0:{port}")]});
        let manual_run = ManualRun::new(cluster, &[]);
        let path = manual_run.sandbox.write("token", content);
        let setting = format!("cluster.token_file={}", path.display());
        let output = manual_run.start_with("ps", 0, &[&setting]).finish();
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(&output.stderr, &["error: cluster.token_file", "must hold 1 to 256"]);
    }
}

#[test]
fn a_task_that_is_not_of_the_cluster_is_refused() {
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
        let output = ManualRun::new(cluster, &[]).start(role, index).finish();
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(&output.stderr, &["error: ", "TF_CONFIG", says]);
    }
}

/// What `explain` prints for this `TF_CONFIG`.
fn explain(config: &Value, settings: &[&str]) -> String {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["explain"]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command.env("TF_CONFIG", config.to_string());
    let output = RunningProcess::start(&mut command, sandbox.path("")).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(sandbox.tree(), [""; 0], "explaining leaves nothing behind");
    output.stdout
}

/// The rows of the table of tasks, as words.
fn rows(explained: &str) -> Vec<Vec<&str>> {
    let tasks = explained.lines().filter_map(|line| line.strip_prefix("# "));
    let tasks = tasks.map(|line| line.split_whitespace().collect::<Vec<_>>());
    tasks.filter(|words| words.first().is_some_and(|word| word.contains(":"))).collect()
}

#[test]
fn explain_shows_the_tasks_and_what_was_read_from_where() {
    let config = json!({
        "cluster": {
            "master": ["m.svc:2222"],
            "worker": {"0": "w0.svc:2222", "1": "w1.svc"},
            "ps": ["p0.svc:2222"],
            "evaluator": ["e.svc:2222"],
            "reserve": ["r.svc:2222"],
        },
        "task": {"type": "worker", "index": "1"},
    });
    let printed = explain(&config, &["cluster.workers=3"]);
    assert_eq!(
        rows(&printed),
        [
            vec!["chief:0", "0", "m.svc:2222"],
            vec!["worker:0", "1", "w0.svc:2222"],
            vec!["worker:1", "2", "w1.svc:2222", "this", "process"],
            vec!["ps:0", "-", "p0.svc:2222"],
            vec!["evaluator:0", "-", "e.svc:2222"],
        ]
    );
    assert_says(
        &printed,
        &[
            "# tasks, from TF_CONFIG",
            "master means chief",
            "the chief is listed: it is slot 0",
            "cluster.worker is a sparse map",
            "cluster.reserve is not a role of ours and is ignored",
            "the evaluator is listed in the cluster; nobody waits for it",
        ],
    );
    assert!(!printed.contains("are used"), "nothing is inconsistent: {printed}");
}

#[test]
fn explain_names_what_does_not_fit_the_job() {
    let config = json!({
        "cluster": cluster_of(3, &[2222, 2223]),
        "task": {"type": "worker", "index": 0},
    });
    let printed = explain(&config, &[]);
    assert_says(
        &printed,
        &[
            "no chief is listed: worker:0 is the chief",
            "cluster.workers is 2, but TF_CONFIG lists 3: 3 are used",
            "cluster.servers is 1, but TF_CONFIG lists 2: 2 are used",
        ],
    );
    // What it prints is a job file all the same.
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", &printed);
    let alone = sandbox.ok(&["explain", "job.toml"]).stdout;
    assert_says(&alone, &["2 workers and 1 servers, which `paceline train` starts here"]);
    // And it is so: the cluster that is there is the one that trains.
    let [first, second] = free_ports();
    let manual_run = ManualRun::new(cluster_of(3, &[first, second]), &["train.stop={steps=20}"]);
    let servers = (0..2).map(|index| manual_run.start("ps", index));
    manual_run.all_end_well(
        servers.chain((0..3).map(|index| manual_run.start("worker", index))).collect(),
    );
    let summary = manual_run.run().summary();
    assert_eq!((&summary["workers"], &summary["servers"]), (&3.into(), &2.into()));
}

#[test]
fn a_signal_to_a_task_that_waits_ends_it_at_once() {
    let [port] = free_ports();
    let manual_run = ManualRun::new(cluster_of(2, &[port]), &[]);
    let mut worker = manual_run.start("worker", 0);
    worker.wait_for("waiting for the start: ");
    worker.signal("INT");
    within(Duration::from_secs(5), "the end after a signal", || worker.has_ended());
    let output = worker.finish();
    assert!(output.code.unwrap() >= 128, "{output:?}");
    assert_says(&output.stderr, &["error: interrupted"]);
}
