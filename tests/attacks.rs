//! Attacks on a run by processes that have no credentials: they stop nothing and cost little.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use paceline_exchange::{FrameKind, Header};
use paceline_trust::FIRST_BYTES;
use serde_json::json;

use crate::hostile_peers::{
    ServerEndpoint, challenged, dialer, end_unharmed, frame, hello, server_endpoint, wait_for_close,
};
use crate::support::{
    ENDLESS, ManualRun, RunningProcess, SECRET, Sandbox, assert_says, cluster_of, finish,
    free_ports, start, tree,
};

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
    let wrong = [&dialer("wrong", &hello()).first()[..], &[7; 32]].concat();
    let begun = Instant::now();
    let mut attempts = 0;
    while attempts < 3_000 && begun.elapsed() < Duration::from_secs(20) {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(&wrong).unwrap();
        attempts += 1;
    }
    launched.wait_for_more_steps();
    let log = sandbox.run_folder("run").log("ps:0");
    assert_says(&log, &["a stranger: it does not wait for the challenge (127.0.0.1:"]);
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

/// The memory of a process, in bytes.
fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1024 * line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
}

#[test]
fn headers_before_a_hello_cost_a_worker_of_the_mesh_no_memory() {
    let ports: [u16; 2] = free_ports();
    let addresses = ports.map(|port| format!("127.0.0.1:{port}"));
    let settings = ["cluster.mode=mirrored", "train.stop={steps=50}"];
    let manual_run = ManualRun::new(json!({"worker": addresses}), &settings);
    let mut first = manual_run.start("worker", 0);
    first.wait_for("worker:1 at ");
    let before = resident_bytes(first.pid());
    // Each claims the longest payload that there is.
    let huge = Header::new(FrameKind::PushKeys, 60 << 20).encode();
    let strangers: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(&addresses[0]).unwrap();
            stream.write_all(&huge).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            stream
        })
        .collect();
    // All of them are read, and sent away.
    for mut stream in strangers {
        let _ = stream.read(&mut [0; 1]);
    }
    let grown = resident_bytes(first.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    manual_run.all_end_well(vec![first, manual_run.start("worker", 1)]);
}

#[test]
fn a_pipe_that_is_not_read_does_not_stop_training() {
    let sandbox = Sandbox::new();
    let (_unread, mut full) = std::io::pipe().unwrap();
    // As much as a pipe holds.
    full.write_all(&vec![b'x'; 64 << 10]).unwrap();
    let mut command = sandbox.cluster("run", "async", &["train.stop={steps=300}"]);
    let child = command.stdout(Stdio::null()).stderr(full).spawn().unwrap();
    let output = finish(child);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(sandbox.run_folder("run").summary()["stop_reason"], "steps");
}

#[test]
fn a_worker_that_joins_by_address_uses_only_paths_that_its_user_allows() {
    let sandbox = Sandbox::new();
    let rows = sandbox.write("data/rows.svm", "1 1:1\n0 2:1\n".repeat(50));
    let data = format!("data={{kind=\"libsvm\", path={:?}}}", rows.to_str().unwrap());
    let mut launched = sandbox.launch("run", "async", &[&data, "train.batch=2", ENDLESS]);
    launched.wait_for_steps();
    let ServerEndpoint { address, token } = server_endpoint(&launched);
    let token = sandbox.write_secret("token", &token);
    let join = ["worker", "--join", &address, "--token-file", token.to_str().unwrap()];
    let listed = format!("data.path = {}", rows.display());
    let flag = format!("--allow {}", rows.display());
    assert_says(&sandbox.fails(2, &join), &["wants to use these paths", &listed, &flag]);
    let elsewhere = [&join[..], &["--allow", "/etc"]].concat();
    assert_says(&sandbox.fails(2, &elsewhere), &[&listed]);
    let folder = sandbox.path("data");
    let allowed = [&join[..], &["--allow", folder.to_str().unwrap()]].concat();
    let mut joined = RunningProcess::start(&mut sandbox.command(&allowed), sandbox.path("run"));
    joined.wait_for("has joined");
    assert_eq!(tree(&sandbox.path("data")), ["rows.svm"], "nothing is left beside the data");
    launched.signal("INT");
    assert_eq!(launched.finish_task().code, Some(130));
    assert_eq!(joined.finish().code, Some(0));
}

/// Plants the directory of a run with a file that says how to join.
fn plant_join_file(sandbox: &Sandbox, access: &ServerEndpoint) -> PathBuf {
    let ServerEndpoint { address, token } = access;
    let text = json!({"servers": [address], "token": token}).to_string();
    sandbox.write_secret("planted/join.json", &text)
}

#[test]
fn a_worker_that_joins_by_a_directory_trusts_only_a_file_of_its_own_user() {
    let sandbox = Sandbox::new();
    let rows = sandbox.write("data/rows.svm", "1 1:1\n0 2:1\n".repeat(50));
    let data = format!("data={{kind=\"libsvm\", path={:?}}}", rows.to_str().unwrap());
    let mut launched = sandbox.launch("run", "async", &[&data, "train.batch=2", ENDLESS]);
    launched.wait_for_steps();
    let access = server_endpoint(&launched);
    let join = ["worker", "--join", "planted"];
    let planted = plant_join_file(&sandbox, &access);
    for mode in [0o644, 0o602, 0o660] {
        fs::set_permissions(&planted, fs::Permissions::from_mode(mode)).unwrap();
        // The administrator may share a file with a group that reads it.
        assert_says(&sandbox.fails(2, &join), &["planted", "others may read or change"]);
    }
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o600)).unwrap();
    // Only the administrator can give a file away.
    if chown(&planted, Some(65_534), None).is_ok() {
        let listed = format!("data.path = {}", rows.display());
        assert_says(&sandbox.fails(2, &join), &["wants to use these paths", &listed]);
    }
    fs::remove_file(&planted).unwrap();
    symlink("/dev/zero", &planted).unwrap();
    assert_says(&sandbox.fails(2, &join), &["planted", "not a regular file"]);
    fs::remove_file(&planted).unwrap();
    assert!(Command::new("mkfifo").arg(&planted).status().unwrap().success());
    assert_says(&sandbox.fails(2, &join), &["planted", "not a regular file"]);
    launched.signal("INT");
    assert_eq!(launched.finish().code, Some(130));
}

#[test]
fn a_listener_that_poses_as_a_server_learns_no_token_and_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let manual_run = ManualRun::new(cluster_of(1, &[port]), &["cluster.start_timeout_s=20"]);
    let worker = manual_run.start("worker", 0);
    let mut sent = Vec::new();
    // It answers as well as it can without the token, as often as the worker calls.
    for _ in 0..3 {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut first = [0; FIRST_BYTES];
        stream.read_exact(&mut first).unwrap();
        let challenge = [&first[..6], &[0; 66]].concat();
        let _ = stream.write_all(&challenge);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        sent.extend(first);
        sent.extend(rest);
    }
    let output = worker.finish_task();
    assert_eq!(output.code, Some(2), "{output:?}");
    let address = format!("ps:0 at 127.0.0.1:{port}, wrong token");
    assert_says(&output.stderr, &[&address, "give all tasks the same job and token"]);
    let is_secret = |bytes: &[u8]| bytes == SECRET.as_bytes();
    assert!(!sent.windows(SECRET.len()).any(is_secret), "the token was sent");
    assert_eq!(sent.len(), 3 * FIRST_BYTES, "only first messages were sent");
}

#[test]
fn recorded_bytes_are_refused_and_the_honest_worker_keeps_its_slot() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch_five_tasks("sync", &[ENDLESS]);
    let ServerEndpoint { address, token } = server_endpoint(&launched);
    // What a later process of worker 0 sends, which the attacker has recorded.
    let claims = hello();
    let recorded = dialer(&token, &claims);
    let (stream, proof) = challenged(&address, &recorded);
    drop(stream);
    let first_and_proof = [&recorded.first()[..], &proof.unwrap()].concat();
    let whole = [first_and_proof, frame(FrameKind::Hello, &claims.encode())].concat();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(&whole).unwrap();
        wait_for_close(stream);
        let (mut stream, _) = challenged(&address, &recorded);
        stream.write_all(&whole[FIRST_BYTES..]).unwrap();
        wait_for_close(stream);
    }
    launched.wait_for_more_steps();
    let log = sandbox.run_folder("run").log("ps:0");
    assert_says(&log, &["the token is not this run's", "it does not wait for the challenge"]);
    end_unharmed(&sandbox, launched);
}

/// What a user of the machine gets from the page at this address.
fn page_for(user: u32, address: &str) -> String {
    let script = "exec 3<>/dev/tcp/${0%:*}/${0##*:}; \
                  printf 'GET /api/runs HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
    let mut client = Command::new("bash");
    let output = finish(start(client.args(["-c", script, address]).uid(user).current_dir("/")));
    output.stdout
}

#[test]
fn another_user_of_the_machine_cannot_read_the_page() {
    let own = fs::metadata("/proc/self").unwrap().uid();
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("runs")).unwrap();
    let mut command = sandbox.command(&["watch", "runs", "--listen", "127.0.0.1:0"]);
    let mut launched = RunningProcess::start(&mut command, sandbox.path("runs"));
    launched.wait_for("watch: http://");
    let printed = launched.stderr();
    let address = printed.split("watch: http://").nth(1).unwrap().split('/').next().unwrap();
    assert_says(&page_for(own, address), &["HTTP/1.1 200 OK"]);
    // Only the administrator can act as another user.
    if own == 0 {
        let refused = page_for(65_534, address);
        assert_says(&refused, &["HTTP/1.1 403 Forbidden", "only for the user who started it"]);
    }
}

#[test]
fn tasks_that_are_placed_by_hand_need_a_secret_on_one_machine_too() {
    let [port] = free_ports();
    let manual_run = ManualRun::new(cluster_of(1, &[port]), &[ENDLESS]);
    for (role, index) in [("worker", 0), ("ps", 0)] {
        let config = crate::support::tf_config(&cluster_of(1, &[port]), role, index);
        let output = finish(start(manual_run.command(&config).env_remove("PACELINE_TOKEN")));
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(
            &output.stderr,
            &["need the run's secret", "cluster.token_file", "PACELINE_TOKEN"],
        );
    }
}
