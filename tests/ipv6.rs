//! Runs whose tasks reach each other over IPv6: servers, workers, the meeting, the depot and the
//! metrics of each task, all at `::1`.

use std::fs;
use std::net::{Ipv6Addr, TcpListener};

use serde_json::{Value, json};

use crate::support::{RunningProcess, SECRET, SMALL_DATA, Sandbox, tf_config};

/// Whether this machine has IPv6 at all; some containers do not.
fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// Free ports of `::1`, as addresses.
fn free_addresses<const N: usize>() -> [String; N] {
    let ports = crate::support::free_ports::<N>();
    ports.map(|port| {
        drop(TcpListener::bind((Ipv6Addr::LOCALHOST, port)).unwrap());
        format!("[::1]:{port}")
    })
}

fn all_end_well(tasks: Vec<RunningProcess>) {
    for task in tasks {
        let output = task.finish_task();
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}

const STOP: &str = "train.stop={steps=40}";

/// Trains with a directory for each task of the cluster, so that everything travels.
fn train_listed(sandbox: &Sandbox, mode: &str, cluster: &Value, tasks: &[(&str, usize)]) {
    let mode = format!("cluster.mode={mode}");
    let [files] = crate::support::free_ports();
    let files = format!("cluster.files_port={files}");
    let own =
        [mode.as_str(), &files, STOP, "checkpoint.every_steps=20", "observe.http=\"[::1]:0\""];
    let start = |&(role, index): &(&str, usize)| {
        let dir = sandbox.path(&format!("{role}-{index}"));
        let mut command = sandbox.command(&["train", "--run-dir", dir.to_str().unwrap()]);
        command.args(SMALL_DATA.iter().chain(&own).flat_map(|setting| ["--set", setting]));
        RunningProcess::start(
            command.env("TF_CONFIG", tf_config(cluster, role, index)).env("PACELINE_TOKEN", SECRET),
            dir,
        )
    };
    all_end_well(tasks.iter().map(start).collect());
}

#[test]
fn tasks_of_tf_config_train_over_ipv6_to_the_bits_of_a_local_run() {
    if !has_ipv6() {
        return;
    }
    let at = free_addresses::<4>();
    for (mode, cluster, tasks) in [
        (
            "sync",
            json!({"worker": at[..2], "ps": at[2..3]}),
            &[("ps", 0), ("worker", 0), ("worker", 1)][..],
        ),
        ("mirrored", json!({"worker": at[2..]}), &[("worker", 0), ("worker", 1)]),
    ] {
        let sandbox = Sandbox::new();
        train_listed(&sandbox, mode, &cluster, tasks);
        let run = sandbox.run_folder("worker-0");
        let local = sandbox.train_cluster("local", mode, &[STOP, "cluster.workers=2"]);
        assert_eq!(run.model(), local.model(), "{mode}");
        // The shards, events and logs of the others have come to the coordinator.
        assert!(run.has_checkpoint() && run.event_bytes("worker:1") > 0, "{mode}");
        let page = fs::read_to_string(run.file("worker_0").join("http.txt")).unwrap();
        assert!(page.starts_with("http://[::1]:"), "{page}");
    }
}

#[test]
fn processes_meet_at_an_address_of_ipv6() {
    if !has_ipv6() {
        return;
    }
    let [meet] = free_addresses();
    let sandboxes = [Sandbox::new(), Sandbox::new()];
    let start = |rank: usize| {
        let place = ["--rank", &rank.to_string(), "--size", "2", "--meet", &meet];
        let mut command = sandboxes[rank].command(&["train", "--run-dir", "run"]);
        command.args(place).env("PACELINE_TOKEN", "a secret of the user");
        let own = ["cluster.mode=sync", "cluster.servers=1", STOP];
        command.args(SMALL_DATA.iter().chain(&own).flat_map(|setting| ["--set", setting]));
        RunningProcess::start(&mut command, sandboxes[rank].path("run"))
    };
    all_end_well([0, 1].map(start).into());
    let summary = sandboxes[0].run_folder("run").summary();
    assert_eq!((&summary["global_steps"], &summary["workers"]), (&40.into(), &2.into()));
}
