//! What a run reports about itself: the resources of its tasks, what limited it and which worker
//! was slow. Each situation is real.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{
    ENDLESS, RunFolder, RunningProcess, SMALL_DATA, Sandbox, assert_says, cluster_of, events,
    free_ports, points, tf_config, wait_until,
};

/// The columns and rows of a task's table of resources. Every row must be complete.
#[track_caller]
fn resources(folder: &Path) -> (Vec<String>, Vec<Vec<f64>>) {
    let text = fs::read_to_string(folder.join("resources.csv")).unwrap();
    assert!(text.ends_with('\n'), "{text:?}");
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let rows: Vec<Vec<f64>> =
        lines.map(|row| row.iter().map(|cell| cell.parse().unwrap()).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == head.len()), "{text}");
    (head, rows)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn every_task_reports_its_resources_in_a_table_the_summary_and_tensorboard() {
    let sandbox = Sandbox::new();
    let settings = ["observe.sample_ms=20", "train.stop={seconds=0.5}"];
    let run = sandbox.train_cluster("run", "async", &settings);
    let curves = events(&run.path);
    for task in ["worker:0", "worker:1", "ps:0"] {
        let folder = task.replace(':', "_");
        let (head, rows) = resources(&run.file(&folder));
        let used = &run.task(task)["resources"];
        let samples = number(&used["samples"]) as usize;
        assert!((3..=rows.len()).contains(&samples), "{task}: {samples} of {}", rows.len());
        assert!(number(&used["cores"]) > 0.0, "{task}: {used}");
        for (column, name) in head.iter().enumerate().skip(2) {
            let (mean, peak) = (number(&used["mean"][name]), number(&used["peak"][name]));
            let most = rows.iter().map(|row| row[column]).fold(0.0, f64::max);
            assert!(
                mean <= peak + 0.1 && peak <= most + 0.6,
                "{task} {name}: {mean} {peak} {most}"
            );
            let drawn = points(&curves["runs"][&folder], &format!("resources/{name}"));
            assert_eq!(drawn.len(), rows.len(), "{task} {name}");
        }
        for name in
            ["cpu_usr_percent", "memory_used_bytes", "task_cpu_percent", "task_memory_bytes"]
        {
            assert!(number(&used["peak"][name]) > 0.0, "{task}: {name} of {used}");
        }
        // Each peer has columns of its own, which add up to the task's.
        let others: &[&str] = if task == "ps:0" { &["worker:0", "worker:1"] } else { &["ps:0"] };
        for way in ["received_bytes_per_s", "sent_bytes_per_s"] {
            let mean = |peer: &str| number(&used["mean"][format!("{peer}_{way}")]);
            let sum: f64 = others.iter().map(|other| mean(other)).sum();
            assert!(
                mean("task") > 0.0 && (sum / mean("task") - 1.0).abs() < 0.01,
                "{task}: {used}"
            );
        }
        // The sampled traffic is what the task itself counted.
        let total = |column: &str| {
            let column = head.iter().position(|name| name == column).unwrap();
            let from = rows.iter().zip(rows.iter().skip(1));
            from.map(|(before, row)| row[column] * (row[0] - before[0])).sum::<f64>()
        };
        for (name, counted) in [
            ("task_sent_bytes_per_s", "sent_bytes"),
            ("task_received_bytes_per_s", "received_bytes"),
        ] {
            let (sampled, counted) = (total(name), number(&run.task(task)[counted]));
            // A server counts ten times a second, and its first row covers earlier time.
            assert!(
                (0.5..1.2).contains(&(sampled / counted)),
                "{task} {name}: {sampled} of {counted}"
            );
        }
    }
}

#[test]
fn a_task_that_is_killed_leaves_a_table_of_whole_lines() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch("run", "async", &[ENDLESS, "observe.sample_ms=5"]);
    launched.wait_for_steps();
    let run = sandbox.run_folder("run");
    let folders = ["worker_0", "worker_1", "ps_0"];
    let lines = |folder: &&str| {
        fs::read_to_string(run.file(folder).join("resources.csv"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    assert!(wait_until(|| folders.iter().all(|folder| lines(folder) > 5)), "no lines");
    launched.signal("KILL");
    launched.finish_task();
    assert!(wait_until(|| crate::support::processes_of(&run.path).is_empty()), "a process is left");
    for folder in folders {
        assert!(resources(&run.file(folder)).1.len() >= 5, "{folder}");
    }
}

#[test]
fn resources_are_sampled_only_on_request() {
    let sandbox = Sandbox::new();
    let run = sandbox.train("run", &["observe.sample_ms=0", "train.stop={steps=5}"]);
    assert!(!run.file("worker_0/resources.csv").exists());
    assert!(run.task("worker:0").get("resources").is_none());
    assert!(run.summary()["verdict"]["text"].is_string(), "there is a verdict all the same");
}

/// Checks that the verdict of a run is of this kind and that its shares add up to the whole time.
/// Returns the verdict.
#[track_caller]
fn check_verdict(run: &RunFolder, kind: &str, says: &[&str]) -> Value {
    let verdict = run.summary()["verdict"].clone();
    assert_eq!(verdict["kind"], kind, "{verdict}");
    assert_says(verdict["text"].as_str().unwrap(), says);
    assert!(verdict["advice"].as_array().is_some_and(|advice| !advice.is_empty()), "{verdict}");
    let shares = verdict["shares"].as_object().unwrap();
    assert!((shares.values().map(number).sum::<f64>() - 1.0).abs() < 1e-6, "{verdict}");
    verdict
}

#[test]
fn the_verdict_on_a_heavy_model_is_compute() {
    let sandbox = Sandbox::new();
    let run = sandbox.train("run", &["model.kind=lenet", "train.stop={steps=10}"]);
    check_verdict(&run, "compute", &["the worker spends", "% of the time computing"]);
}

#[test]
fn the_verdict_on_slow_examples_is_input() {
    let sandbox = Sandbox::new();
    let settings = [
        "train",
        "--quiet",
        "--run-dir",
        "run",
        "--set",
        "model.kind=softmax",
        "--set",
        "data={kind=\"fake-images\", size=160, classes=2, train_examples=200, test_examples=4}",
        "--set",
        "cluster.mode=single",
        "--set",
        "train={batch=20, stop={steps=10}}",
    ];
    sandbox.ok(&settings);
    check_verdict(&sandbox.run_folder("run"), "input", &["getting examples"]);
}

#[test]
fn the_verdict_on_tests_after_every_step_is_evaluation() {
    let sandbox = Sandbox::new();
    let settings = ["train.evaluate.every=1", "train.stop={steps=40}", "data.test_examples=4000"];
    let run = sandbox.train("single", &settings);
    check_verdict(&run, "evaluation", &["tests take", "train.evaluate.every"]);
    // Tests run beside the next step, so they must take far longer than a step.
    let heavy = ["model.kind=lenet", "train.batch=2", "data.test_examples=1000"];
    let settings = [&heavy[..], &["train.evaluate.every=1", "train.stop={steps=10}"]].concat();
    let run = sandbox.train_cluster("sync", "sync", &settings);
    check_verdict(&run, "evaluation", &["tests take"]);
}

#[test]
fn a_slow_worker_is_named_while_it_runs_in_the_verdict_and_in_the_ranking() {
    let sandbox = Sandbox::new();
    let settings = ["data.train_examples=1200", "train.batch=600", ENDLESS];
    let mut command = sandbox.cluster("run", "sync", &settings);
    command.env("PACELINE_TEST_SLOW", "1:8");
    let mut launched = RunningProcess::start(&mut command, sandbox.path("run"));
    launched.wait_for("ps:0: worker:1 is slow: ");
    launched.signal("INT");
    let output = launched.finish();
    let run = sandbox.run_folder("run");
    check_verdict(&run, "stragglers", &["worker:1 takes", "a look at worker:1's machine"]);
    let summary = run.summary();
    let ranking = &summary["ranking"];
    assert_eq!(
        (&ranking[0]["task"], &ranking[1]["task"]),
        (&"worker:1".into(), &"worker:0".into())
    );
    assert!(number(&ranking[0]["behind"]) > 1.5, "{ranking}");
    assert!(number(&run.task("worker:0")["held_seconds"]) > 0.0);
    assert_says(&output.stdout, &["verdict      stragglers: ", "slowest      worker:1 "]);
    assert_says(&run.log("ps:0"), &["worker:1 is slow: "]);
}

#[test]
fn the_verdict_on_many_light_workers_is_server() {
    let sandbox = Sandbox::new();
    let settings = [
        "cluster.workers=6",
        "data={kind=\"fake-images\", train_examples=64, test_examples=1}",
        "train.batch=1",
        "train.optimizer={kind=\"adam\", rate=0.0001}",
        "train.stop={seconds=1}",
        "train.evaluate.every=1000",
    ];
    let run = sandbox.train_cluster("run", "async", &settings);
    let says = ["exchanging gradients and parameters; ps:0 is busy for", "a larger train.batch"];
    check_verdict(&run, "server", &says);
}

/// Bytes per second that the slow network carries, each way.
const SLOW_BYTES_PER_S: f64 = 4e6;

/// Forwards bytes, no faster than a slow network.
fn forward_slowly(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 8192];
    let mut due = Instant::now();
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        due = due.max(Instant::now()) + Duration::from_secs_f64(len as f64 / SLOW_BYTES_PER_S);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Starts a proxy of limited speed in front of a server. Returns its port.
fn slow_network(server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for worker in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
            let ends = (worker.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || forward_slowly(worker, server));
            thread::spawn(move || forward_slowly(ends.1, ends.0));
        }
    });
    port
}

#[test]
fn the_verdict_on_a_slow_network_is_network() {
    let sandbox = Sandbox::new();
    let [server] = free_ports();
    let run = sandbox.run_folder("run");
    let start = |role: &str, index: usize, port: u16| {
        let mut command = sandbox.command(&["train", "--run-dir", run.str()]);
        command.env("TF_CONFIG", tf_config(&cluster_of(2, &[port]), role, index));
        let settings = [&SMALL_DATA[..], &["cluster.mode=async", "train.stop={steps=40}"]].concat();
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        RunningProcess::start(&mut command, run.path.clone())
    };
    let first = start("ps", 0, server);
    let up = wait_until(|| TcpStream::connect(("127.0.0.1", server)).is_ok());
    assert!(up, "{}", first.stderr());
    let slow = slow_network(server);
    let workers = [0, 1].map(|index| start("worker", index, slow));
    for task in workers.into_iter().chain([first]) {
        let output = task.finish_task();
        assert_eq!(output.code, Some(0), "{output:?}");
    }
    let verdict = check_verdict(&run, "network", &["network: workers spend"]);
    let shares = &verdict["shares"];
    assert!(number(&shares["network"]) > 2.0 * number(&shares["server"]), "{verdict}");
}
