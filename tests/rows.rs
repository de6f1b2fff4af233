//! Sparse rows: every mode trains on them, exchanges only the keys of a batch, and computes what
//! the dense model computes.

use serde_json::Value;

use crate::support::{RunFolder, RunningProcess, SHARED_MODES, Sandbox, assert_says, points};

/// A few thousand clicks over few features, so that every run takes milliseconds.
const CLICKS: [&str; 5] = [
    "data.kind=clicks",
    "data.features=3000",
    "data.train_examples=3000",
    "data.test_examples=500",
    "train.batch=50",
];

/// Every update rule that a sparse table computes exactly, with a rate that suits it.
const RULES: [&str; 4] = [
    "train.optimizer={kind=\"sgd\", rate=0.5}",
    "train.optimizer={kind=\"sgd\", rate=0.5, decay=0.01, \
     schedule={kind=\"exponential\", every=50}}",
    "train.optimizer={kind=\"adagrad\", rate=0.1}",
    "train.optimizer={kind=\"ftrl\", rate=0.2, l1=0.001, l2=0.01}",
];

fn with<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    [&CLICKS[..], settings].concat()
}

/// Trains with these settings in any mode, `single` included.
fn train(sandbox: &Sandbox, name: &str, mode: &str, settings: &[&str]) -> RunFolder {
    match mode {
        "single" => sandbox.train(name, &with(settings)),
        _ => sandbox.train_cluster(name, mode, &with(settings)),
    }
}

#[test]
fn keys_of_a_step_and_their_bytes_are_recorded_in_place_and_over_servers() {
    let sandbox = Sandbox::new();
    for mode in ["single", "sync"] {
        let settings = ["train.stop={seconds=1}", "observe.sample_ms=20"];
        let events = train(&sandbox, mode, mode, &settings).worker_events();
        let curve = |tag: &str| points(&events, &format!("work_sparse/{tag}_per_step"));
        let (keys, key_bytes, bytes) = (curve("keys"), curve("key_bytes"), curve("value_bytes"));
        assert!(!keys.is_empty() && keys.len() == bytes.len(), "{mode}: {keys:?}");
        // A batch has 50 rows of 39 keys. In place they count as often as they occur.
        let most = 50.0 * 39.0 + 1.0;
        assert!(keys.iter().all(|point| 500.0 < point.1 && point.1 <= most), "{mode}: {keys:?}");
        assert!(mode == "sync" || keys.iter().all(|point| point.1 == most - 1.0), "{keys:?}");
        for ((keys, key_bytes), bytes) in keys.iter().zip(&key_bytes).zip(&bytes) {
            assert_eq!(bytes.1, 4.0 * keys.1, "{mode}");
            // To a server the gaps between keys are sent, which take fewer bytes.
            let each = key_bytes.1 / keys.1;
            let is_right = if mode == "sync" { 1.0 < each && each < 3.5 } else { each == 4.0 };
            assert!(is_right, "{mode}: {each} bytes");
        }
    }
}

#[track_caller]
fn assert_near(left: &RunFolder, right: &RunFolder, tolerance: f32, what: &str) {
    let (left, right) = (left.params(), right.params());
    assert_eq!(left.len(), right.len(), "{what}");
    let distance = left.iter().zip(&right).map(|(l, r)| (l - r).abs()).fold(0.0, f32::max);
    let size = left.iter().fold(0.0, |size: f32, value| size.max(value.abs()));
    assert!(distance <= tolerance, "{what}: {distance} apart");
    assert!(size > 0.01, "{what}: nothing was learnt");
}

#[test]
fn every_mode_learns_clicks_with_any_number_of_servers() {
    for mode in ["single", "async", "sync", "bounded"] {
        for servers in ["cluster.servers=1", "cluster.servers=3"] {
            if mode == "single" && servers != "cluster.servers=1" {
                continue; // It has none.
            }
            let sandbox = Sandbox::new();
            let settings = ["train.stop={epochs=6}", "train.optimizer.rate=0.5", servers];
            let used = if mode == "single" { &settings[..2] } else { &settings };
            let run = train(&sandbox, "run", mode, used);
            let summary = run.summary();
            let figure = |name: &str| summary[name].as_f64().unwrap();
            assert!(figure("test_auc") > 0.65, "{mode}: {summary}");
            assert_eq!(figure("test_log_loss"), figure("test_loss"));
            assert!(figure("test_precision") > 0.0);
            assert_eq!(figure("examples"), 18_000.0, "{mode}: every row once an epoch");
            let auc = points(&run.worker_events(), "test/auc");
            assert_eq!(auc.last().unwrap().1, figure("test_auc") as f32, "{mode}");
        }
    }
}

#[test]
fn sync_follows_single_with_as_many_times_the_batch_for_every_rule() {
    for rule in RULES {
        let sandbox = Sandbox::new();
        let settings = [rule, "train.stop={steps=100}"];
        let two = train(&sandbox, "two", "sync", &[&settings[..], &["cluster.servers=2"]].concat());
        let one = train(&sandbox, "one", "single", &[&settings[..], &["train.batch=100"]].concat());
        assert_near(&two, &one, 1e-5, rule);
    }
}

#[test]
fn sparse_and_dense_models_agree_for_every_rule() {
    for rule in RULES {
        for mode in ["single", "sync"] {
            let sandbox = Sandbox::new();
            let settings = [rule, "train.stop={steps=60}", "data.features=500"];
            let sparse = train(&sandbox, "sparse", mode, &settings);
            let dense =
                train(&sandbox, "dense", mode, &[&settings[..], &["model.dense=true"]].concat());
            assert_near(&sparse, &dense, 1e-6, &format!("{mode}, {rule}"));
        }
    }
}

#[test]
fn equal_seeds_give_equal_bytes_in_single_and_in_sync_over_any_number_of_servers() {
    let sandbox = Sandbox::new();
    let settings = [RULES[1], "train.stop={steps=80}"];
    let first = train(&sandbox, "first", "single", &settings);
    let again = train(&sandbox, "again", "single", &settings);
    assert_eq!(first.model(), again.model());
    let runs = ["1", "2", "3"].map(|servers| {
        let servers_setting = format!("cluster.servers={servers}");
        train(&sandbox, servers, "sync", &[&settings[..], &[&servers_setting]].concat()).model()
    });
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0], runs[2]);
}

#[test]
fn one_worker_in_sync_does_exactly_what_single_does() {
    for rule in RULES {
        let sandbox = Sandbox::new();
        let settings = ["train.stop={steps=80}", rule, "cluster.workers=1"];
        let alone = train(&sandbox, "alone", "single", &settings[..2]);
        assert_eq!(train(&sandbox, "sync", "sync", &settings).model(), alone.model(), "{rule}");
    }
}

#[test]
fn only_the_keys_of_a_batch_are_exchanged() {
    let sandbox = Sandbox::new();
    let settings = ["data.features=1000000", "train.stop={steps=200}", "train.batch=20"];
    let run = train(&sandbox, "run", "async", &settings);
    let workers = ["worker:0", "worker:1"].map(|task| run.task(task));
    let sum = |figure: &str| workers.iter().map(|task| task[figure].as_f64().unwrap()).sum::<f64>();
    // At most 39 keys per row and a bias; a whole model would be 4 MB each way.
    let most = 200.0 * (20.0 * 39.0 + 1.0) * 8.0 * 1.25;
    assert!(sum("sent_bytes") < most, "{}", sum("sent_bytes"));
    // The coordinator also pulls what it tests and saves.
    let fetched = 4.0 * (1_000_001.0 + 3.0 * 500.0 * 40.0);
    assert!(sum("received_bytes") < most + fetched, "{}", sum("received_bytes"));
}

#[test]
fn a_slow_worker_does_not_break_the_bound_with_values_pulled_ahead() {
    let sandbox = Sandbox::new();
    let settings = with(&["cluster.staleness=2", "cluster.workers=3", "train.stop={steps=300}"]);
    let mut command = sandbox.cluster("run", "bounded", &settings);
    command.env("PACELINE_TEST_SLOW", "2:20");
    let output = RunningProcess::start(&mut command, sandbox.path("run")).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let summary = sandbox.run_folder("run").summary();
    let tasks = summary["tasks"].as_array().unwrap();
    let steps: Vec<_> = tasks.iter().take(3).map(|task| task["steps"].as_u64().unwrap()).collect();
    let (least, most) = (steps.iter().min().unwrap(), steps.iter().max().unwrap());
    assert!(most - least <= 3, "{steps:?}");
}

#[test]
fn several_threads_share_one_vector_without_locks() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop={epochs=4}", "train.optimizer.rate=0.5"];
    let alone = train(&sandbox, "alone", "single", &settings);
    let both = train(&sandbox, "both", "single", &[&settings[..], &["train.threads=2"]].concat());
    let [alone, both] = [alone.summary(), both.summary()];
    assert_eq!(both["examples"], alone["examples"]);
    let auc = |summary: &Value| summary["test_auc"].as_f64().unwrap();
    assert!((auc(&both) - auc(&alone)).abs() < 0.03, "{} and {}", auc(&both), auc(&alone));
}

#[test]
fn a_saved_model_is_evaluated_to_the_same_figures() {
    for mode in ["single", "async"] {
        let sandbox = Sandbox::new();
        let settings = ["train.stop={steps=200}", "train.optimizer.rate=0.5"];
        let run = train(&sandbox, "run", mode, &settings);
        let printed = sandbox.ok(&["evaluate", run.str(), "--json"]).stdout;
        let (printed, summary): (Value, _) =
            (serde_json::from_str(&printed).unwrap(), run.summary());
        for figure in ["test_log_loss", "test_accuracy", "test_auc", "test_precision"] {
            let [ours, expected] =
                [&printed[figure], &summary[figure]].map(|f| f.as_f64().unwrap());
            assert!((ours - expected).abs() < 1e-6, "{mode} {figure}: {ours} and {expected}");
        }
    }
}

#[test]
fn a_lost_worker_ends_the_run_or_the_run_continues_without_it() {
    for mode in SHARED_MODES {
        let sandbox = Sandbox::new();
        let settings = with(&[
            "train.stop={seconds=600}",
            "cluster.on_worker_loss=continue",
            "cluster.servers=2",
        ]);
        let mut run = sandbox.launch("run", mode, &settings);
        run.wait_for_steps();
        std::process::Command::new("kill")
            .args(["-KILL", &run.task("worker:1").to_string()])
            .status()
            .unwrap();
        run.wait_for_more_steps();
        run.signal("INT");
        let output = run.finish();
        assert_eq!(output.code, Some(130), "{mode}: {output:?}");
        assert_says(&output.stderr, &["worker:1 was lost"]);
        assert_eq!(sandbox.run_folder("run").summary()["stop_reason"], "interrupted");
    }
}

#[test]
fn settings_that_a_sparse_model_lacks_are_refused_before_anything_starts() {
    let sandbox = Sandbox::new();
    let check = |settings: &[&str], says: &[&str]| {
        let mut args = vec!["train"];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        assert_says(&sandbox.fails(2, &args), says);
    };
    check(
        &["model.kind=logistic", "data.kind=digits"],
        &["data.kind is \"digits\", but model.kind is \"logistic\", which takes clicks"],
    );
    check(&["model.kind=softmax", "data.kind=clicks"], &["which takes digits, mnist"]);
    check(&["data.kind=libsvm"], &["data.kind is \"libsvm\", which needs data.path"]);
    check(
        &["data.kind=clicks", "train.optimizer.kind=momentum"],
        &["train.optimizer.kind cannot be", "use sgd, adagrad or ftrl"],
    );
    check(
        &["data.kind=clicks", "train.optimizer={kind=\"adagrad\", decay=0.1}"],
        &["use ftrl with l2, or sgd with decay"],
    );
    let threads = ["data.kind=clicks", "cluster.mode=async", "train.threads=2"];
    check(&threads, &["cluster.mode is \"async\"; use single"]);
    check(&["data.kind=clicks", "data.features=0"], &["data.features must be"]);
    assert!(sandbox.runs().is_empty());
}
