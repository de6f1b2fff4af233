//! The timeline of a run: what every task did in a few steps, on one clock, in the format of Chrome's
//! trace viewer.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use serde_json::Value;

use crate::support::ManualRun;
use crate::support::{RunFolder, RunningProcess, Sandbox, assert_says, cluster_of, free_ports};

/// A slice of a thread: when it began and ended in nanoseconds, its name and its arguments.
type Slice = (i64, i64, String, Value);

/// A timeline, read strictly.
struct Timeline {
    /// The names of processes and threads.
    tasks: BTreeMap<u64, String>,
    threads: BTreeMap<(u64, u64), String>,
    slices: BTreeMap<(u64, u64), Vec<Slice>>,
    counters: HashMap<(String, String), usize>,
    /// Arrows by id: the phase, task, operation and time of each end.
    arrows: BTreeMap<u64, Vec<(String, String, String, i64)>>,
    other: Value,
}

impl Timeline {
    /// Every event must be one that there is, slices must lie in one another, and arrows begin
    /// and end in slices.
    #[track_caller]
    fn read(run: &RunFolder) -> Self {
        let file = fs::read(run.file("trace.json")).unwrap();
        let file: Value = serde_json::from_slice(&file).unwrap();
        let mut read = Self {
            tasks: BTreeMap::new(),
            threads: BTreeMap::new(),
            slices: BTreeMap::new(),
            counters: HashMap::new(),
            arrows: BTreeMap::new(),
            other: file["otherData"].clone(),
        };
        let events = file["traceEvents"].as_array().unwrap();
        for event in events {
            read.take(event);
        }
        read.check_nesting();
        for event in events.iter().filter(|event| event["cat"] == "gradient") {
            read.take_arrow(event);
        }
        read
    }

    fn take(&mut self, event: &Value) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let ns = |value: &Value| (value.as_f64().unwrap() * 1e3).round() as i64;
        let thread = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        match event["ph"].as_str().unwrap() {
            "M" => match event["name"].as_str().unwrap() {
                "process_name" => {
                    let name = text(&event["args"]["name"]);
                    let task = name.split_once('@').unwrap().0.to_owned();
                    assert!(self.tasks.insert(thread.0, task).is_none(), "twice: {event}");
                }
                "thread_name" => {
                    let name = text(&event["args"]["name"]);
                    assert!(self.threads.insert(thread, name).is_none(), "twice: {event}");
                }
                name => assert!(name.ends_with("_sort_index"), "{event}"),
            },
            "X" => {
                assert!(self.threads.contains_key(&thread), "a thread without a name: {event}");
                let (started, length) = (ns(&event["ts"]), ns(&event["dur"]));
                assert!(started >= 0 && length >= 0, "{event}");
                let slice =
                    (started, started + length, text(&event["name"]), event["args"].clone());
                self.slices.entry(thread).or_default().push(slice);
            }
            "C" => {
                assert!(event["args"].as_object().unwrap().values().all(Value::is_number));
                let key = (self.tasks[&thread.0].clone(), text(&event["name"]));
                *self.counters.entry(key).or_default() += 1;
            }
            "s" | "t" | "f" => {}
            _ => panic!("{event}"),
        }
    }

    fn check_nesting(&self) {
        for (thread, slices) in &self.slices {
            let mut open: Vec<i64> = Vec::new();
            let mut last = 0;
            for (started, ended, name, _) in slices {
                assert!(*started >= last, "{thread:?}: {name} is out of order");
                last = *started;
                while open.last().is_some_and(|end| end <= started) {
                    open.pop();
                }
                let inside = open.last().is_none_or(|end| ended <= end);
                assert!(inside, "{thread:?}: {name} at {started} ends outside of what it is in");
                open.push(*ended);
            }
        }
    }

    fn take_arrow(&mut self, event: &Value) {
        let thread = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let at = (event["ts"].as_f64().unwrap() * 1e3).round() as i64;
        let around = self.slices[&thread]
            .iter()
            .filter(|(started, ended, ..)| *started <= at && at <= *ended);
        let inmost = around.max_by_key(|(started, ended, ..)| (*started, -*ended));
        let operation = inmost.unwrap_or_else(|| panic!("in no slice: {event}")).2.clone();
        let phase = event["ph"].as_str().unwrap().to_owned();
        let end = (phase, self.tasks[&thread.0].clone(), operation, at);
        self.arrows.entry(event["id"].as_u64().unwrap()).or_default().push(end);
    }

    /// The slices of a task's thread.
    #[track_caller]
    fn of(&self, task: &str, thread: &str) -> &[Slice] {
        let found = self
            .threads
            .iter()
            .find(|((pid, _), name)| self.tasks[pid] == task && name.as_str() == thread);
        &self.slices[found.unwrap_or_else(|| panic!("no {thread} of {task}")).0]
    }

    /// How often each operation of a task was recorded.
    fn counts(&self, task: &str) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for ((pid, _), slices) in &self.slices {
            for slice in slices.iter().filter(|_| self.tasks[pid] == task) {
                *counts.entry(slice.2.as_str()).or_default() += 1;
            }
        }
        counts
    }
}

/// The share of the time from the first slice to the last that slices cover.
fn covered(slices: &[Slice]) -> f64 {
    let (first, last) = (slices[0].0, slices.iter().map(|slice| slice.1).max().unwrap());
    let (mut sum, mut end) = (0, first);
    for (started, ended, ..) in slices {
        sum += (ended - end.max(*started)).max(0);
        end = end.max(*ended);
    }
    sum as f64 / (last - first) as f64
}

/// The steps that slices are of.
fn steps(slices: &[Slice]) -> Vec<u64> {
    let mut steps: Vec<_> = slices.iter().map(|slice| slice.3["step"].as_u64().unwrap()).collect();
    steps.dedup();
    steps
}

const TRACE: &str = "observe.trace={from=5, steps=4}";

#[test]
fn a_small_network_on_a_server_and_two_workers_is_recorded_whole_with_arrows_and_counters() {
    let sandbox = Sandbox::new();
    let settings = [
        TRACE,
        // So many looks, and steps so long, that some fall into the window.
        "observe.sample_ms=5",
        "model.kind=lenet",
        "train.batch=120",
        "train.stop={steps=30}",
        "train.evaluate.every=7",
        "cluster.staleness=2",
    ];
    let run = sandbox.train_cluster("run", "bounded", &settings);
    let timeline = Timeline::read(&run);
    assert_eq!(timeline.other["missing"], Value::Array(vec![]));
    for worker in ["worker:0", "worker:1"] {
        let slices = timeline.of(worker, "steps");
        assert!(covered(slices) >= 0.95, "{worker}: {}", covered(slices));
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
        let conv = slices.iter().find(|slice| slice.2 == "conv1 convolution").unwrap();
        assert_eq!(conv.3["size"], "6x28x28");
        // What is computed is computed by layers; on a busy machine each may be kept waiting.
        let total = |names: &[&str]| {
            let of = slices.iter().filter(|slice| names.contains(&slice.2.as_str()));
            of.map(|slice| slice.1 - slice.0).sum::<i64>()
        };
        let is_layer = |name: &&&str| name.contains("conv") || name.contains("fc");
        let layers: Vec<_> = counts.keys().filter(is_layer).copied().collect();
        assert_eq!(layers.len(), 10, "{layers:?}");
        let (layers, all) = (total(&layers), total(&["compute"]));
        assert!((1..=all).contains(&layers), "{worker}: {layers} of {all}");
        let connection = timeline.of("ps:0", &format!("connection of {worker}"));
        let applied = connection.iter().filter(|slice| slice.2 == "apply").count();
        assert!(applied >= 4, "{worker}: {applied}");
    }
    for task in ["worker:0", "worker:1", "ps:0"] {
        for counter in ["cpu_percent", "received_bytes_per_s", "sent_bytes_per_s"] {
            assert!(timeline.counters[&(task.to_owned(), counter.to_owned())] >= 2, "{task}");
        }
    }
    check_arrows(&timeline, 8);
}

/// All arrows must go from a worker's push to the server's apply and back to that worker's pull,
/// forward in time.
#[track_caller]
fn check_arrows(timeline: &Timeline, count: usize) {
    assert_eq!(timeline.arrows.len(), count, "{:?}", timeline.arrows);
    for ends in timeline.arrows.values() {
        let way: Vec<_> = ends
            .iter()
            .map(|(phase, task, operation, _)| {
                (phase.as_str(), task.split(':').next().unwrap(), operation.as_str())
            })
            .collect();
        let expected = [("s", "worker", "push"), ("t", "ps", "apply"), ("f", "worker", "pull")];
        assert_eq!(way, expected);
        assert_eq!(ends[0].1, ends[2].1, "{ends:?}");
        assert!(ends.is_sorted_by_key(|end| end.3), "back in time: {ends:?}");
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
    let timeline = Timeline::read(&run);
    assert!(covered(timeline.of("worker:0", "steps")) >= 0.95);
    assert_eq!(timeline.counts("worker:0")["apply"], 4);
    says(&run, &["softmax", "60x784", "7850"]);

    let run = sandbox.train_cluster("sync", "sync", &[TRACE, "train.stop={steps=12}"]);
    let timeline = Timeline::read(&run);
    check_arrows(&timeline, 8);
    let workers = ["worker:0", "worker:1"].map(|task| timeline.of(task, "steps"));
    assert!(workers.iter().all(|slices| covered(slices) >= 0.95));
    says(&run, &["worker", "ps", "apply", "receive"]);

    let run = sandbox.train_cluster("mirrored", "mirrored", &[TRACE, "train.stop={steps=12}"]);
    let timeline = Timeline::read(&run);
    for worker in ["worker:0", "worker:1"] {
        let slices = timeline.of(worker, "steps");
        assert!(covered(slices) >= 0.95 && steps(slices) == [5, 6, 7, 8], "{worker}");
        assert_eq!(timeline.counts(worker)["apply"], 4);
    }
    // Two workers of a small model each apply the other's gradient, and send nothing back.
    assert_eq!(timeline.arrows.len(), 8);
    for ends in timeline.arrows.values() {
        assert_eq!((ends[0].2.as_str(), ends[1].2.as_str()), ("push", "apply"));
        assert!(ends[0].1 != ends[1].1 && ends[0].3 <= ends[1].3, "{ends:?}");
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
        let timeline = Timeline::read(&sandbox.run_folder(name));
        let slices = timeline.of("worker:0", "steps");
        assert!(covered(slices) >= 0.95, "{}", covered(slices));
        assert_eq!(timeline.counts("worker:0")["logistic"], 4);
    }
}

#[test]
fn clocks_hours_apart_are_aligned_and_a_missing_task_is_named() {
    let sandbox = Sandbox::new();
    let run = sandbox.train_cluster("run", "sync", &[TRACE, "train.stop={steps=12}"]);
    let before = Timeline::read(&run);
    // As if the tasks had run on machines whose clocks nobody sets.
    for (task, hours) in [("worker_1", 3), ("ps_0", -5)] {
        let path = run.file(task).join("trace-part.json");
        let mut part: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let base = part["base_unix_ns"].as_i64().unwrap() + hours * 3_600_000_000_000;
        part["base_unix_ns"] = base.into();
        fs::write(&path, part.to_string()).unwrap();
    }
    sandbox.ok(&["trace", "merge", run.str()]);
    let after = Timeline::read(&run);
    check_arrows(&after, 8);
    for (thread, slices) in &before.slices {
        for (old, new) in slices.iter().zip(&after.slices[thread]) {
            // No further off than the quickest round trip took.
            assert!((old.0 - new.0).abs() < 50_000_000, "{thread:?}: {old:?} {new:?}");
        }
    }
    fs::remove_file(run.file("worker_1/trace-part.json")).unwrap();
    let output = sandbox.ok(&["trace", "merge", run.str()]);
    assert_says(&output.stderr, &["trace.json has nothing of worker:1", "copy"]);
    let other = Timeline::read(&run).other;
    assert_eq!(other["missing"], serde_json::json!(["worker:1"]));
}

#[test]
fn an_evaluator_is_on_the_timeline() {
    let [port] = free_ports();
    // Steps so long that the evaluator sees some of them.
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
    // It may have left its part when the chief had put the others together.
    let output = manual_run.sandbox.ok(&["trace", "merge", manual_run.run().str()]);
    assert_says(&output.stdout, &["worker:0, ps:0, evaluator:0"]);
    let timeline = Timeline::read(&manual_run.run());
    let counts = timeline.counts("evaluator:0");
    assert!(counts["test"] >= 1 && counts["pull"] >= counts["test"], "{counts:?}");
    let slices = timeline.of("evaluator:0", "tests");
    assert!(covered(slices) >= 0.95, "{}", covered(slices));
}

#[test]
fn a_run_too_short_for_its_timeline_says_so_and_a_run_without_one_has_no_file() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.cluster("late", "async", &["train.stop={steps=4}", TRACE, "--quiet"]);
    command.args(["--set", "observe.trace.from=1000"]);
    let mut late =
        sandbox.cluster("late", "async", &["train.stop={steps=4}", "observe.trace.from=1000"]);
    let output = RunningProcess::start(&mut late, sandbox.path("late")).finish();
    assert_says(&output.stderr, &["there is no trace.json: the run ended before step 1000"]);
    assert!(!sandbox.run_folder("late").file("trace.json").exists());
    let run = sandbox.train("none", &["train.stop={steps=4}"]);
    assert!(!sandbox.tree().iter().any(|path| path.contains("none/") && path.contains("trace")));
    let printed = sandbox.fails(2, &["trace", "summary", run.str()]);
    assert_says(&printed, &["there is no timeline; train with --set 'observe.trace="]);
}
