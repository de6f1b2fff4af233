//! When files cannot be written, the run fails with a clear message and exit code 1. When only its
//! events and resource samples cannot be, it continues without them.
//!
//! The tests imitate a full disk without root by a limit on the size of files. With the signal for
//! it ignored, a write beyond the limit fails like a write to a full disk.

use std::fs::File;
use std::process::Stdio;

use crate::support::{PACELINE, SMALL, Sandbox, assert_says, finish, start};

/// Trains with files of at most `blocks` times 512 bytes. Returns standard error.
fn train_on_full_disk(sandbox: &Sandbox, blocks: u32, settings: &str) -> String {
    let small = SMALL.join(" ");
    let line = format!(
        "trap '' XFSZ; ulimit -f {blocks}; \
         exec {PACELINE} train --quiet --run-dir run {small} {settings}"
    );
    let output = finish(start(sandbox.program("sh").args(["-c", &line])));
    assert_eq!(output.code, Some(1), "{blocks} blocks: {output:?}");
    let left: Vec<_> = sandbox.tree().into_iter().filter(|path| path.ends_with(".tmp")).collect();
    assert_eq!(left, [""; 0], "temporary files are left");
    assert!(!sandbox.path("run/summary.json").exists(), "a failed run has no summary");
    output.stderr
}

#[test]
fn a_full_disk_fails_the_run_and_names_the_file() {
    let few_events = "--set observe.every=1000000 --set train.evaluate.every=1000000";
    for (blocks, settings, file) in
        [(0, few_events, "job.toml"), (16, few_events, "model.safetensors")]
    {
        let sandbox = Sandbox::new();
        let printed = train_on_full_disk(&sandbox, blocks, settings);
        assert_says(&printed, &["error: cannot write", file, "File too large"]);
        let errors = printed.lines().filter(|line| line.starts_with("error"));
        assert_eq!(errors.count(), 1, "one short line: {printed}");
    }
}

#[test]
fn events_that_cannot_be_written_cost_the_events_and_not_the_model() {
    let sandbox = Sandbox::new();
    let small = SMALL.join(" ");
    // The model has 31 kB, the losses of 5,000 steps 290 kB.
    let line = format!(
        "trap '' XFSZ; ulimit -f 128; exec {PACELINE} train --quiet --run-dir run {small} \
         --set train.stop={{steps=5000}} --set train.evaluate.every=1000"
    );
    let output = finish(start(sandbox.program("sh").args(["-c", &line])));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_says(&output.stderr, &["warning: cannot write the events in", "worker_0", "continues"]);
    assert_eq!(output.stderr.matches("continues").count(), 1, "{}", output.stderr);
    assert!(sandbox.path("run/model.safetensors").is_file());
    assert!(sandbox.path("run/summary.json").is_file());
}

#[test]
fn an_unwritable_directory_fails_the_run_and_is_named() {
    let sandbox = Sandbox::new();
    // Not even root can make directories there.
    let args = [&["train", "--quiet", "--run-dir", "/proc/paceline"], &SMALL[..]].concat();
    assert_says(&sandbox.fails(1, &args), &["cannot make the run directory /proc/paceline"]);
    sandbox.write("runs", "not a directory");
    assert_says(&sandbox.fails(1, &[&["train"], &SMALL[..]].concat()), &["runs"]);
    assert_eq!(sandbox.tree(), ["runs"]);
}

#[test]
fn output_that_cannot_be_written_does_not_panic() {
    let sandbox = Sandbox::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let args = [&["train"], &SMALL[..]].concat();

    // A table that cannot be printed is a failure, but the run is complete.
    let mut command = sandbox.command(&args);
    let child = command.stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
    let output = finish(child);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_says(&output.stderr, &["cannot write to standard output"]);
    assert_eq!(sandbox.runs()[0].summary()["stop_reason"], "epochs");

    // The run continues without its progress lines.
    let mut command = sandbox.command(&args);
    let child = command.stdout(Stdio::piped()).stderr(full()).spawn().unwrap();
    let output = finish(child);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_says(&output.stdout, &["stopped by"]);

    // An error that cannot be printed still sets the exit code.
    let mut command = sandbox.command(&["train", "nowhere.toml"]);
    let child = command.stdout(Stdio::piped()).stderr(full()).spawn().unwrap();
    assert_eq!(finish(child).code, Some(2));
}
