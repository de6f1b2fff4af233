//! What docs/failures.md promises: every row names a test. Some of those tests are here.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use paceline_exchange::PROTOCOL_VERSION;
use paceline_trust::{CHALLENGE_BYTES, FIRST_BYTES};

use crate::support::{
    ENDLESS, PACELINE, RunningProcess, SECRET, SMALL_DATA, Sandbox, assert_says, cluster_of,
    free_ports, signal_to, tf_config, wait_until, workspace,
};

/// Starts a task of a cluster by hand, under a limit of the shell such as `ulimit -v 1000;`.
fn task(
    sandbox: &Sandbox,
    port: u16,
    name: &str,
    limit: &str,
    settings: &[&str],
) -> RunningProcess {
    let (role, index) = name.split_once(':').unwrap();
    let run = sandbox.path("run");
    let line = format!("{limit} exec {PACELINE} train --run-dir {} \"$@\"", run.display());
    let mut command: Command = sandbox.program("sh");
    command.args(["-c", &line, "sh"]);
    for setting in SMALL_DATA.iter().chain(settings) {
        command.args(["--set", setting]);
    }
    let index: usize = index.parse().unwrap();
    command
        .env("TF_CONFIG", tf_config(&cluster_of(2, &[port]), role, index))
        .env("PACELINE_TOKEN", SECRET);
    RunningProcess::start(&mut command, run)
}

#[test]
fn a_task_without_memory_dies_and_the_others_name_it() {
    // 400 MB of parameters do not fit into 350 MB; everything else that a task needs does.
    let large = ["model.kind=logistic", "model.dense=true", "data.features=100000000"];
    for limited in ["ps:0", "worker:1"] {
        let sandbox = Sandbox::new();
        let [port] = free_ports();
        let settings = [&large[..], &[ENDLESS, "cluster.start_timeout_s=3"]].concat();
        let mut tasks: Vec<_> = ["ps:0", "worker:0", "worker:1"]
            .into_iter()
            .filter(|name| *name != limited)
            .map(|name| task(&sandbox, port, name, "", &settings))
            .collect();
        let starved = task(&sandbox, port, limited, "ulimit -v 350000;", &settings);
        let output = starved.finish_task();
        assert!(output.code.is_none() || output.code >= Some(1), "{limited}: {output:?}");
        assert_says(&output.stderr, &["memory"]);
        let coordinator = tasks.remove(tasks.len() - 1 - usize::from(limited == "ps:0"));
        let output = coordinator.finish_task();
        assert!(output.code.unwrap() >= 128, "{limited}: worth a retry: {output:?}");
        let named = if limited == "ps:0" { "ps:0" } else { "other workers, as ps:0 does" };
        assert_says(&output.stderr, &["the run did not start", named]);
        tasks.into_iter().for_each(|task| drop(task.finish_task()));
    }
}

#[test]
fn a_worker_whose_disk_is_full_loses_its_records_and_not_the_run() {
    let sandbox = Sandbox::new();
    let [port] = free_ports();
    let settings = ["train.stop={steps=3000}", "observe.every=1"];
    let tasks = ["ps:0", "worker:0", "worker:1"].map(|name| {
        let limit = if name == "worker:1" { "trap '' XFSZ; ulimit -f 16;" } else { "" };
        (name, task(&sandbox, port, name, limit, &settings))
    });
    for (name, task) in tasks {
        let output = task.finish_task();
        assert_eq!(output.code, Some(0), "{name}: {output:?}");
        if name == "worker:1" {
            assert_says(&output.stderr, &["worker_1", "events"]);
        }
    }
}

#[test]
fn a_server_of_another_version_is_named_by_the_workers() {
    let sandbox = Sandbox::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut first = [0; FIRST_BYTES];
            let _ = stream.read_exact(&mut first);
            let mut answer = [0; CHALLENGE_BYTES];
            answer[..7].copy_from_slice(&[b'P', b'A', b'C', b'E', 99, 0, 1]);
            let _ = stream.write_all(&answer);
            // The worker closes the connection when it has read the answer.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let worker = task(&sandbox, port, "worker:0", "", &[ENDLESS, "cluster.start_timeout_s=2"]);
    let output = worker.finish_task();
    assert_eq!(output.code, Some(2), "{output:?}");
    let versions = format!("wrong version (protocol version 99, not {PROTOCOL_VERSION})");
    assert_says(&output.stderr, &["ps:0 at", &versions]);
}

#[test]
fn a_stopped_launcher_delays_no_task() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch("run", "async", &[ENDLESS]);
    launched.wait_for_steps();
    signal_to(launched.pid(), "STOP");
    let run = sandbox.run_folder("run");
    let before = run.event_bytes("worker:1");
    assert!(wait_until(|| run.event_bytes("worker:1") > before), "steps are made");
    signal_to(launched.pid(), "CONT");
    launched.signal("INT");
    assert_eq!(launched.finish().code, Some(130));
}

#[test]
fn every_row_of_the_table_names_an_existing_test() {
    let text = fs::read_to_string(workspace().join("docs/failures.md")).unwrap();
    let mut is_row = false;
    let mut count = 0;
    for row in text.lines() {
        is_row = row.starts_with('|') && (is_row || row == "| what | what happens | tests |");
        if !is_row || !row.starts_with("| ") || row.ends_with("| tests |") {
            continue;
        }
        let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
        let named = cells.last().unwrap().split('`').skip(1).step_by(2);
        let mut any = false;
        for name in named {
            any = true;
            let (module, test) = name.split_once("::").unwrap_or_else(|| panic!("{row}"));
            let path = workspace().join("tests").join(module).with_extension("rs");
            let source = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{row}: {path:?}"));
            let line = format!("#[test]\nfn {test}()");
            assert!(source.contains(&line), "{name} is named in the table but is no test: {row}");
        }
        assert!(any, "no test is named in: {row}");
        count += 1;
    }
    assert!(count > 20, "only {count} rows were found");
}
