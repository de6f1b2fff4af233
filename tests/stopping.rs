//! How runs end: by a stop condition, by a signal, by a failure.

use std::io::{BufRead, BufReader};

use crate::support::{SMALL, Sandbox, assert_says, finish, points, python_json, signal, start};

/// Checks that a run with these stop conditions ends for this reason after these many steps.
#[track_caller]
fn check(stop: &str, reason: &str, steps: u64, examples: u64) {
    let sandbox = Sandbox::new();
    let stop = format!("train.stop={stop}");
    let settings = ["data.train_examples=100", "train.batch=30", "train.evaluate.every=4", &stop];
    let summary = sandbox.train("run", &settings).summary();
    assert_eq!(summary["stop_reason"], reason, "{stop}");
    assert_eq!(summary["global_steps"], steps, "{stop}");
    assert_eq!(summary["examples"], examples, "{stop}");
}

#[test]
fn epochs_count_every_example_once_even_if_the_batch_does_not_divide() {
    check("{epochs=1}", "epochs", 4, 100);
    check("{epochs=7}", "epochs", 24, 700);
}

#[test]
fn the_first_condition_that_is_met_ends_the_run() {
    check("{steps=5}", "steps", 5, 150);
    check("{steps=5, epochs=7}", "steps", 5, 150);
    check("{steps=500, epochs=7}", "epochs", 24, 700);
    check("{steps=500, epochs=7, seconds=1e6, test_loss=1e-6}", "epochs", 24, 700);
    // Any loss is low enough, but it is computed only every fourth step.
    check("{steps=500, test_loss=100}", "test_loss", 4, 120);
    check("{steps=3, test_loss=100}", "steps", 3, 90);
    check("{steps=500, seconds=1e-9}", "seconds", 1, 30);
}

#[test]
fn a_time_limit_is_kept() {
    let sandbox = Sandbox::new();
    let run = sandbox.train("run", &["train.stop={seconds=0.5}", "observe.every=100"]);
    let summary = run.summary();
    assert_eq!(summary["stop_reason"], "seconds");
    let seconds = summary["seconds"].as_f64().unwrap();
    assert!((0.5..5.0).contains(&seconds), "{seconds}");
}

#[test]
fn the_test_loss_that_ends_a_run_is_the_one_reported() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop={test_loss=1.5}", "train.evaluate={every=10, examples=50}"];
    let summary = sandbox.train("run", &settings).summary();
    let loss = summary["test_loss"].as_f64().unwrap();
    assert_eq!(summary["stop_reason"], "test_loss");
    assert!((1.0..=1.5).contains(&loss), "{loss}");
    assert_eq!(summary["global_steps"].as_u64().unwrap() % 10, 0);
}

#[test]
fn a_signal_leaves_a_valid_run_and_sets_the_exit_code() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let sandbox = Sandbox::new();
        let endless = ["--set", "train.stop={test_loss=1e-9}", "--set", "train.batch=17"];
        let args = [&["train", "--run-dir", "run"], &SMALL[..], &endless].concat();
        // Slow steps: of more than 2,000 in the first second, not every one is recorded.
        let mut child = start(sandbox.command(&args).env("PACELINE_TEST_SLOW", "*:20"));
        // The first line about a step shows that training has begun.
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("\nstep ") {
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "ended too early: {said}");
        }
        signal(&child, name);
        let output = finish(child);
        assert_eq!(output.code, Some(code), "{output:?}");
        assert_says(&output.stdout, &["stopped by   interrupted"]);
        let mut rest = String::new();
        while stderr.read_line(&mut rest).unwrap() > 0 {}
        assert_says(&rest, &["error: interrupted by signal"]);
        assert!(!rest.contains("panicked"), "{rest}");

        let run = sandbox.run_folder("run");
        let summary = run.summary();
        assert_eq!(summary["stop_reason"], "interrupted");
        let steps = summary["global_steps"].as_u64().unwrap();
        assert!(steps > 0);
        let losses = points(&run.worker_events(), "train/loss");
        assert_eq!(losses.len() as u64, steps, "every step is in the events");
        let model = run.file("model.safetensors");
        assert!(python_json("python/read_model.py", &[model.as_os_str()])["weight"].is_object());
        let again = sandbox.ok(&["evaluate", "run", "--json"]).stdout;
        let again: serde_json::Value = serde_json::from_str(&again).unwrap();
        assert_eq!(again["test_loss"], summary["test_loss"]);
    }
}

#[test]
fn the_test_that_ended_a_run_is_shown_beside_the_final_one() {
    let sandbox = Sandbox::new();
    let settings = ["train.evaluate.every=5", "train.stop={test_loss=2.0}", "train.batch=10"];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let args = ["train", "--run-dir", "run"].into_iter().chain(SMALL).chain(settings);
    let output = sandbox.ok(&args.collect::<Vec<_>>());
    let summary = sandbox.run_folder("run").summary();
    let test = &summary["stop_test"];
    let loss = test["loss"].as_f64().unwrap();
    assert!(loss <= 2.0 && test["step"].as_u64().unwrap().is_multiple_of(5), "{test}");
    let (step, accuracy) = (&test["step"], 100.0 * test["accuracy"].as_f64().unwrap());
    let shown = format!("stop test    step {step}: loss {loss:.4}, accuracy {accuracy:.2} %");
    let last = format!("\ntest         loss {:.4}", summary["test_loss"].as_f64().unwrap());
    assert_says(&output.stdout, &["stopped by   test_loss after", &shown, &last]);
    // Other reasons have no such test.
    assert!(
        sandbox.train("steps", &["train.stop={steps=10}"]).summary().get("stop_test").is_none()
    );
}
