//! Runs under a real Slurm: its controller and the daemons of three nodes, on this machine.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{
    PACELINE, RunFolder, RunningProcess, Sandbox, Slurm, assert_says, ends_with, environment,
    free_ports, processes_in, signal_to, wait_until, within,
};

/// A small job of three workers, for `srun --ntasks=3`.
fn write_job(sandbox: &Sandbox, mode: &str, tables: &str) {
    let servers = if mode == "mirrored" { "" } else { "servers = 2" };
    let data = "[data]\nkind = \"digits\"\ntrain_examples = 600\ntest_examples = 100";
    let cluster = format!("[cluster]\nmode = \"{mode}\"\n{servers}");
    sandbox
        .write("job.toml", format!("[model]\nkind = \"softmax\"\n{data}\n{cluster}\n{tables}\n"));
}

/// The undisturbed run of the same job on this machine alone.
fn local_run(sandbox: &Sandbox) -> RunFolder {
    let settings = ["--set", "cluster.workers=3", "--local", "--quiet", "--run-dir", "local"];
    sandbox.ok(&[&["train", "job.toml"], &settings[..]].concat());
    sandbox.run_folder("local")
}

/// `srun` with one task of the job on each node.
fn srun(slurm: &Slurm, sandbox: &Sandbox) -> Command {
    let mut srun = slurm.client(sandbox, "srun");
    srun.args(["--nodes=3", "--ntasks=3", PACELINE, "train", "job.toml"]);
    srun
}

/// A batch script with one task of the job on each node. The tasks of its first start are slow, so
/// that there is time to disturb them.
fn script() -> String {
    let slow = "[ -n \"$SLURM_RESTART_COUNT\" ] || export PACELINE_TEST_SLOW='*:300'";
    format!("#!/bin/sh\n{slow}\nsrun {PACELINE} train job.toml\n")
}

const NODES: [&str; 2] = ["--nodes=3", "--ntasks=3"];

/// The processes of a job's tasks: its workers, and the servers that they run.
fn processes(sandbox: &Sandbox) -> Vec<u32> {
    let dir = sandbox.path("").canonicalize().unwrap();
    processes_in(&dir, &Path::new(PACELINE).canonicalize().unwrap())
}

/// The process of a rank.
#[track_caller]
fn rank(sandbox: &Sandbox, rank: &str) -> u32 {
    let is_rank = |pid: &u32| {
        environment(*pid, "SLURM_PROCID").as_deref() == Some(rank)
            && environment(*pid, "PACELINE_CHANNEL").is_none()
    };
    let mut found = processes(sandbox).into_iter();
    found.find(is_rank).unwrap_or_else(|| panic!("there is no process of rank {rank}"))
}

/// Waits until a run has written a complete checkpoint.
#[track_caller]
fn wait_for_checkpoint(sandbox: &Sandbox) {
    let has_checkpoint = || sandbox.runs().iter().any(RunFolder::has_checkpoint);
    assert!(wait_until(has_checkpoint), "no checkpoint");
}

#[test]
fn three_tasks_of_srun_train_one_run_to_the_bits_of_a_local_one() {
    let slurm = Slurm::get();
    for (mode, tasks) in [("async", 5), ("sync", 5), ("mirrored", 3)] {
        let sandbox = Sandbox::new();
        write_job(&sandbox, mode, "[train.stop]\nsteps = 60");
        let output = ends_with(0, &mut srun(slurm, &sandbox));
        let run = sandbox.only_run();
        assert!(run.str().contains("/runs/job-slurm-"), "{}", run.str());
        let summary = run.summary();
        assert_eq!(summary["workers"], 3, "{mode}");
        assert_eq!(summary["tasks"].as_array().unwrap().len(), tasks, "{mode}");
        // Only rank 0 prints the result.
        assert_eq!(output.stdout.matches("stopped by").count(), 1, "{mode}: {output:?}");
        if mode != "async" {
            assert!(run.model() == local_run(&sandbox).model(), "{mode}: the bits differ");
        }
        assert!(processes(&sandbox).is_empty(), "{mode}: processes are left");
    }
}

#[test]
fn when_a_task_of_srun_is_killed_the_others_end_and_name_it() {
    let slurm = Slurm::get();
    let sandbox = Sandbox::new();
    write_job(&sandbox, "sync", "[train.stop]\ntest_loss = 1e-9");
    let mut step = RunningProcess::start(&mut srun(slurm, &sandbox), sandbox.path("srun"));
    step.wait_for_steps();
    signal_to(rank(&sandbox, "2"), "KILL");
    let output = step.finish_task();
    // The others end with 200, worth a retry. Slurm reports the highest code, that of the signal.
    assert_eq!(output.code, Some(137), "{output:?}");
    let ends = ["task 0: Exited with exit code 200", "task 1: Exited with exit code 200"];
    assert_says(&output.stderr, &[&ends[..], &["worker:2 was lost"]].concat());
    assert!(processes(&sandbox).is_empty(), "processes are left");
}

#[test]
fn when_a_task_of_srun_is_killed_others_take_its_slot_at_once_if_the_job_waits() {
    let slurm = Slurm::get();
    let sandbox = Sandbox::new();
    write_job(&sandbox, "sync", "on_worker_loss = \"wait\"\n[train.stop]\nsteps = 300");
    let local = local_run(&sandbox);
    let mut command = srun(slurm, &sandbox);
    command.env("PACELINE_TEST_SLOW", "*:100");
    let mut step = RunningProcess::start(&mut command, sandbox.path("srun"));
    step.wait_for_steps();
    signal_to(rank(&sandbox, "2"), "KILL");
    let run = sandbox.only_run();
    let takes_over = || run.log("ps:0").contains("slot 2 is offered to worker:");
    within(Duration::from_secs(3), "another process takes the slot", takes_over);
    let output = step.finish_task();
    // The run is complete. Slurm reports the task that was killed.
    assert_eq!(output.code, Some(137), "{output:?}");
    assert!(run.model() == local.model(), "the bits differ");
}

#[test]
fn when_a_mirrored_task_of_srun_is_killed_another_process_takes_its_place_if_the_job_waits() {
    let slurm = Slurm::get();
    let sandbox = Sandbox::new();
    write_job(&sandbox, "mirrored", "on_worker_loss = \"wait\"\n[train.stop]\nsteps = 300");
    let local = local_run(&sandbox);
    let mut command = srun(slurm, &sandbox);
    command.env("PACELINE_TEST_SLOW", "*:100");
    let mut step = RunningProcess::start(&mut command, sandbox.path("srun"));
    step.wait_for_steps();
    // The one in the middle, to which the last one connects and which connects to the first.
    signal_to(rank(&sandbox, "1"), "KILL");
    step.wait_for("worker:1 is lost: another process takes its place here");
    let output = step.finish_task();
    assert_eq!(output.code, Some(137), "{output:?}");
    let run = sandbox.only_run();
    assert_eq!(run.summary()["stop_reason"], "steps", "{output:?}");
    assert!(run.model() == local.model(), "the bits differ");
    assert!(processes(&sandbox).is_empty(), "processes are left");
}

#[test]
fn tasks_of_srun_without_a_common_disk_continue_on_new_nodes_to_the_same_bits() {
    let slurm = Slurm::get();
    let sandbox = Sandbox::new();
    let [meet, files] = free_ports();
    let port = format!("files_port = {files}");
    let tables = format!("{port}\n[train.stop]\nsteps = 300\n[checkpoint]\nevery_steps = 50");
    write_job(&sandbox, "sync", &tables);
    // Each task has a directory of its own, and only that of rank 0 outlives the first start.
    let script = "D=node-$SLURM_PROCID; [ $SLURM_PROCID = 0 ] || D=$1-$SLURM_PROCID; \
                  mkdir -p $D && cd $D && exec $2 train ../job.toml --run-dir run --meet $3";
    let srun = |start: &str, slow: &[(&str, &str)]| {
        let mut srun = slurm.client(&sandbox, "srun");
        srun.args(["--nodes=3", "--ntasks=3", "sh", "-c", script, "sh", start, PACELINE]);
        srun.arg(format!("127.0.0.1:{meet}")).env("PACELINE_TOKEN", "a secret of the user");
        srun.envs(slow.iter().copied());
        RunningProcess::start(&mut srun, sandbox.path("srun"))
    };
    let first = srun("first", &[("PACELINE_TEST_SLOW", "*:300")]);
    let run = sandbox.run_folder("node-0/run");
    assert!(wait_until(|| run.has_checkpoint()), "{}", first.stderr());
    for node in ["node-0", "first-1", "first-2"] {
        let dir = sandbox.path(node).canonicalize().unwrap();
        let program = Path::new(PACELINE).canonicalize().unwrap();
        processes_in(&dir, &program).into_iter().for_each(|pid| signal_to(pid, "KILL"));
    }
    assert_eq!(first.finish_task().code, Some(137));
    let output = srun("second", &[]).finish_task();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_says(&output.stderr, &["resuming from the checkpoint of step"]);
    let local = ["--set", "cluster.workers=3", "--set", "checkpoint={}", "--local", "--quiet"];
    let args = [&["train", "job.toml", "--run-dir", "local"], &local[..]].concat();
    sandbox.ok(&[&args[..], &["--set", "cluster={mode=\"sync\", servers=2, workers=3}"]].concat());
    assert!(run.model() == sandbox.run_folder("local").model(), "the bits differ");
    // What the other tasks write is gathered on the node of rank 0.
    assert!(run.event_bytes("worker:2") > 0 && run.file("ps_1").join("log.txt").is_file());
}

#[test]
fn a_job_that_is_requeued_continues_to_the_same_bits() {
    let slurm = Slurm::get();
    let sandbox = Sandbox::new();
    write_job(&sandbox, "sync", "[train.stop]\nsteps = 400\n[checkpoint]\nevery_steps = 50");
    let local = local_run(&sandbox);
    let job = slurm.submit(&sandbox, &NODES, &script());
    wait_for_checkpoint(&sandbox);
    job.requeue();
    job.wait_for_state("JobState=COMPLETED");
    assert_says(&job.output(), &["resuming from the checkpoint of step", "400 in all"]);
    let run = sandbox.only_run();
    assert!(run.str().ends_with(&format!("-slurm-{}", job.id)), "{}", run.str());
    assert!(run.model() == local.model(), "the bits differ: {}", job.output());
    let summary = run.summary();
    assert!(summary["resumed_from"].as_u64().is_some_and(|step| step >= 50), "{summary}");
    assert_eq!(summary["global_steps"], 400);
}

#[test]
fn a_job_that_slurm_signals_before_its_time_limit_keeps_a_checkpoint_and_ends() {
    let slurm = Slurm::get();
    let sandbox = Sandbox::new();
    write_job(
        &sandbox,
        "sync",
        "[train.stop]\ntest_loss = 1e-9\n[checkpoint]\nevery_seconds = 600",
    );
    // The time of the signal is before the job's start, so Slurm sends it when it looks next, which
    // it does twice a minute.
    let job = slurm.submit(
        &sandbox,
        &[&NODES[..], &["--time=1", "--signal=TERM@60"]].concat(),
        &script(),
    );
    job.wait_for_output("interrupted by signal 15");
    let begun = Instant::now();
    job.wait_for_state("JobState=FAILED");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_says(&job.state(), &["ExitCode=143:0"]);
    wait_for_checkpoint(&sandbox);
    assert_eq!(sandbox.only_run().summary()["stop_reason"], "interrupted");
}
