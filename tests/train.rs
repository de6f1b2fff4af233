//! `paceline train`: what it prints, what it writes, and that it does so reproducibly.

use std::ffi::OsStr;
use std::fs;

use serde_json::Value;

use crate::support::{PACELINE, SMALL, Sandbox, assert_says, finish, python, start};

fn train_small(sandbox: &Sandbox, more: &[&str]) -> crate::support::ProcessOutput {
    sandbox.ok(&[&["train"], &SMALL[..], more].concat())
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_built_in_job_trains_to_a_useful_model_from_nothing() {
    let sandbox = Sandbox::new();
    let output = sandbox.ok(&["train"]);
    let [run] = &sandbox.runs()[..] else { panic!("{:?}", sandbox.tree()) };
    let summary = run.summary();
    let accuracy = summary["test_accuracy"].as_f64().unwrap();
    assert!(
        (0.94..=0.97).contains(&accuracy),
        "a linear model should reach 94 to 97 %: {accuracy}"
    );
    assert_eq!(summary["global_steps"], 6_000);
    assert_eq!(summary["examples"], 360_000);

    // The table names the run and rounds the figures of summary.json.
    let shown = format!("accuracy {:.2} %", 100.0 * accuracy);
    let name = run.path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("digits-softmax-"), "{name}");
    assert_says(&output.stdout, &[name, &shown, "6,000 steps", "360,000 examples"]);
    assert_says(&output.stdout, &["worker:0", "worker:1", "ps:0"]);
    assert_eq!((&summary["mode"], &summary["workers"]), (&"async".into(), &2.into()));
    // Messages go to standard error, as lines, because this is not a terminal.
    assert_says(&output.stderr, &["softmax on 60,000 examples"]);
    assert!(
        !output.stderr.contains(['\r', '\x1b']),
        "no bar outside a terminal: {:?}",
        output.stderr
    );

    // Every second of every task is accounted for.
    let tasks = summary["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 3, "{tasks:?}");
    for task in tasks {
        let seconds = task["seconds"].as_f64().unwrap();
        let phases = task["phases"].as_object().unwrap();
        let sum: f64 = phases.values().map(|phase| phase.as_f64().unwrap()).sum();
        assert!((sum - seconds).abs() <= 0.02 * seconds, "{sum} of {seconds} s");
        assert!(task["cpu_seconds"].as_f64().unwrap() > 0.0);
        let peak = task["peak_rss_bytes"].as_u64().unwrap();
        assert!(peak < 150_000_000, "{peak} bytes of memory");
    }
}

/// The keys of `summary.json`, in order.
const SUMMARY_KEYS: &str = "\
    name mode workers servers batch stop_reason global_steps examples lost_pushes \
    seconds train_loss test_loss test_accuracy model_sha256 steps_per_second examples_per_second \
    bytes_per_step verdict ranking tasks";

/// The keys of a task in `summary.json`, in order.
const TASK_KEYS: &str = "\
    task steps dropped lost seconds phases cpu_seconds peak_rss_bytes peak_pss_bytes examples \
    sent_bytes received_bytes evaluation_seconds final_test_seconds run_delay_seconds \
    loop_cpu_seconds gradient_ms resources";

#[test]
fn a_run_directory_has_everything_and_nothing_else() {
    let sandbox = Sandbox::new();
    let run = sandbox.train("run", &["train.evaluate.every=100"]);
    let mut found = sandbox.tree();
    found.retain(|path| !path.starts_with("run/worker_0/events.out.tfevents."));
    let expected = [
        "run",
        "run/job.toml",
        "run/model.safetensors",
        "run/summary.json",
        "run/worker_0",
        "run/worker_0/log.txt",
        "run/worker_0/resources.csv",
    ];
    assert_eq!(found, expected);
    assert_eq!(sandbox.tree().len(), expected.len() + 1, "one event file");

    let summary = run.summary();
    assert_eq!(keys(&summary).join(" "), SUMMARY_KEYS);
    let task = &summary["tasks"][0];
    // There only if threads that compute for the worker's loop have waited for a core.
    let always: Vec<_> =
        keys(task).into_iter().filter(|key| *key != "compute_delay_seconds").collect();
    assert_eq!(always.join(" "), TASK_KEYS);
    let phases = ["input", "pull", "compute", "push", "wait", "evaluation"];
    assert_eq!(keys(&task["phases"]), phases);
    assert_eq!(summary["mode"], "single");
    assert_eq!((&summary["workers"], &summary["servers"]), (&1.into(), &0.into()));
    assert_eq!((&task["task"], &task["steps"]), (&"worker:0".into(), &summary["global_steps"]));
    let rate = summary["global_steps"].as_f64().unwrap() / summary["seconds"].as_f64().unwrap();
    assert!((summary["steps_per_second"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9);
}

#[test]
fn quiet_prints_only_the_path_of_the_run() {
    let sandbox = Sandbox::new();
    let output = train_small(&sandbox, &["--quiet"]);
    assert!(output.stdout.starts_with("runs/") && output.stdout.lines().count() == 1);
    assert_eq!(output.stderr, "");
    assert_eq!(sandbox.runs().len(), 1);
}

#[test]
fn a_second_run_gets_a_directory_of_its_own_and_leaves_the_first_alone() {
    let sandbox = Sandbox::new();
    train_small(&sandbox, &["--quiet"]);
    let first = sandbox.runs().remove(0);
    let contents = |run: &crate::support::RunFolder| {
        let files = crate::support::tree(&run.path);
        files.iter().map(|name| fs::read(run.file(name)).unwrap_or_default()).collect::<Vec<_>>()
    };
    let before = contents(&first);
    train_small(&sandbox, &["--quiet", "--set", "seed=2"]);
    let runs = sandbox.runs();
    assert_eq!(runs.len(), 2);
    assert_eq!(contents(&first), before);
    assert!(runs[0].model() != runs[1].model(), "the seed matters");
}

#[test]
fn the_job_that_a_run_leaves_trains_again_to_the_same_bits() {
    let sandbox = Sandbox::new();
    let settings = ["train.batch=17", "train.optimizer.kind=adam", "train.optimizer.rate=0.003"];
    let first = sandbox.train("first", &settings);
    let job = first.file("job.toml");
    sandbox.ok(&["train", job.to_str().unwrap(), "--run-dir", "again"]);
    let again = sandbox.run_folder("again");
    assert!(first.model() == again.model(), "the bytes differ");
    for figure in ["name", "global_steps", "train_loss", "test_loss", "test_accuracy"] {
        assert_eq!(first.summary()[figure], again.summary()[figure], "{figure}");
    }
    let other = sandbox.train("other", &[&settings[..], &["seed=2"]].concat());
    assert!(first.model() != other.model(), "the seed matters to the order");
    // The seed also decides which digits are generated.
    let drawn = ["1", "2"].map(|seed| {
        let seed = format!("seed={seed}");
        sandbox.train(&seed, &["data.shuffle=false", &seed]).model()
    });
    assert!(drawn[0] != drawn[1], "the seed matters to the digits");
}

#[test]
fn a_job_file_and_set_both_apply() {
    let sandbox = Sandbox::new();
    let job = "[data]\ntrain_examples = 60\ntest_examples = 20\n\
               [train]\nbatch = 6\nstop = { epochs = 9 }\n\
               [cluster]\nmode = \"single\"\n";
    sandbox.write("jobs/evening.toml", job);
    sandbox.ok(&[
        "train",
        "jobs/evening.toml",
        "--set",
        "train.batch=7",
        "--set",
        "train.stop={steps=5}",
    ]);
    let summary = sandbox.runs()[0].summary();
    assert_eq!((&summary["batch"], &summary["global_steps"]), (&7.into(), &5.into()));
    assert_eq!((&summary["name"], &summary["stop_reason"]), (&"evening".into(), &"steps".into()));
}

#[test]
fn explain_prints_a_job_that_explains_itself() {
    let sandbox = Sandbox::new();
    let first = sandbox.ok(&["explain", "--set", "train.batch=7", "--set", "seed=3"]).stdout;
    assert_says(&first, &["batch = 7", "# --set train.batch=7", "rate = 0.15", "# default"]);
    sandbox.write("digits-softmax.toml", &first);
    let second = sandbox.ok(&["explain", "digits-softmax.toml"]).stdout;
    let values = |text: &str| {
        text.lines().map(|line| line.split('#').next().unwrap().trim_end().to_owned()).collect()
    };
    let (first, second): (Vec<_>, Vec<_>) = (values(&first), values(&second));
    assert_eq!(first, second);
    assert_eq!(sandbox.tree(), ["digits-softmax.toml"], "explaining leaves nothing behind");
}

/// Trains in a terminal of this many columns. Returns what the terminal shows.
fn train_in_terminal(sandbox: &Sandbox, columns: &str, args: &[&str]) -> String {
    let sandbox = sandbox.path("");
    let words =
        [&[sandbox.to_str().unwrap(), columns, PACELINE, "train"], &SMALL[..], args].concat();
    let words: Vec<_> = words.into_iter().map(OsStr::new).collect();
    let output = python("python/in_terminal.py", &words);
    assert_eq!(output.code, Some(0), "{output:?}");
    output.stdout
}

#[test]
fn a_terminal_gets_a_bar_with_everything_on_it() {
    let sandbox = Sandbox::new();
    let args = ["--set", "train.stop={seconds=2}", "--set", "train.evaluate.every=20"];
    for columns in [80, 120] {
        let shown = train_in_terminal(&sandbox, &columns.to_string(), &args);
        let frames: Vec<_> = shown.split(['\r', '\n']).collect();
        // The last bar before it was cleared.
        let bar = frames.iter().rfind(|frame| frame.contains(" s left")).expect("a bar");
        let bar = bar.rsplit("\x1b[2K").next().unwrap();
        assert!(bar.trim_end().chars().count() <= columns, "one line: {bar:?}");
        assert_says(bar, &["step ", "loss 0.", "accuracy ", " %", " examples/s", " left"]);
        assert!(bar.contains(['█', '░']), "{bar:?}");
        assert_says(&shown, &["stopped by   seconds"]);
    }
    let quiet = train_in_terminal(&sandbox, "120", &["--quiet"]);
    assert!(quiet.starts_with("runs/") && quiet.lines().count() == 1, "{quiet:?}");
}

#[test]
fn of_several_runs_started_at_once_in_one_directory_one_gets_it() {
    let sandbox = Sandbox::new();
    let args = [&["train", "--quiet", "--run-dir", "run"], &SMALL[..]].concat();
    let children: Vec<_> = (0..4).map(|_| start(&mut sandbox.command(&args))).collect();
    let mut codes: Vec<_> = children.into_iter().map(|child| finish(child).code).collect();
    codes.sort();
    assert_eq!(codes, [Some(0), Some(2), Some(2), Some(2)]);
    assert_eq!(sandbox.run_folder("run").summary()["stop_reason"], "epochs");
    assert_eq!(sandbox.run_folder("run").worker_events()["files"].as_array().unwrap().len(), 1);
}
