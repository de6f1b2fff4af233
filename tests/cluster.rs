//! Runs of several tasks: every mode trains, ends as the job says, and shares the work.

use std::path::Path;

use serde_json::Value;

use crate::support::{RunFolder, RunningProcess, SHARED_MODES, Sandbox, assert_says, events};

const WORKER_PHASES: [&str; 6] = ["input", "pull", "compute", "push", "wait", "evaluation"];
const SERVER_PHASES: [&str; 4] = ["receive", "apply", "send", "idle"];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// The steps of each worker of a run, by slot.
fn worker_steps(run: &RunFolder) -> Vec<u64> {
    let summary = run.summary();
    let tasks = summary["tasks"].as_array().unwrap();
    let workers = tasks.iter().filter(|task| task["task"].as_str().unwrap().starts_with("worker"));
    workers.map(|task| task["steps"].as_u64().unwrap()).collect()
}

/// Checks that a task accounts for its time and has exchanged bytes.
fn check_task(task: &Value, phases: &[&str]) {
    let found: Vec<_> = task["phases"].as_object().unwrap().keys().collect();
    assert_eq!(found, phases, "{task}");
    let sum: f64 = phases.iter().map(|phase| number(&task["phases"][phase])).sum();
    let seconds = number(&task["seconds"]);
    assert!(seconds > 0.0 && (sum - seconds).abs() <= 0.02 * seconds, "{sum} of {seconds} s");
    for figure in ["steps", "sent_bytes", "received_bytes", "peak_rss_bytes"] {
        assert!(number(&task[figure]) > 0.0, "{figure}: {task}");
    }
}

#[test]
fn five_tasks_share_in_every_mode_and_leave_no_process_behind() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        let settings = ["cluster.workers=3", "cluster.servers=2", "train.stop={steps=600}"];
        let run = sandbox.train_cluster("run", mode, &settings);
        let summary = run.summary();
        assert_eq!((&summary["mode"], &summary["workers"]), (&mode.into(), &3.into()));
        assert_eq!((&summary["servers"], &summary["stop_reason"]), (&2.into(), &"steps".into()));

        let tasks = summary["tasks"].as_array().unwrap();
        let names: Vec<_> = tasks.iter().map(|task| task["task"].as_str().unwrap()).collect();
        assert_eq!(names, ["worker:0", "worker:1", "worker:2", "ps:0", "ps:1"]);
        tasks[..3].iter().for_each(|task| check_task(task, &WORKER_PHASES));
        tasks[3..].iter().for_each(|task| check_task(task, &SERVER_PHASES));
        for task in names {
            assert!(run.event_bytes(task) > 0, "{mode}: {task} has no events");
            assert!(run.file(&task.replace(':', "_")).join("log.txt").is_file(), "{task}");
        }

        // Every byte that one side sent the other received, except the last frames.
        let bytes = |tasks: &[Value], figure| tasks.iter().map(|task| number(&task[figure])).sum();
        let (workers, servers) = tasks.split_at(3);
        for (from, to) in [(workers, servers), (servers, workers)] {
            let (sent, received): (f64, f64) =
                (bytes(from, "sent_bytes"), bytes(to, "received_bytes"));
            assert!((sent / received - 1.0).abs() < 0.01, "{mode}: {sent} {received}");
        }
        for figure in ["sent_bytes", "received_bytes"] {
            let ratio = number(&tasks[3][figure]) / number(&tasks[4][figure]);
            assert!((0.95..1.05).contains(&ratio), "{mode}: {figure} differ by {ratio}");
        }
        let pushed: u64 = worker_steps(&run).iter().sum();
        assert_eq!(tasks[3]["steps"], pushed, "{mode}: every push is applied once");
        assert_eq!(tasks[4]["steps"], pushed, "{mode}: every push is applied once");
    }
}

#[test]
fn staleness_is_zero_in_sync_within_its_bound_in_bounded_and_written_for_tensorboard() {
    let sandbox = Sandbox::new();
    for (mode, limit) in [("sync", 0), ("bounded", 2 * 5), ("async", u64::MAX)] {
        let settings = ["cluster.workers=3", "cluster.staleness=2", "train.stop={steps=300}"];
        let settings = if mode == "bounded" { &settings[..] } else { &[settings[0], settings[2]] };
        let run = sandbox.train_cluster(mode, mode, settings);
        let server = run.task("ps:0");
        let (mean, max) = (number(&server["staleness_mean"]), server["staleness_max"].as_u64());
        let max = max.unwrap();
        // From two behind to three ahead: five pushes of each of the other two workers.
        assert!(max <= limit, "{mode}: {max}");
        assert!(mean <= max as f64, "{mode}: {mean} {max}");
        let histograms = &events(&run.path)["runs"]["ps_0"]["histograms"];
        // Every gradient is in the histogram, and in sync none is stale.
        let buckets = histograms["work_staleness"][0][1].as_array().unwrap();
        let count = |bucket: &Value| number(&bucket[2]);
        let applied = number(&run.task("ps:0")["steps"]);
        assert_eq!(buckets.iter().map(count).sum::<f64>(), applied, "{mode}: {histograms}");
        assert_eq!((number(&buckets[0][0]), number(&buckets[0][1])), (-0.5, 0.5));
        if mode == "sync" {
            assert_eq!(count(&buckets[0]), applied, "{histograms}");
        }
    }
}

#[test]
fn epochs_are_shared_out_to_the_last_example() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        for (examples, batch, workers, epochs) in
            [(607, 20, 3, 3), (600, 20, 3, 2), (600, 600, 2, 1), (101, 100, 3, 2)]
        {
            let name = format!("{examples}-{batch}");
            let settings = [
                format!("data.train_examples={examples}"),
                format!("train.batch={batch}"),
                format!("cluster.workers={workers}"),
                format!("train.stop={{epochs={epochs}}}"),
                "cluster.servers=2".to_owned(),
            ];
            let settings: Vec<_> = settings.iter().map(String::as_str).collect();
            let run = sandbox.train_cluster(&name, mode, &settings);
            let summary = run.summary();
            assert_eq!(summary["stop_reason"], "epochs", "{mode} {name}");
            assert_eq!(summary["examples"], examples * epochs, "{mode} {name}");
            let pushes = worker_steps(&run);
            let (most, least) = (pushes.iter().max().unwrap(), pushes.iter().min().unwrap());
            assert!(most - least <= 1, "{mode} {name}: a fair share each: {pushes:?}");
            let steps = if mode == "sync" { *most } else { pushes.iter().sum() };
            assert_eq!(summary["global_steps"], steps, "{mode} {name}");
        }
    }
}

/// Checks that a run with these stop conditions ends for this reason. Returns its summary.
#[track_caller]
fn check_stop(mode: &str, stop: &str, reason: &str) -> Value {
    let sandbox = Sandbox::new();
    let stop = format!("train.stop={stop}");
    let settings = ["cluster.workers=3", "cluster.servers=2", "train.evaluate.every=10", &stop];
    let summary = sandbox.train_cluster("run", mode, &settings).summary();
    assert_eq!(summary["stop_reason"], reason, "{mode} {stop}");
    summary
}

#[test]
fn every_condition_ends_a_run_in_every_mode() {
    for mode in SHARED_MODES {
        let steps = &check_stop(mode, "{steps=25}", "steps")["global_steps"];
        // Pushes that were in transit at the last step still count.
        let most = if mode == "sync" { 25 } else { 25 + 2 };
        assert!((25..=most).contains(&steps.as_u64().unwrap()), "{mode}: {steps}");

        let seconds = check_stop(mode, "{seconds=0.3, epochs=1000000}", "seconds");
        assert!((0.3..2.0).contains(&number(&seconds["seconds"])), "{mode}: {seconds}");

        let reached = check_stop(mode, "{test_loss=1.5, steps=1000000}", "test_loss");
        // In `async`, workers on a busy machine make steps until they learn of the end.
        let loss = number(&reached["test_loss"]);
        assert!((0.4..=1.5).contains(&loss), "{mode}: {loss}");
    }
}

#[test]
fn thirty_two_light_workers_make_progress_in_every_mode() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        let steps = if mode == "sync" { 20 } else { 20 * 32 };
        let stop = format!("train.stop={{steps={steps}}}");
        let data = ["data.train_examples=2000", "data.test_examples=200"];
        let settings = [&data[..], &["cluster.workers=32", "train.batch=10", &stop]].concat();
        let run = sandbox.train_cluster("run", mode, &settings);
        let made = run.summary()["global_steps"].as_u64().unwrap();
        assert!((steps..steps + 32).contains(&made), "{mode}: {made}");
        let steps = worker_steps(&run);
        assert_eq!(steps.len(), 32, "{mode}");
        if mode != "async" {
            // The default staleness is 4: a worker that is 5 steps ahead waits.
            assert!(steps.iter().all(|own| own.abs_diff(20) <= 5 + 1), "{mode}: {steps:?}");
        }
        let peak = run.task("ps:0")["peak_rss_bytes"].as_u64().unwrap();
        assert!(peak < 64_000_000, "{mode}: the server held {peak} bytes");
    }
}

#[test]
fn a_backup_keeps_sync_going_when_one_worker_is_slow() {
    let sandbox = Sandbox::new();
    let settings = ["data.train_examples=2400", "train.batch=600", "train.stop={steps=60}"];
    for quorum in [2, 3] {
        let (name, quorum_setting) = (quorum.to_string(), format!("cluster.quorum={quorum}"));
        let settings = [&settings[..], &["cluster.workers=3", &quorum_setting]].concat();
        let mut command = sandbox.cluster(&name, "sync", &settings);
        command.env("PACELINE_TEST_SLOW", "2:30");
        let output = RunningProcess::start(&mut command, sandbox.path(&name)).finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let run = sandbox.run_folder(&name);
        assert_eq!(run.summary()["global_steps"], 60);
        assert_eq!(run.task("ps:0")["steps"], quorum * 60, "{quorum} gradients per step");
        let [steps, dropped] =
            ["steps", "dropped"].map(|figure| number(&run.task("worker:2")[figure]));
        match quorum {
            // Late gradients of the slow worker were counted and dropped.
            2 => assert!(dropped > 0.0 && steps < 45.0, "{steps} steps, {dropped} dropped"),
            _ => assert_eq!((steps, dropped), (60.0, 0.0)),
        }
    }
}

#[test]
fn a_slow_worker_delays_no_other_in_async_and_none_beyond_the_bound_in_bounded() {
    let sandbox = Sandbox::new();
    let settings = ["data.train_examples=1200", "train.batch=300", "train.stop={steps=120}"];
    for mode in ["async", "bounded"] {
        let bound = ["cluster.staleness=2"];
        let more = if mode == "bounded" { &bound[..] } else { &[] };
        let mut command = sandbox.cluster(mode, mode, &[&settings[..], more].concat());
        // So slow that a worker that starts a second earlier makes few steps in it.
        command.env("PACELINE_TEST_SLOW", "1:100");
        let output = RunningProcess::start(&mut command, sandbox.path(mode)).finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let steps = worker_steps(&sandbox.run_folder(mode));
        match mode {
            "async" => assert!(steps[0] >= steps[1] * 3 / 2, "{steps:?}"),
            _ => assert!(steps[0].abs_diff(steps[1]) <= 3, "{steps:?}"),
        }
    }
}

#[test]
fn bad_input_ends_a_run_before_any_task_starts() {
    let sandbox = Sandbox::new();
    sandbox.idx_set("set", 12, 3);
    let before = sandbox.tree();
    for (settings, says) in [
        (&["train.batch=601"][..], "train.batch is 601"),
        (&["data={kind=\"mnist\"}"], "mnist is not on this machine"),
        (&["data={kind=\"mnist\", path=\"set\"}", "train.batch=13"], "only 12 training examples"),
        (&["cluster.workers=0"], "cluster.workers must be"),
        (&["cluster.mode=sync", "cluster.quorum=3"], "cluster.quorum is 3"),
        (
            &["cluster.mode=sync", "cluster.quorum=1", "cluster.servers=2"],
            "cluster.quorum leaves 1 backups",
        ),
        (&["cluster.servers=0"], "cluster.servers must be"),
    ] {
        let launched = sandbox.launch("run", "async", settings);
        let output = launched.finish();
        assert_eq!(output.code, Some(2), "{settings:?}: {output:?}");
        assert_says(&output.stderr, &["error: ", says]);
        assert_eq!(output.stderr.matches(says).count(), 1, "printed once: {output:?}");
        assert_eq!(sandbox.tree(), before, "{settings:?} left something behind");
    }
}

#[test]
fn quiet_silences_every_task() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.cluster("run", "async", &["train.stop={steps=50}"]);
    let output = RunningProcess::start(command.arg("--quiet"), sandbox.path("run")).finish();
    // Only the path of the run is printed, for scripts.
    let path = output.stdout.trim_end().to_owned();
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert_eq!(Path::new(&path), sandbox.path("run"), "{output:?}");
}

#[test]
fn a_run_of_several_tasks_trains_again_from_the_job_it_left() {
    let sandbox = Sandbox::new();
    let settings = ["cluster.workers=3", "cluster.servers=2", "train.stop={steps=60}"];
    let first = sandbox.train_cluster("first", "sync", &settings);
    let job = first.file("job.toml");
    sandbox.ok(&["train", "--quiet", "--run-dir", "again", job.to_str().unwrap()]);
    assert!(first.model() == sandbox.run_folder("again").model(), "the bytes differ");
    let figures = sandbox.ok(&["evaluate", "--json", first.str()]).stdout;
    let figures: Value = serde_json::from_str(&figures).unwrap();
    assert_eq!(figures["test_loss"], first.summary()["test_loss"]);
}
