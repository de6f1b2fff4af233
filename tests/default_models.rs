//! Defaults that learn: a job that names a model alone trains it well, and tests cost little.

use crate::support::{Sandbox, assert_says};

/// The lines of `paceline explain` with these settings.
fn explained(sandbox: &Sandbox, settings: &[&str]) -> String {
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    sandbox.ok(&["explain"].into_iter().chain(settings).collect::<Vec<_>>()).stdout
}

/// Checks the line of a setting, and the reason next to it.
#[track_caller]
fn assert_explains(text: &str, setting: &str, reason: &str) {
    let found = text.lines().any(|line| {
        let parts = line.split_once('#').map(|(left, right)| (left.trim(), right.trim()));
        parts == Some((setting, reason))
    });
    assert!(found, "{setting} # {reason} is not in\n{text}");
}

#[test]
fn explain_shows_the_defaults_of_a_model_and_their_reason() {
    let sandbox = Sandbox::new();
    let lenet = explained(&sandbox, &["model.kind=lenet"]);
    let reason = "default: model.kind is lenet";
    assert_explains(&lenet, "batch = 64", reason);
    assert_explains(&lenet, "init = \"glorot\"", "default");
    assert_explains(&lenet, "every = \"auto\"", "default: at most 5 % of the processor time");
    let target = explained(&sandbox, &["model.kind=lenet", "train.stop.test_loss=0.5"]);
    let reason = "default: train.stop.test_loss is set and model.kind is lenet";
    assert_explains(&target, "every = 1000", reason);
    let softmax = explained(&sandbox, &["train.stop.test_loss=0.5"]);
    assert_explains(&softmax, "every = 100", "default: train.stop.test_loss is set");
    // A rate that suits one optimizer does not suit another.
    let adam = explained(&sandbox, &["train.optimizer.kind=adam"]);
    assert_explains(&adam, "rate = 0.001", "default: train.optimizer.kind is adam");
    let own = explained(&sandbox, &["model.kind=lenet", "train.batch=7"]);
    assert_explains(&own, "batch = 7", "--set train.batch=7");
}

#[test]
fn data_alone_selects_a_model_and_a_model_alone_selects_data() {
    let sandbox = Sandbox::new();
    for data in ["images", "fake-images"] {
        let kind = format!("data.kind={data}");
        let path = if data == "images" { &["data.path=pictures"][..] } else { &[] };
        let text = explained(&sandbox, &[&[kind.as_str()][..], path].concat());
        let reason = format!("default: data.kind is {data}");
        assert_explains(&text, "kind = \"alexnet\"", &reason);
        assert_explains(
            &text,
            &format!("name = \"{data}-alexnet\""),
            "default: the data and the model",
        );
    }
    let text = explained(&sandbox, &["data.kind=clicks"]);
    assert!(text.contains("kind = \"logistic\""), "{text}");
    let text = explained(&sandbox, &["model.kind=alexnet"]);
    assert_explains(&text, "kind = \"fake-images\"", "default: model.kind is alexnet");
    assert_explains(&text, "size = 224", "default");
}

#[test]
fn lenet_learns_quickly_with_its_defaults() {
    let sandbox = Sandbox::new();
    let settings = ["model.kind=lenet", "data.train_examples=6000", "data.test_examples=1000"];
    let stop = "train.stop={steps=250}";
    let run = sandbox.train("run", &[&settings[..], &[stop]].concat());
    let accuracy = run.summary()["test_accuracy"].as_f64().unwrap();
    assert!(accuracy > 0.9, "{accuracy}");
}

#[test]
fn the_start_of_a_network_is_selected() {
    let sandbox = Sandbox::new();
    let accuracy = |init: &str| {
        let init = format!("model.init={init}");
        let sgd = "train.optimizer={kind=\"momentum\", rate=0.01}";
        let settings = ["model.kind=lenet", "data.train_examples=6000", sgd, &init];
        let run = sandbox.train(&init, &[&settings[..], &["train.stop={steps=60}"]].concat());
        run.summary()["test_accuracy"].as_f64().unwrap()
    };
    let [he, glorot, pytorch] = ["he", "glorot", "pytorch"].map(accuracy);
    assert!(he > pytorch + 0.2 && glorot > pytorch + 0.2, "{he}, {glorot}, {pytorch}");
    let settings = ["train", "--set", "model.kind=lenet", "--set", "model.init=zero"];
    let says = "model.init must be \"glorot\", \"he\" or \"pytorch\", not the text \"zero\"";
    assert_says(&sandbox.fails(2, &settings), &[says]);
}

#[test]
fn tests_take_a_twentieth_of_a_run_by_default() {
    let sandbox = Sandbox::new();
    let data = ["data.train_examples=20000", "data.test_examples=2000", "train.batch=10"];
    let settings = [&data[..], &["train.stop={seconds=1.5}"]].concat();
    let run = sandbox.train("softmax", &settings);
    let worker = run.task("worker:0");
    let testing = worker["evaluation_seconds"].as_f64().expect("the run has tests");
    let share = testing / worker["seconds"].as_f64().unwrap();
    // Tests share the machine with other tests here; on a quiet one their share is below 0.05.
    assert!(share < 0.1, "{share}");
    let fixed = sandbox.train("fixed", &[&settings[..], &["train.evaluate.every=10"]].concat());
    let worker = fixed.task("worker:0");
    let testing = worker["evaluation_seconds"].as_f64().unwrap();
    assert!(testing / worker["seconds"].as_f64().unwrap() > 0.1, "a set interval is kept");
}

#[test]
fn when_tests_happen_does_not_change_the_model() {
    let sandbox = Sandbox::new();
    let stop = "train.stop={steps=300}";
    let [auto, fixed] =
        ["\"auto\"", "7"].map(|every| format!("train.evaluate.every={every}")).map(|every| {
            let single = sandbox.train(&format!("single {every}"), &[stop, &every]).model();
            let sync = sandbox.train_cluster(&every, "sync", &[stop, &every]).model();
            [single, sync]
        });
    assert!(auto == fixed, "the bytes differ");
}

#[test]
fn automatic_tests_do_not_stop_a_run() {
    let sandbox = Sandbox::new();
    let settings = ["train.evaluate.every=auto", "train.stop={test_loss=0.5}"];
    let args = ["train", "--set", settings[0], "--set", settings[1]];
    let says = ["train.evaluate.every is \"auto\"", "train.stop.test_loss is set", "set a number"];
    assert_says(&sandbox.fails(2, &args), &says);
    let printed = sandbox.fails(2, &["train", "--set", "train.evaluate.every=often"]);
    assert_says(&printed, &["must be a whole number from 1 up, or \"auto\""]);
}
