//! Training whose loss leaves all bounds: how a run finds out, ends, and says what to change.

use crate::support::{SMALL, Sandbox, assert_says, events, processes_of};

/// A rate with which softmax regression jumps to a high loss and stays there.
const HIGH_RATE: &str = "train.optimizer.rate=3000";

/// A rate with which the loss is beyond all measure after the first step.
const HUGE_RATE: &str = "train.optimizer.rate=1e25";

/// What a run says that has diverged.
const SAYS: [&str; 4] = [
    "the loss rose from 2.30",
    "training diverged; try a smaller learning rate, train.optimizer.rate",
    "train.on_divergence = \"continue\"",
    " at step ",
];

#[test]
fn a_loss_that_is_not_a_number_ends_the_run_and_says_what_to_change() {
    let sandbox = Sandbox::new();
    let settings = ["--set", "train.optimizer.rate=1e38", "--set", "train.optimizer.kind=momentum"];
    let args = [&["train", "--quiet", "--run-dir", "run"], &SMALL[..], &settings].concat();
    let said = sandbox.fails(1, &args);
    assert_says(&said, &["at step ", "diverged", "smaller learning rate, train.optimizer.rate"]);
    assert!(!sandbox.path("run/model.safetensors").exists(), "nothing to use was trained");
    let sessions = &events(&sandbox.path("run"))["session_groups"][0]["sessions"];
    assert_eq!(sessions[0]["status"], "STATUS_FAILURE");
    let failure = std::fs::read_to_string(sandbox.path("run/failure.json")).unwrap();
    assert_says(&failure, &["\"kind\":\"diverged\"", "at step "]);
}

#[test]
fn a_loss_far_above_its_start_ends_the_run_as_one_that_is_not_a_number_does() {
    let sandbox = Sandbox::new();
    let settings =
        ["--set", HIGH_RATE, "--set", "train.batch=1", "--set", "train.stop={epochs=50}"];
    let args = [&["train", "--quiet", "--run-dir", "run"], &SMALL[..], &settings].concat();
    assert_says(&sandbox.fails(1, &args), &SAYS);
    assert!(!sandbox.path("run/model.safetensors").exists(), "nothing to use was trained");
    let sessions = &events(&sandbox.path("run"))["session_groups"][0]["sessions"];
    assert_eq!(sessions[0]["status"], "STATUS_FAILURE");
    // A loss beyond all measure ends it at once.
    let settings = ["--set", HUGE_RATE, "--set", "train.stop={epochs=50}"];
    let args = [&["train", "--quiet", "--run-dir", "huge"], &SMALL[..], &settings].concat();
    let said = sandbox.fails(1, &args);
    assert_says(&said, &SAYS);
    assert_says(&said, &["e2"]);
}

#[test]
fn a_short_run_that_ends_far_above_its_start_fails_unless_it_may_continue() {
    let sandbox = Sandbox::new();
    let settings = ["--set", HIGH_RATE, "--set", "train.stop={steps=3}"];
    let args = [&["train", "--quiet", "--run-dir", "run"], &SMALL[..], &settings].concat();
    assert_says(&sandbox.fails(1, &args), &SAYS);
    assert!(!sandbox.path("run/summary.json").exists());
    let stop = "train.stop={steps=3}";
    let run = sandbox.train("on", &[HIGH_RATE, "train.on_divergence=continue", stop]);
    let summary = run.summary();
    assert_eq!(summary["global_steps"], 3);
    assert!(summary["test_loss"].as_f64().unwrap() > 25.0, "{summary}");
}

#[test]
fn every_task_of_a_run_that_diverges_ends() {
    let sandbox = Sandbox::new();
    for mode in ["async", "sync", "bounded", "mirrored"] {
        let settings = [HUGE_RATE, "train.stop={epochs=50}"];
        let output = sandbox.launch(mode, mode, &settings).finish_task();
        assert_eq!(output.code, Some(1), "{mode}: {output:?}");
        assert_says(&output.stderr, &["training diverged", "train.optimizer.rate"]);
        // What follows from it does not come before it.
        let before = output.stderr.split("error: ").next().unwrap();
        assert!(!before.contains("lost"), "{mode}: {output:?}");
        assert!(!output.stderr.contains("\n  then "), "{mode}: {output:?}");
        assert!(processes_of(&sandbox.path(mode)).is_empty(), "{mode}");
    }
    // The coordinator finds it in the final test, after all other tasks have left.
    let settings = [HIGH_RATE, "train.stop={steps=4}"];
    let output = sandbox.launch("short", "sync", &settings).finish_task();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_says(&output.stderr, &["training diverged"]);
    assert!(processes_of(&sandbox.path("short")).is_empty());
}

#[test]
fn a_run_that_fits_its_few_examples_at_an_absurd_rate_has_diverged_all_the_same() {
    let sandbox = Sandbox::new();
    for (batch, epochs) in [("1", 6), ("10", 6), ("10", 50), ("60", 50)] {
        let stop = format!("train.stop={{epochs={epochs}}}");
        let batch = format!("train.batch={batch}");
        let settings = ["--set", HIGH_RATE, "--set", &batch, "--set", &stop];
        let args = [&["train", "--quiet"], &SMALL[..], &settings].concat();
        assert_says(&sandbox.fails(1, &args), &SAYS);
    }
}

#[test]
fn single_examples_and_high_rates_that_work_are_left_alone() {
    let sandbox = Sandbox::new();
    for (name, rate) in [("usual", "0.01"), ("high", "0.3"), ("higher", "2")] {
        let rate = format!("train.optimizer.rate={rate}");
        let settings = ["train.batch=1", &rate, "train.stop={epochs=4}"];
        let summary = sandbox.train(name, &settings).summary();
        assert!(summary["test_accuracy"].as_f64().unwrap() > 0.5, "{name}: {summary}");
    }
    let clicks = "data={kind=\"clicks\", train_examples=2000, test_examples=200, features=10000}";
    for (name, rate) in [("rows", "0.1"), ("fast", "1")] {
        let rate = format!("train.optimizer.rate={rate}");
        let settings =
            ["cluster.mode=single", "train.batch=1", &rate, "train.stop={epochs=3}", clicks];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let job = ["train", "--quiet", "--run-dir", name, "--set", "model.kind=logistic"];
        sandbox.ok(&job.into_iter().chain(settings).collect::<Vec<_>>());
    }
}
