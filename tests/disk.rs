//! When files cannot be written: the run fails with a clear message and exit code 1.
//!
//! A full disk is had without being root by a limit on the size of files: with the signal
//! for it ignored, a write beyond the limit fails as one on a full disk does.

use std::fs::File;
use std::process::Stdio;

use crate::support::{PACELINE, SMALL, Sandbox, assert_says, finish, start};

/// Trains with files of at most so many blocks of 512 bytes; what the program said.
fn train_on_full_disk(sandbox: &Sandbox, blocks: u32, settings: &str) -> String {
    let small = SMALL.join(" ");
    let line = format!(
        "trap '' XFSZ; ulimit -f {blocks}; exec {PACELINE} train --quiet --run-dir run {small} {settings}"
    );
    let output = finish(start(sandbox.program("sh").args(["-c", &line])));
    assert_eq!(output.code, Some(1), "{blocks} blocks: {output:?}");
    let left: Vec<_> = sandbox.tree().into_iter().filter(|path| path.ends_with(".tmp")).collect();
    assert_eq!(left, [""; 0], "temporary files stay behind");
    assert!(!sandbox.path("run/summary.json").exists(), "a failed run has no summary");
    output.stderr
}

#[test]
fn a_full_disk_fails_the_run_and_names_the_file() {
    let few_events = "--set observe.every=1000000 --set train.evaluate.every=1000000";
    for (blocks, settings, file) in [
        (0, few_events, "job.toml"),
        (8, "--set train.stop={steps=5000}", "worker_0"),
        // So few that they are all written at the very end.
        (8, "--set train.stop={steps=100}", "worker_0"),
        (16, few_events, "model.safetensors"),
    ] {
        let sandbox = Sandbox::new();
        let printed = train_on_full_disk(&sandbox, blocks, settings);
        assert_says(&printed, &["error: cannot write", file, "File too large"]);
        assert_eq!(printed.lines().count(), 1, "one short line: {printed}");
    }
}

#[test]
fn a_place_that_cannot_be_written_fails_the_run_and_is_named() {
    let sandbox = Sandbox::new();
    // Nobody can make directories there, not even root.
    let args = [&["train", "--quiet", "--run-dir", "/proc/paceline"], &SMALL[..]].concat();
    assert_says(&sandbox.fails(1, &args), &["cannot make the run directory /proc/paceline"]);
    sandbox.write("runs", "not a directory");
    assert_says(&sandbox.fails(1, &[&["train"], &SMALL[..]].concat()), &["runs"]);
    assert_eq!(sandbox.tree(), ["runs"]);
}

#[test]
fn output_that_nobody_can_take_is_no_panic() {
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

    // Progress is a courtesy; the run goes on without it.
    let mut command = sandbox.command(&args);
    let child = command.stdout(Stdio::piped()).stderr(full()).spawn().unwrap();
    let output = finish(child);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_says(&output.stdout, &["stopped by"]);

    // An error that cannot be shown still has its exit code.
    let mut command = sandbox.command(&["train", "nowhere.toml"]);
    let child = command.stdout(Stdio::piped()).stderr(full()).spawn().unwrap();
    assert_eq!(finish(child).code, Some(2));
}
