//! The cache of rows: its place, its progress, Ctrl-C while it is built, and its removal.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::{RunningProcess, SECRET, Sandbox, assert_says, finish, start, tree, within};

const TINY: [&str; 10] = [
    "--set",
    "data={kind=\"libsvm\", path=\"data/rows.svm\"}",
    "--set",
    "train.stop={steps=2}",
    "--set",
    "train.batch=2",
    "--set",
    "cluster.mode=single",
    "--run-dir",
    "run",
];

fn tiny(sandbox: &Sandbox) -> Command {
    sandbox.write("data/rows.svm", "1 1:1\n0 2:1\n".repeat(10));
    let mut command = sandbox.command(&["train", "--quiet"]);
    command.args(TINY);
    command
}

/// A job whose rows take minutes to generate.
fn endless(sandbox: &Sandbox, name: &str, cache: &Path) -> RunningProcess {
    let run = sandbox.path(name);
    let mut command = sandbox.command(&["train", "--run-dir", run.to_str().unwrap()]);
    command.env("PACELINE_CACHE", cache);
    command.args(["--set", "data={kind=\"clicks\", train_examples=400000000}"]);
    RunningProcess::start(&mut command, run)
}

#[test]
fn rows_are_cached_in_the_cache_directory_and_never_beside_the_data() {
    let sandbox = Sandbox::new();
    let cache = sandbox.path("cache");
    let mut command = tiny(&sandbox);
    let output = finish(start(command.env("PACELINE_CACHE", &cache)));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(tree(&sandbox.path("data")), ["rows.svm"]);
    let cached = tree(&cache);
    assert_eq!(cached.len(), 3, "rows/, a cache and its lock: {cached:?}");
    assert!(cached.iter().any(|name| name.ends_with(".paceline-rows")), "{cached:?}");

    let clean = |args: &[&str]| {
        let mut command = sandbox.command(&[&["data", "clean"], args].concat());
        let output = finish(start(command.env("PACELINE_CACHE", &cache)));
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout
    };
    let listed = clean(&["--dry-run"]);
    assert_says(&listed, &["data/rows.svm", "would remove 1 cache of rows, "]);
    assert_eq!(tree(&cache), cached);
    fs::write(cache.join("rows/notes.txt"), "mine").unwrap();
    assert_says(&clean(&[]), &["data/rows.svm", "removed 1 cache of rows, "]);
    assert_eq!(tree(&cache), ["rows", "rows/notes.txt"]);
    assert_says(&clean(&[]), &["removed 0 caches of rows, 0 B"]);
}

#[test]
fn without_a_usable_cache_directory_the_error_names_the_key_that_moves_it() {
    let sandbox = Sandbox::new();
    let mut command = tiny(&sandbox);
    for variable in ["PACELINE_CACHE", "XDG_CACHE_HOME", "HOME"] {
        command.env_remove(variable);
    }
    let output = finish(start(&mut command));
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["error: rows are read into a cache", "set data.cache"]);
    // A home that is a file cannot be written by any user.
    let home = sandbox.write("home", "");
    let output = finish(start(command.env("HOME", &home)));
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["cannot create", home.to_str().unwrap(), "set data.cache"]);
    let output = finish(start(command.args(["--set", "data.cache=here"])));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(tree(&sandbox.path("here")).len(), 2);
    let clean = sandbox.ok(&["data", "clean", "--cache", "here"]).stdout;
    assert_says(&clean, &["removed 1 cache"]);
    assert!(tree(&sandbox.path("here")).is_empty());
}

#[test]
fn reading_shows_how_far_it_got_and_ctrl_c_ends_it_at_once_without_a_run() {
    let sandbox = Sandbox::new();
    let cache = sandbox.path("cache");
    for signal in ["INT", "TERM"] {
        let mut first = endless(&sandbox, "first", &cache);
        if signal == "TERM" {
            // The second time, it continues what was converted the first time.
            first.wait_for("continuing after the ");
        }
        first.wait_for("generating clicks: ");
        assert_says(&first.stderr(), &[" rows, ", " left)"]);
        // Another run that needs the same rows waits, and says for which process.
        let mut second = endless(&sandbox, "second", &cache);
        second
            .wait_for(&format!("waiting for process {} to read clicks (1 s so far)", first.pid()));
        for mut run in [second, first] {
            run.signal(signal);
            within(Duration::from_secs(2), "the end", || run.has_ended());
            let output = run.finish();
            assert_eq!(output.code, Some(if signal == "INT" { 130 } else { 143 }), "{output:?}");
            assert_says(&output.stderr, &["nothing was completed"]);
        }
        let left = tree(&cache);
        let ends: Vec<_> = left.iter().map(|name| name.rsplit('.').next().unwrap()).collect();
        assert_eq!(ends, ["rows", "lock", "part"], "the lock and the unfinished cache");
    }
    assert!(!sandbox.path("first").exists() && !sandbox.path("second").exists());
}

#[test]
fn a_conversion_that_was_killed_continues_and_gives_the_rows_of_one_that_was_not() {
    let sandbox = Sandbox::new();
    let data = "data={kind=\"clicks\", train_examples=800000, features=100000}";
    let start = |name: &str, cache: &str| {
        let run = sandbox.path(name);
        let mut command = sandbox.command(&["train", "--run-dir", run.to_str().unwrap()]);
        command.env("PACELINE_CACHE", sandbox.path(cache));
        command.args(["--set", data, "--set", "train.stop={steps=1}"]);
        RunningProcess::start(&mut command, run)
    };
    let rows = |cache: &str, end: &str| {
        let files = tree(&sandbox.path(cache));
        let name = files.into_iter().find(|name| name.ends_with(end))?;
        Some(sandbox.path(cache).join(name))
    };
    let whole = start("whole", "other").finish();
    assert_eq!(whole.code, Some(0), "{whole:?}");
    let killed = start("killed", "cache");
    within(Duration::from_secs(60), "some segments", || {
        rows("cache", ".part").is_some_and(|part| fs::metadata(part).unwrap().len() > 3_000_000)
    });
    killed.signal("KILL");
    killed.finish();
    let second = start("second", "cache").finish();
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_says(&second.stderr, &["continuing after the "]);
    let bytes = |cache| fs::read(rows(cache, ".paceline-rows").unwrap()).unwrap();
    assert!(bytes("cache") == bytes("other"), "the caches are equal");
}

#[test]
fn a_task_placed_by_tf_config_is_named_while_others_wait_for_it_and_ends_on_a_signal() {
    let sandbox = Sandbox::new();
    let start_task = |index: usize| {
        let run = sandbox.path(&format!("run{index}"));
        let mut command = sandbox.command(&["train", "--run-dir", run.to_str().unwrap()]);
        let cluster = r#"{"worker":["127.0.0.1:1","127.0.0.1:2"],"ps":["127.0.0.1:3"]}"#;
        let task = format!(r#"{{"cluster":{cluster},"task":{{"type":"worker","index":{index}}}}}"#);
        command.env("TF_CONFIG", task).env("PACELINE_TOKEN", SECRET);
        command.args(["--set", "data={kind=\"clicks\", train_examples=400000000}"]);
        command.args(["--set", "cluster.mode=async"]);
        RunningProcess::start(&mut command, run)
    };
    let mut first = start_task(0);
    first.wait_for("worker:0: generating clicks: 0 % (");
    let mut second = start_task(1);
    let pid = first.pid();
    second.wait_for(&format!("worker:1: waiting for worker:0 (process {pid}) to read clicks"));
    for mut task in [second, first] {
        task.signal("INT");
        within(Duration::from_secs(2), "the end", || task.has_ended());
        assert_eq!(task.finish().code, Some(130));
    }
}
