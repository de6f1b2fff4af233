//! The timeline of a run: what every task did in a few steps, on one clock, in the format of
//! Chrome's trace viewer.

mod timeline;

use std::fs;

use serde_json::Value;

use crate::support::{ManualRun, RunFolder, Sandbox, assert_says, cluster_of, free_ports};
use timeline::{ArrowEnd, ParsedTimeline, coverage, steps};

const TRACE: &str = "observe.trace={from=5, steps=4}";

#[test]
fn a_small_network_on_a_server_and_two_workers_is_recorded_whole_with_arrows_and_counters() {
    let sandbox = Sandbox::new();
    let settings = [
        TRACE,
        // Samples often enough, and steps long enough, that samples fall into the window.
        "observe.sample_ms=5",
        "model.kind=lenet",
        "train.batch=120",
        "train.stop={steps=30}",
        "train.evaluate.every=7",
        "cluster.staleness=2",
    ];
    let run = sandbox.train_cluster("run", "bounded", &settings);
    let timeline = ParsedTimeline::read(&run);
    assert_eq!(timeline.other["missing"], Value::Array(vec![]));
    for worker in ["worker:0", "worker:1"] {
        let slices = timeline.thread(worker, "steps");
        assert!(coverage(slices) >= 0.95, "{worker}: {}", coverage(slices));
        assert_eq!(steps(slices), [5, 6, 7, 8], "{worker}");
        let counts = timeline.counts(worker);
        for operation in [
            "take in",
            "conv1 convolution",
            "conv1 convolution back",
            "fc3 dense",
            "fc3 dense back",
            "loss",
        ] {
            assert_eq!(counts.get(operation), Some(&4), "{worker}: {operation} of {counts:?}");
        }
        for operation in ["input", "compute", "push", "pull"] {
            assert!(counts[operation] >= 4, "{worker}: {operation} of {counts:?}");
        }
        let conv = slices.iter().find(|slice| slice.name == "conv1 convolution").unwrap();
        assert_eq!(conv.args["size"], "6x28x28");
        // The layers are parts of the computation; on a busy machine each may be kept waiting.
        let total = |names: &[&str]| {
            let of = slices.iter().filter(|slice| names.contains(&slice.name.as_str()));
            of.map(|slice| slice.end - slice.start).sum::<i64>()
        };
        let is_layer = |name: &&&str| name.contains("conv") || name.contains("fc");
        let layers: Vec<_> = counts.keys().filter(is_layer).copied().collect();
        assert_eq!(layers.len(), 10, "{layers:?}");
        let (layers, all) = (total(&layers), total(&["compute"]));
        assert!((1..=all).contains(&layers), "{worker}: {layers} of {all}");
        let connection = timeline.thread("ps:0", &format!("connection of {worker}"));
        let applied = connection.iter().filter(|slice| slice.name == "apply").count();
        assert!(applied >= 4, "{worker}: {applied}");
    }
    for task in ["worker:0", "worker:1", "ps:0"] {
        for counter in ["cpu_percent", "received_bytes_per_s", "sent_bytes_per_s"] {
            assert!(timeline.counters[&(task.to_owned(), counter.to_owned())] >= 2, "{task}");
        }
    }
    check_arrows(&timeline, 8);
}

/// Checks that all arrows go from a worker's push to the server's apply and back to that worker's
/// pull, forward in time.
#[track_caller]
fn check_arrows(timeline: &ParsedTimeline, count: usize) {
    assert_eq!(timeline.arrows.len(), count, "{:?}", timeline.arrows);
    for ends in timeline.arrows.values() {
        let shown = |end: &ArrowEnd| {
            let role = end.task.split(':').next().unwrap();
            format!("{} {role} {}", end.phase, end.operation)
        };
        let path: Vec<_> = ends.iter().map(shown).collect();
        assert_eq!(path, ["s worker push", "t ps apply", "f worker pull"]);
        assert_eq!(ends[0].task, ends[2].task, "{ends:?}");
        assert!(ends.is_sorted_by_key(|end| end.at), "back in time: {ends:?}");
    }
}

#[test]
fn every_mode_has_a_timeline_and_a_table() {
    let sandbox = Sandbox::new();
    let says = |run: &RunFolder, fragments: &[&str]| {
        let output = sandbox.ok(&["trace", "summary", run.str()]);
        assert_says(&output.stdout, &["task", "operation", "output size", "calls", "total ms"]);
        assert_says(&output.stdout, fragments);
        let totals: Vec<f64> = output
            .stdout
            .lines()
            .skip(1)
            .map(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                words[words.len() - 2].parse().unwrap()
            })
            .collect();
        assert!(totals.len() > 5 && totals.is_sorted_by(|a, b| a >= b), "{}", output.stdout);
    };
    let run = sandbox.train("single", &[TRACE, "train.stop={steps=12}"]);
    let timeline = ParsedTimeline::read(&run);
    assert!(coverage(timeline.thread("worker:0", "steps")) >= 0.95);
    assert_eq!(timeline.counts("worker:0")["apply"], 4);
    says(&run, &["softmax", "60x784", "7850"]);

    let run = sandbox.train_cluster("sync", "sync", &[TRACE, "train.stop={steps=12}"]);
    let timeline = ParsedTimeline::read(&run);
    check_arrows(&timeline, 8);
    let workers = ["worker:0", "worker:1"].map(|task| timeline.thread(task, "steps"));
    assert!(workers.iter().all(|slices| coverage(slices) >= 0.95));
    says(&run, &["worker", "ps", "apply", "receive"]);

    let run = sandbox.train_cluster("mirrored", "mirrored", &[TRACE, "train.stop={steps=12}"]);
    let timeline = ParsedTimeline::read(&run);
    for worker in ["worker:0", "worker:1"] {
        let slices = timeline.thread(worker, "steps");
        assert!(coverage(slices) >= 0.95 && steps(slices) == [5, 6, 7, 8], "{worker}");
        assert_eq!(timeline.counts(worker)["apply"], 4);
    }
    // Two workers of a small model each apply the other's gradient and send nothing back.
    assert_eq!(timeline.arrows.len(), 8);
    for ends in timeline.arrows.values() {
        assert_eq!((ends[0].operation.as_str(), ends[1].operation.as_str()), ("push", "apply"));
        assert!(ends[0].task != ends[1].task && ends[0].at <= ends[1].at, "{ends:?}");
    }
    says(&run, &["softmax", "apply"]);
}

#[test]
fn sparse_rows_have_a_timeline() {
    let sandbox = Sandbox::new();
    let settings = [
        "--set",
        "data={kind=\"clicks\", features=1000, train_examples=4000, test_examples=50}",
        "--set",
        "train={batch=50, stop={steps=40}}",
        "--set",
        TRACE,
    ];
    for (name, mode) in [("single", "single"), ("bounded", "bounded")] {
        let mode = format!("cluster.mode={mode}");
        let first = ["train", "--quiet", "--run-dir", name, "--set", &mode];
        sandbox.ok(&[&first[..], &settings[..]].concat());
        let timeline = ParsedTimeline::read(&sandbox.run_folder(name));
        let slices = timeline.thread("worker:0", "steps");
        assert!(coverage(slices) >= 0.95, "{}", coverage(slices));
        assert_eq!(timeline.counts("worker:0")["logistic"], 4);
    }
}

#[test]
fn clocks_hours_apart_are_aligned_and_a_missing_task_is_named() {
    let sandbox = Sandbox::new();
    let run = sandbox.train_cluster("run", "sync", &[TRACE, "train.stop={steps=12}"]);
    let before = ParsedTimeline::read(&run);
    // As if the tasks had run on machines with wrong clocks.
    for (task, hours) in [("worker_1", 3), ("ps_0", -5)] {
        let path = run.file(task).join("trace-part.json");
        let mut part: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let base = part["base_unix_ns"].as_i64().unwrap() + hours * 3_600_000_000_000;
        part["base_unix_ns"] = base.into();
        fs::write(&path, part.to_string()).unwrap();
    }
    sandbox.ok(&["trace", "merge", run.str()]);
    let after = ParsedTimeline::read(&run);
    check_arrows(&after, 8);
    for (thread, slices) in &before.slices {
        for (old, new) in slices.iter().zip(&after.slices[thread]) {
            // The error is at most the fastest round trip.
            assert!((old.start - new.start).abs() < 50_000_000, "{thread:?}: {old:?} {new:?}");
        }
    }
    fs::remove_file(run.file("worker_1/trace-part.json")).unwrap();
    let output = sandbox.ok(&["trace", "merge", run.str()]);
    assert_says(&output.stderr, &["trace.json has nothing of worker:1", "copy"]);
    let other = ParsedTimeline::read(&run).other;
    assert_eq!(other["missing"], serde_json::json!(["worker:1"]));
}

#[test]
fn an_evaluator_is_on_the_timeline() {
    let [port] = free_ports();
    // Steps long enough for the evaluator to see some of them.
    let settings = [
        "model.kind=lenet",
        "train.batch=120",
        "train.stop={seconds=1}",
        "train.evaluate.every=5",
        "observe.trace={from=1, steps=10000}",
    ];
    let manual_run = ManualRun::new(cluster_of(1, &[port]), &settings);
    let tasks = [("evaluator", 0), ("ps", 0), ("worker", 0)];
    let tasks = tasks.map(|(role, index)| manual_run.start(role, index));
    manual_run.wait_for_log("evaluator:0", "test loss ");
    manual_run.all_end_well(tasks.into());
    // The evaluator may write its part after the coordinator has merged the others.
    let output = manual_run.sandbox.ok(&["trace", "merge", manual_run.run().str()]);
    assert_says(&output.stdout, &["worker:0, ps:0, evaluator:0"]);
    let timeline = ParsedTimeline::read(&manual_run.run());
    let counts = timeline.counts("evaluator:0");
    assert!(counts["test"] >= 1 && counts["pull"] >= counts["test"], "{counts:?}");
    let slices = timeline.thread("evaluator:0", "tests");
    assert!(coverage(slices) >= 0.95, "{}", coverage(slices));
}

#[test]
fn a_run_too_short_for_its_timeline_says_so_and_a_run_without_one_has_no_file() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop={steps=4}", "observe.trace.from=1000"];
    let output = sandbox.launch("late", "async", &settings).finish();
    assert_says(&output.stderr, &["there is no trace.json: the run ended before step 1000"]);
    assert!(!sandbox.run_folder("late").file("trace.json").exists());
    let run = sandbox.train("none", &["train.stop={steps=4}"]);
    assert!(!sandbox.tree().iter().any(|path| path.contains("none/") && path.contains("trace")));
    let printed = sandbox.fails(2, &["trace", "summary", run.str()]);
    assert_says(&printed, &["there is no timeline; train with --set 'observe.trace="]);
}
