//! Attacks on a run by processes that have no credentials: they stop nothing and cost little.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use paceline_exchange::FrameKind;

use crate::hostile_peers::{ServerEndpoint, end_unharmed, frame, hello, server_endpoint};
use crate::support::{ENDLESS, Sandbox, assert_says, finish, start};

/// The threads of a process.
fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

/// Limits the number of files that a process may open.
fn limit_open_files(pid: u32, most: u32) {
    let limited = Command::new("prlimit")
        .args([format!("--pid={pid}"), format!("--nofile={most}:{most}")])
        .status();
    assert!(limited.unwrap().success(), "prlimit");
}

#[test]
fn idle_strangers_cost_no_thread() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch_five_tasks("sync", &[ENDLESS]);
    let address = server_endpoint(&launched).address;
    let server = launched.task("ps:0");
    let before = threads(server);
    let open: Vec<_> = (0..700).map(|_| TcpStream::connect(&address).unwrap()).collect();
    launched.wait_for_more_steps();
    assert_eq!(threads(server), before, "threads with 700 idle connections");
    drop(open);
    end_unharmed(&sandbox, launched);
}

#[test]
fn more_strangers_than_a_server_may_open_files_do_not_end_the_run() {
    let sandbox = Sandbox::new();
    let mut launched =
        sandbox.launch_five_tasks("async", &[ENDLESS, "cluster.on_worker_loss=wait"]);
    let address = server_endpoint(&launched).address;
    limit_open_files(launched.task("ps:0"), 64);
    let open: Vec<_> = (0..300).map(|_| TcpStream::connect(&address).unwrap()).collect();
    launched.wait_for_more_steps();
    // A worker that comes back finds a place among them.
    launched.kill_and_wait_for_restart("worker:1");
    launched.wait_for_more_steps();
    drop(open);
    let log = sandbox.run_folder("run").log("ps:0");
    assert_says(&log, &["cannot accept a connection"]);
    assert!(log.lines().count() < 200, "strangers fill the log: {log}");
    launched.signal("INT");
    assert_eq!(launched.finish().code, Some(130));
}

#[test]
fn thousands_of_bad_handshakes_leave_the_log_short() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch_five_tasks("async", &[ENDLESS]);
    let ServerEndpoint { address, .. } = server_endpoint(&launched);
    let wrong = frame(FrameKind::Hello, &hello("wrong").encode());
    let begun = Instant::now();
    let mut attempts = 0;
    while attempts < 3_000 && begun.elapsed() < Duration::from_secs(20) {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(&wrong).unwrap();
        attempts += 1;
    }
    launched.wait_for_more_steps();
    let log = sandbox.run_folder("run").log("ps:0");
    assert_says(&log, &["refused a connection at 127.0.0.1:", ": the token is not this run's"]);
    assert!(log.lines().count() < 200, "{attempts} attempts fill the log: {log}");
    end_unharmed(&sandbox, launched);
}

#[test]
fn a_cluster_that_does_not_fit_the_limit_of_open_files_is_refused_before_the_start() {
    let sandbox = Sandbox::new();
    let train = sandbox.cluster("run", "sync", &["cluster.workers=3", ENDLESS]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 200; exec \"$0\" \"$@\""]);
    command.arg(train.get_program()).args(train.get_args());
    command.envs(train.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(train.get_current_dir().unwrap());
    let output = finish(start(&mut command));
    assert_ne!(output.code, Some(0), "{output:?}");
    assert_says(&output.stderr, &["a server with 3 workers needs 262 open files", "ulimit -n 262"]);
}
