//! What TensorBoard's own package reads from a run, compared with the run's summary.

use serde_json::json;

use crate::support::{Sandbox, events, points};

#[test]
fn every_step_and_every_test_is_in_the_events() {
    let sandbox = Sandbox::new();
    let run = sandbox.train("run", &["train.stop={steps=50}", "train.evaluate.every=20"]);
    let (events, summary) = (run.worker_events(), run.summary());

    let losses = points(&events, "train/loss");
    assert_eq!(
        losses.iter().map(|(step, _)| *step).collect::<Vec<_>>(),
        (0..50).collect::<Vec<_>>()
    );
    // Parameters start at zero, so the first loss is that of a guess among ten classes.
    assert!((losses[0].1 - 10f32.ln()).abs() < 1e-5, "{losses:?}");
    let mean = losses.iter().map(|(_, loss)| f64::from(*loss)).sum::<f64>() / 50.0;
    assert!((summary["train_loss"].as_f64().unwrap() - mean).abs() < 1e-9);

    for (tag, figure) in [("test/loss", "test_loss"), ("test/accuracy", "test_accuracy")] {
        let tests = points(&events, tag);
        assert_eq!(tests.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [20, 40, 50], "{tag}");
        assert_eq!(tests[2].1, summary[figure].as_f64().unwrap() as f32, "{tag}");
    }
    let speeds = points(&events, "train/steps_per_second");
    assert_eq!(speeds.len(), 3);
    assert!(speeds.iter().all(|(_, speed)| *speed > 0.0), "{speeds:?}");
}

#[test]
fn the_train_loss_can_be_written_every_n_steps() {
    let sandbox = Sandbox::new();
    let all = sandbox.train("all", &["train.stop={steps=50}"]);
    let some = sandbox.train("some", &["train.stop={steps=50}", "observe.every=7"]);
    let mut expected = points(&all.worker_events(), "train/loss");
    expected.retain(|(step, _)| step % 7 == 0);
    assert_eq!(points(&some.worker_events(), "train/loss"), expected);
}

#[test]
fn the_model_is_written_as_a_graph() {
    let sandbox = Sandbox::new();
    let graph = sandbox.train("run", &["train.stop={steps=1}"]).worker_events()["graph"].clone();
    assert_eq!(graph["softmax/weight"]["shapes"], json!([[10, 784]]));
    assert_eq!(graph["softmax/scores"]["inputs"], json!(["input/examples", "softmax/weight"]));
    let nodes = graph.as_object().unwrap();
    for (name, node) in nodes {
        for input in node["inputs"].as_array().unwrap() {
            assert!(nodes.contains_key(input.as_str().unwrap()), "{name} is fed by {input}");
        }
    }
}

#[test]
fn each_run_is_a_row_of_the_hyper_parameter_table() {
    let sandbox = Sandbox::new();
    sandbox.train("runs/a", &["train.batch=5", "train.stop={steps=3}"]);
    sandbox
        .train("runs/b", &["train.batch=9", "train.stop={steps=3}", "train.optimizer.kind=adam"]);
    let report = events(&sandbox.path("runs"));
    let groups = report["session_groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{groups:?}");
    for (run, batch, optimizer) in [("a", 5.0, "sgd"), ("b", 9.0, "adam")] {
        let group = groups.iter().find(|group| group["hparams"]["batch"] == batch).expect(run);
        let hparams = &group["hparams"];
        assert_eq!(hparams["optimizer"], optimizer);
        assert_eq!((&hparams["model"], &hparams["mode"]), (&json!("softmax"), &json!("single")));
        assert_eq!((&hparams["data"], &hparams["seed"]), (&json!("digits"), &json!(1.0)));
        let rate = if optimizer == "sgd" { 0.15 } else { 0.001 };
        assert!((hparams["rate"].as_f64().unwrap() - rate).abs() < 1e-8);
        assert_eq!(group["sessions"][0]["status"], "STATUS_SUCCESS");
        assert_eq!(group["sessions"][0]["name"], format!("{run}/worker_0"));
    }
}

#[test]
fn a_run_of_several_tasks_is_one_row_whose_columns_start_with_the_tests() {
    let sandbox = Sandbox::new();
    let tasks = ["cluster.mode=sync", "cluster.workers=2", "cluster.servers=1"];
    sandbox.train("runs/a", &[&tasks[..], &["train.stop={steps=20}"]].concat());
    let report = events(&sandbox.path("runs"));
    let groups = report["session_groups"].as_array().unwrap();
    assert_eq!(groups.len(), 1, "{groups:?}");
    let sessions = groups[0]["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let metrics = groups[0]["metric_values"].as_array().unwrap();
    let tags: Vec<_> = metrics.iter().map(|metric| &metric["name"]["tag"]).collect();
    assert_eq!(tags[..2], [&json!("test/accuracy"), &json!("test/loss")]);
    let told =
        |run: &serde_json::Value| run["hparams"].as_object().is_some_and(|tags| !tags.is_empty());
    let runs = report["runs"].as_object().unwrap();
    assert_eq!(runs.values().filter(|run| told(run)).count(), 1, "one folder describes the run");
    // TensorBoard shows groups in the order of the alphabet.
    for run in runs.values() {
        let tags = run["scalars"].as_object().unwrap().keys();
        let learns = |tag: &str| tag.starts_with("test/") || tag.starts_with("train");
        let uses: Vec<_> = tags.clone().filter(|tag| !learns(tag)).collect();
        assert!(tags.filter(|tag| learns(tag)).all(|tag| uses.iter().all(|use_| tag < *use_)));
    }
}

#[test]
fn weights_and_gradients_have_histograms_and_norms_in_every_mode() {
    let sandbox = Sandbox::new();
    for mode in ["single", "sync", "async", "mirrored"] {
        let mode_key = format!("cluster.mode={mode}");
        let settings = [&*mode_key, "train.stop={steps=400}", "observe.histograms=50"];
        let events = sandbox.train(mode, &settings).worker_events();
        for tensor in ["weights/weight", "gradients/weight", "weights/bias", "gradients/bias"] {
            let tag = format!("train_tensors/{tensor}");
            let points = events["histograms"][&tag].as_array().expect(&tag);
            assert!(points.len() >= 2, "{mode} {tag}: {points:?}");
            let buckets = points[1][1].as_array().unwrap();
            let count: f64 = buckets.iter().map(|bucket| bucket[2].as_f64().unwrap()).sum();
            assert_eq!(count, if tensor.ends_with("bias") { 10.0 } else { 7840.0 }, "{mode} {tag}");
            let (kind, name) = tensor.split_once('/').unwrap();
            let norm =
                crate::support::points(&events, &format!("train_tensors/{kind}_norm/{name}"));
            assert!(norm[1].1 > 0.0, "{mode} {tag}: {norm:?}");
        }
    }
}

#[test]
fn a_second_run_does_not_disturb_the_first_ones_curves() {
    let sandbox = Sandbox::new();
    sandbox.train("runs/a", &["train.stop={steps=30}"]);
    let alone = events(&sandbox.path("runs"))["runs"]["a/worker_0"].clone();
    sandbox.train("runs/b", &["train.stop={steps=20}", "seed=2"]);
    let both = events(&sandbox.path("runs"))["runs"].clone();
    assert_eq!(both["a/worker_0"], alone);
    assert_eq!(points(&both["b/worker_0"], "train/loss").len(), 20);
    assert_ne!(both["b/worker_0"]["files"], alone["files"], "each run has files of its own");
}
