//! When files cannot be written: the run fails with a clear message and exit code 1.
//!
//! A full disk is had without being root by a limit on the size of files: with the signal
//! for it ignored, a write beyond the limit fails as one on a full disk does.

use std::fs::File;
use std::process::Stdio;

use crate::support::{PACELINE, Room, SMALL, assert_says, finish, start};

/// Trains with files of at most so many blocks of 512 bytes; what the program said.
fn train_on_full_disk(room: &Room, blocks: u32, settings: &str) -> String {
    let small = SMALL.join(" ");
    let line = format!(
        "trap '' XFSZ; ulimit -f {blocks}; exec {PACELINE} train --quiet --run-dir run {small} {settings}"
    );
    let done = finish(start(room.program("sh").args(["-c", &line])));
    assert_eq!(done.code, Some(1), "{blocks} blocks: {done:?}");
    let left: Vec<_> = room.tree().into_iter().filter(|path| path.ends_with(".tmp")).collect();
    assert_eq!(left, [""; 0], "temporary files stay behind");
    assert!(!room.path("run/summary.json").exists(), "a failed run has no summary");
    done.stderr
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
        let room = Room::new();
        let said = train_on_full_disk(&room, blocks, settings);
        assert_says(&said, &["error: cannot write", file, "File too large"]);
        assert_eq!(said.lines().count(), 1, "one short line: {said}");
    }
}

#[test]
fn a_place_that_cannot_be_written_fails_the_run_and_is_named() {
    let room = Room::new();
    // Nobody can make directories there, not even root.
    let args = [&["train", "--quiet", "--run-dir", "/proc/paceline"], &SMALL[..]].concat();
    assert_says(&room.fails(1, &args), &["cannot make the run directory /proc/paceline"]);
    room.write("runs", "not a directory");
    assert_says(&room.fails(1, &[&["train"], &SMALL[..]].concat()), &["runs"]);
    assert_eq!(room.tree(), ["runs"]);
}

#[test]
fn output_that_nobody_can_take_is_no_panic() {
    let room = Room::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let args = [&["train"], &SMALL[..]].concat();

    // A table that cannot be printed is a failure, but the run is complete.
    let mut command = room.command(&args);
    let child = command.stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
    let done = finish(child);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_says(&done.stderr, &["cannot write to standard output"]);
    assert_eq!(room.runs()[0].summary()["stop_reason"], "epochs");

    // Progress is a courtesy; the run goes on without it.
    let mut command = room.command(&args);
    let child = command.stdout(Stdio::piped()).stderr(full()).spawn().unwrap();
    let done = finish(child);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_says(&done.stdout, &["stopped by"]);

    // An error that cannot be shown still has its exit code.
    let mut command = room.command(&["train", "nowhere.toml"]);
    let child = command.stdout(Stdio::piped()).stderr(full()).spawn().unwrap();
    assert_eq!(finish(child).code, Some(2));
}
