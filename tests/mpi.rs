//! Runs under a real Open MPI, on this machine.

use std::process::Command;

use crate::support::{ENDLESS, PACELINE, RunningProcess, SMALL_DATA, Sandbox, ends_with, mpirun};

/// Three processes of a small job in this mode.
fn three(sandbox: &Sandbox, mode: &str, settings: &[&str]) -> Command {
    let mut command = mpirun(sandbox, 3);
    train(&mut command, mode, settings);
    command
}

fn train(command: &mut Command, mode: &str, settings: &[&str]) {
    command.args([PACELINE, "train", "--set", &format!("cluster.mode={mode}")]);
    command.args(SMALL_DATA.iter().chain(settings).flat_map(|setting| ["--set", setting]));
}

#[test]
fn three_processes_of_mpirun_train_one_run_in_every_mode() {
    for mode in ["async", "sync", "bounded", "mirrored"] {
        let sandbox = Sandbox::new();
        let steps = "train.stop={steps=60}";
        ends_with(0, &mut three(&sandbox, mode, &[steps]));
        let run = sandbox.only_run();
        assert!(run.str().contains("/runs/digits-softmax-mpi-"), "{}", run.str());
        assert_eq!(run.summary()["workers"], 3, "{mode}");
        if ["sync", "mirrored"].contains(&mode) {
            let local = sandbox.train_cluster("local", mode, &[steps, "cluster.workers=3"]);
            assert!(run.model() == local.model(), "{mode}: the bits differ");
        }
    }
}

#[test]
fn a_signal_to_mpirun_ends_every_process_with_a_checkpoint() {
    let sandbox = Sandbox::new();
    let settings = [ENDLESS, "checkpoint.every_seconds=600"];
    // Open MPI kills its processes a second after the signal unless it is asked to wait longer,
    // which it then does in any case.
    let mut command = mpirun(&sandbox, 3);
    command.args(["--mca", "odls_base_sigkill_timeout", "5"]);
    train(&mut command, "sync", &settings);
    let mut running = RunningProcess::start(&mut command, sandbox.path("mpirun"));
    running.wait_for_steps();
    running.signal("TERM");
    let output = running.finish_task();
    // The code of mpirun itself after a signal.
    assert_eq!(output.code, Some(1), "{output:?}");
    let run = sandbox.only_run();
    assert_eq!(run.summary()["stop_reason"], "interrupted");
    assert!(run.has_checkpoint());
}
