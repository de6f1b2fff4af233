//! Processes that a launcher starts together. They find their places from its variables, meet, and
//! train one run.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{
    ProcessOutput, RunningProcess, SMALL_DATA, Sandbox, assert_says, free_ports, wait_until,
};

/// All that `torchrun --nproc-per-node SIZE --rdzv-id ID` of PyTorch 2.15 sets for the process of a
/// rank. `tests/torchrun.sh` starts a real one.
fn torchrun(rank: usize, size: usize, id: &str, port: u16) -> Vec<(String, String)> {
    let (rank, size) = (rank.to_string(), size.to_string());
    let port = port.to_string();
    let variables = [
        ("LOCAL_RANK", rank.as_str()),
        ("RANK", &rank),
        ("GROUP_RANK", "0"),
        ("ROLE_RANK", &rank),
        ("ROLE_NAME", "default"),
        ("LOCAL_WORLD_SIZE", &size),
        ("WORLD_SIZE", &size),
        ("GROUP_WORLD_SIZE", "1"),
        ("ROLE_WORLD_SIZE", &size),
        ("MASTER_ADDR", "localhost"),
        ("MASTER_PORT", &port),
        ("TORCHELASTIC_RESTART_COUNT", "0"),
        ("TORCHELASTIC_MAX_RESTARTS", "3"),
        ("TORCHELASTIC_RUN_ID", id),
        ("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"),
        ("TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic/attempt_0/error.json"),
        ("TORCHELASTIC_USE_AGENT_STORE", "True"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        ("OMP_NUM_THREADS", "1"),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// One of the processes, ready to start with small data and these settings.
fn process(
    sandbox: &Sandbox,
    command: &str,
    variables: Vec<(String, String)>,
    settings: &[&str],
) -> Command {
    let mut process = sandbox.command(&[command]);
    process.args(SMALL_DATA.iter().chain(settings).flat_map(|setting| ["--set", setting]));
    process.envs(variables);
    process
}

fn start(command: &mut Command) -> RunningProcess {
    let dir = command.get_current_dir().unwrap_or(Path::new(".")).to_owned();
    RunningProcess::start(command, dir)
}

/// Starts two processes as a `torchrun` that has restarted them this often. At the first start
/// their steps are slow, so that a test can kill them.
fn start_pair(
    sandbox: &Sandbox,
    id: &str,
    port: u16,
    restarts: usize,
    settings: &[&str],
) -> [RunningProcess; 2] {
    let slow = (restarts == 0).then_some(("PACELINE_TEST_SLOW", "*:300"));
    [0, 1].map(|rank| {
        let mut command = process(sandbox, "train", torchrun(rank, 2, id, port), settings);
        command.env("TORCHELASTIC_RESTART_COUNT", restarts.to_string()).envs(slow);
        start(&mut command)
    })
}

/// Waits for all processes, which must exit with code 0.
#[track_caller]
fn all_end_well(processes: Vec<RunningProcess>) -> Vec<ProcessOutput> {
    let ended = processes.into_iter().map(|process| {
        let output = process.finish_task();
        assert_eq!(output.code, Some(0), "{output:?}");
        output
    });
    ended.collect()
}

const STOP: &str = "train.stop={steps=60}";

#[test]
fn three_processes_of_torchrun_train_one_run_to_the_bits_of_a_local_one() {
    for (mode, servers, own) in [("sync", &["cluster.servers=2"][..], 5), ("mirrored", &[], 3)] {
        let sandbox = Sandbox::new();
        let settings = [&[STOP], servers].concat();
        let local = [&settings[..], &["cluster.workers=3"]].concat();
        let local = sandbox.train_cluster("local", mode, &local);
        // Torchrun's own store has the port.
        let store = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = store.local_addr().unwrap().port();
        let mode_setting = format!("cluster.mode={mode}");
        let settings = [&settings[..], &[&mode_setting]].concat();
        let start_rank = |rank| {
            start(&mut process(&sandbox, "train", torchrun(rank, 3, "job-5", port), &settings))
        };
        let outputs = all_end_well([2, 0, 1].map(start_rank).into());
        let run = sandbox.only_run();
        assert!(run.str().ends_with("runs/digits-softmax-torchrun-job-5"), "{}", run.str());
        assert_eq!(run.model(), local.model(), "{mode}");
        assert_eq!(run.summary()["workers"], 3);
        assert_eq!(run.summary()["tasks"].as_array().unwrap().len(), own);
        // Only rank 0 prints the result.
        assert_says(&outputs[1].stdout, &["worker:2", "60 steps"]);
        assert_eq!([&outputs[0].stdout, &outputs[2].stdout], ["", ""]);
        assert!(!run.file("meeting.json").exists());
    }
}

#[test]
fn processes_without_a_common_directory_meet_at_the_address_of_rank_0() {
    let [port] = free_ports();
    let sandboxes = [Sandbox::new(), Sandbox::new()];
    let settings = [STOP, "cluster.mode=sync"];
    let start_rank = |rank: usize| {
        let variables = torchrun(rank, 2, "apart", port);
        let mut command = process(&sandboxes[rank], "train", variables, &settings);
        start(command.env("PACELINE_TOKEN", "a secret of the user"))
    };
    all_end_well([0, 1].map(start_rank).into());
    let folders = |rank: usize| sandboxes[rank].only_run().path;
    assert!(folders(0).join("worker_0").is_dir() && folders(0).join("ps_0").is_dir());
    assert!(folders(1).join("worker_1").is_dir() && !folders(1).join("worker_0").exists());
    assert_eq!(sandboxes[0].only_run().summary()["global_steps"], 60);
}

#[test]
fn servers_may_have_ranks_of_their_own() {
    let sandbox = Sandbox::new();
    let settings = [STOP, "cluster.mode=sync", "cluster.layout=dedicated"];
    let start_rank = |rank: usize| {
        let mut command = process(&sandbox, "train", Vec::new(), &settings);
        start(command.args(["--rank", &rank.to_string(), "--size", "3", "--run-dir", "run"]))
    };
    all_end_well([0, 1, 2].map(start_rank).into());
    let run = sandbox.run_folder("run");
    assert_eq!(run.summary()["workers"], 2);
    assert!(run.file("ps_0").is_dir() && !run.file("worker_2").exists());
}

#[test]
fn a_process_with_another_job_is_refused_within_a_second_and_the_key_is_named() {
    let sandbox = Sandbox::new();
    let [port] = free_ports();
    let start_rank = |rank: usize, batch: &str| {
        let variables = torchrun(rank, 2, "job", port);
        start(&mut process(&sandbox, "train", variables, &["cluster.mode=sync", batch]))
    };
    let mut first = start_rank(0, "train.batch=10");
    first.wait_for("waiting for worker:1 (rank 1), never connected");
    let started = Instant::now();
    let output = start_rank(1, "train.batch=20").finish_task();
    let took = started.elapsed();
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["rank 1 on host", "train.batch is 10 at the", "20 at rank 1"]);
    assert!(took < Duration::from_secs(3), "{took:?}");
    // The first process still waits, and a signal ends it.
    first.signal("TERM");
    let output = first.finish_task();
    assert_eq!(output.code, Some(143), "{output:?}");
}

#[test]
fn a_process_with_another_secret_is_refused_within_a_second_on_both_sides() {
    let [port] = free_ports();
    let sandboxes = [Sandbox::new(), Sandbox::new()];
    let start_rank = |rank: usize, secret: &str| {
        let variables = torchrun(rank, 2, "apart", port);
        let mut command = process(&sandboxes[rank], "train", variables, &["cluster.mode=sync"]);
        start(command.env("PACELINE_TOKEN", secret))
    };
    let mut first = start_rank(0, "one secret of a run");
    first.wait_for("waiting for worker:1 (rank 1), never connected");
    let started = Instant::now();
    let output = start_rank(1, "another secret of a run").finish_task();
    let took = started.elapsed();
    assert_eq!(output.code, Some(2), "{output:?}");
    let address = format!("rank 0 at localhost:{}", port + 1);
    assert_says(&output.stderr, &["rank 1 on host", &address, "different secrets"]);
    assert!(took < Duration::from_secs(3), "{took:?}");
    first.wait_for("refused: a process at 127.0.0.1, which has another secret");
}

#[test]
fn explain_shows_the_tasks_and_the_rule_that_placed_them() {
    let sandbox = Sandbox::new();
    let explain = |variables: &[(&str, &str)], settings: &[&str]| {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        start(&mut process(&sandbox, "explain", variables.collect(), settings)).finish_task()
    };
    let slurm = [
        ("SLURM_JOB_ID", "4711"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "1"),
        ("SLURM_NTASKS", "3"),
        ("SLURM_STEP_NUM_TASKS", "3"),
        ("SLURM_STEP_NODELIST", "n[1-2]"),
        ("SLURM_STEP_TASKS_PER_NODE", "2,1"),
    ];
    let output = explain(&slurm, &["cluster.servers=2"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_says(
        &output.stdout,
        &[
            "mode = \"async\"",
            "# tasks, from Slurm (SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=3)",
            "n1:24711",
            "slurm-4711",
        ],
    );
    let rows: Vec<Vec<&str>> =
        output.stdout.lines().map(|l| l.split_whitespace().collect()).collect();
    for row in ["# worker:1 1 n1 n1:? this process", "# ps:0 0 n1 n1:?", "# ps:1 2 n2 n2:?"] {
        let row: Vec<&str> = row.split(' ').collect();
        assert!(rows.contains(&row), "{row:?} is not in {}", output.stdout);
    }
    assert_eq!(sandbox.tree(), [""; 0], "explain has written files");
    let torch = [("RANK", "0"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "n1")];
    let output = explain(&[&slurm[..], &torch].concat(), &[]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["RANK=0", "SLURM_PROCID=1", "disagree"]);
}

#[test]
fn processes_that_cannot_find_each_other_start_no_runs_of_their_own() {
    let sandbox = Sandbox::new();
    let run = |variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let output = start(&mut process(&sandbox, "train", variables.collect(), &[])).finish_task();
        assert_eq!(output.code, Some(2), "{output:?}");
        output.stderr
    };
    let mpi = [("PMI_RANK", "1"), ("PMI_SIZE", "3")];
    assert_says(&run(&mpi), &["MPICH (PMI_RANK=1, PMI_SIZE=3)", "--run-dir", "PACELINE_TOKEN"]);
    assert_says(&run(&[("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "3")]), &["srun", "--local"]);
    assert_eq!(sandbox.tree(), [""; 0], "files were written");
}

#[test]
fn a_run_that_was_killed_continues_when_it_is_started_again_and_a_finished_one_does_not_train() {
    let sandbox = Sandbox::new();
    let settings = [
        "train.stop={steps=200}",
        "cluster.mode=sync",
        "checkpoint.every_steps=20",
        "train.evaluate.every=100",
    ];
    let whole = [&settings[..], &["cluster.workers=2"]].concat();
    let whole = whole.into_iter().filter(|setting| !setting.starts_with("cluster.mode"));
    let whole = sandbox.train_cluster("whole", "sync", &whole.collect::<Vec<_>>());
    let [port] = free_ports();
    let start_ranks = |restarts| start_pair(&sandbox, "again", port, restarts, &settings);
    let killed = start_ranks(0);
    let run = sandbox.run_folder("runs/digits-softmax-torchrun-again");
    assert!(wait_until(|| run.has_checkpoint()), "no checkpoint");
    killed.iter().for_each(|process| process.signal("KILL"));
    killed.into_iter().for_each(|process| drop(process.finish_task()));
    let outputs = all_end_well(start_ranks(1).into());
    assert_says(&outputs[0].stderr, &["resuming from the checkpoint of step"]);
    assert_eq!(sandbox.only_run().model(), whole.model());
    // A launcher may start a finished job again, too.
    let outputs = all_end_well(start_ranks(2).into());
    assert_says(&outputs[0].stderr, &["is finished"]);
    assert_eq!(sandbox.only_run().model(), whole.model());
}

#[test]
fn when_rank_0_of_a_mirrored_run_is_killed_the_other_ends_soon_and_the_next_start_continues() {
    let sandbox = Sandbox::new();
    let settings = [
        "train.stop={steps=200}",
        "cluster.on_worker_loss=wait",
        "checkpoint.every_steps=20",
        "train.evaluate.every=100",
    ];
    let whole = [&settings[..], &["cluster.workers=2"]].concat();
    let whole = sandbox.train_cluster("whole", "mirrored", &whole);
    let settings = [&settings[..], &["cluster.mode=mirrored"]].concat();
    let [port] = free_ports();
    let start_ranks = |restarts| start_pair(&sandbox, "lost", port, restarts, &settings);
    let [first, other] = start_ranks(0);
    let run = sandbox.run_folder("runs/digits-softmax-torchrun-lost");
    assert!(wait_until(|| run.has_checkpoint()), "no checkpoint");
    first.signal("KILL");
    let killed = Instant::now();
    drop(first.finish_task());
    let output = other.finish_task();
    // Nothing starts rank 0 again, so the other one does not wait for `cluster.rejoin_timeout_s`.
    assert_eq!(output.code, Some(200), "{output:?}");
    assert_says(&output.stderr, &["error: lost worker:0", "it did not come back within 5 s"]);
    assert!(killed.elapsed() < Duration::from_secs(30), "{:?}", killed.elapsed());
    let outputs = all_end_well(start_ranks(1).into());
    assert_says(&outputs[0].stderr, &["resuming from the checkpoint of step"]);
    assert_eq!(sandbox.only_run().model(), whole.model());
}

#[test]
fn a_slurm_job_of_one_task_continues_when_it_is_started_again() {
    let sandbox = Sandbox::new();
    let settings = [
        "train.stop={steps=200}",
        "cluster.mode=sync",
        "checkpoint.every_steps=20",
        "train.evaluate.every=100",
    ];
    let start_again = |restarts: Option<&str>, slow: Option<(&str, &str)>| {
        let job = [("SLURM_JOB_ID", "4711"), ("SLURM_NTASKS", "1")];
        let mut command = process(&sandbox, "train", Vec::new(), &settings);
        command.envs(job).envs(slow).envs(restarts.map(|count| ("SLURM_RESTART_COUNT", count)));
        start(&mut command)
    };
    let killed = start_again(None, Some(("PACELINE_TEST_SLOW", "*:300")));
    let run = sandbox.run_folder("runs/digits-softmax-slurm-4711");
    assert!(wait_until(|| run.has_checkpoint()), "no checkpoint");
    killed.signal("KILL");
    drop(killed.finish_task());
    let outputs = all_end_well(vec![start_again(Some("1"), None)]);
    assert_says(&outputs[0].stderr, &["resuming from the checkpoint of step"]);
    assert_eq!(sandbox.only_run().summary()["global_steps"], 200);
    let outputs = all_end_well(vec![start_again(Some("2"), None)]);
    assert_says(&outputs[0].stderr, &["is finished"]);
    // A script may train the same twice.
    all_end_well(vec![start_again(None, None)]);
    assert!(sandbox.run_folder("runs/digits-softmax-slurm-4711-2").model() == run.model());
}
