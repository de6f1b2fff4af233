//! Runs whose tasks encrypt their connections and show certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::hostile_peers::{ServerEndpoint, server_endpoint};
use crate::support::{
    ENDLESS, ManualRun, RunningProcess, SECRET, Sandbox, assert_says, cluster_of, finish,
    first_error, free_ports, start, within,
};

/// Makes certificates for three hosts in a sandbox. Returns the settings that name them.
pub(crate) fn make_keys(sandbox: &Sandbox) -> [String; 3] {
    make_keys_for_days(sandbox, "365")
}

fn make_keys_for_days(sandbox: &Sandbox, days: &str) -> [String; 3] {
    let keys = sandbox.path("keys");
    let hosts = ["--hosts", "a,b,c", "--days", days];
    sandbox.ok(&[&["keys", "make", keys.to_str().unwrap()][..], &hosts].concat());
    // As if all folders had been copied to the same place on different hosts.
    let all = sandbox.path("all");
    fs::create_dir(&all).unwrap();
    for host in ["a", "b", "c"] {
        for entry in fs::read_dir(keys.join(host)).unwrap().flatten() {
            fs::copy(entry.path(), all.join(entry.file_name())).unwrap();
        }
    }
    let at = |key: &str, file: &str| format!("cluster.tls.{key}={}/{file}", all.display());
    [at("ca", "ca.pem"), at("cert", "{task}.pem"), at("key", "{task}.key")]
}

#[test]
fn a_run_over_tls_has_the_bits_of_one_without() {
    let sandbox = Sandbox::new();
    for (mode, tasks) in [("sync", "cluster.servers=2"), ("mirrored", "cluster.workers=3")] {
        let settings = ["train.stop={steps=300}", tasks];
        let plain = sandbox.train_cluster(&format!("plain-{mode}"), mode, &settings);
        let settings = [&settings[..], &["cluster.tls=run"]].concat();
        let encrypted = sandbox.train_cluster(&format!("tls-{mode}"), mode, &settings);
        assert!(plain.model() == encrypted.model(), "{mode}: the bits differ");
        assert!(!encrypted.file("keys").exists(), "the certificates are removed");
    }
}

#[test]
fn keys_make_makes_keys_that_only_their_owner_can_read_and_overwrites_none() {
    let sandbox = Sandbox::new();
    make_keys(&sandbox);
    let mode = |path: &str| fs::metadata(sandbox.path(path)).unwrap().permissions().mode() & 0o777;
    for file in ["keys/ca.key", "keys/a/worker-0.key", "keys/b/ps-1.key", "keys/c/evaluator-2.key"]
    {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    assert_eq!((mode("keys"), mode("keys/a")), (0o700, 0o700));
    let keys = sandbox.path("keys");
    let keys = keys.to_str().unwrap();
    let error = sandbox.fails(2, &["keys", "make", keys, "--hosts", "a"]);
    assert_says(first_error(&error), &["keys make", "worker-0.key", "exists"]);
    sandbox.ok(&["keys", "make", keys, "--hosts", "d", "--first", "3"]);
    let authority = |host: &str| fs::read(sandbox.path(&format!("keys/{host}/ca.pem"))).unwrap();
    assert_eq!(authority("a"), authority("d"));
    let ca_key = sandbox.path("keys/ca.key");
    fs::set_permissions(&ca_key, fs::Permissions::from_mode(0o644)).unwrap();
    let error = sandbox.fails(2, &["keys", "make", keys, "--hosts", "e"]);
    assert_says(first_error(&error), &["ca.key", "chmod 600"]);
    fs::set_permissions(&ca_key, fs::Permissions::from_mode(0o600)).unwrap();
    let error = sandbox.fails(2, &["keys", "make", keys, "--hosts", "../up"]);
    assert_says(first_error(&error), &["--hosts", "../up"]);
}

#[test]
fn tasks_with_certificates_train_without_a_token() {
    let [port] = free_ports();
    let run = ManualRun::new(cluster_of(2, &[port]), &["train.stop={steps=200}"]);
    let keys = make_keys(&run.sandbox);
    let keys = keys.each_ref().map(String::as_str);
    let tasks = [("ps", 0), ("worker", 0), ("worker", 1)];
    let tasks = tasks.map(|(role, index)| run.start_without_token(role, index, &keys));
    run.all_end_well(tasks.into());
}

#[test]
fn a_certificate_is_good_for_one_task_only() {
    let [port] = free_ports();
    let run = ManualRun::new(cluster_of(2, &[port]), &[ENDLESS]);
    let keys = make_keys(&run.sandbox);
    let [ca, cert, key] = keys.each_ref().map(String::as_str);
    let server = run.start_with("ps", 0, &[ca, cert, key]);
    let [other_cert, other_key] = [cert, key].map(|path| path.replace("{task}", "worker-1"));
    let thief = run.start_with("worker", 0, &[ca, &other_cert, &other_key]);
    let output = thief.finish_task();
    assert_eq!(output.code, Some(2), "{output:?}");
    let says = ["wrong certificate", "its certificate is not that of worker:0"];
    assert_says(&output.stderr, &says);
    assert_says(&run.run().log("ps:0"), &["its certificate is not that of worker:0 (127.0.0.1:"]);
    drop(server);
}

#[test]
fn a_worker_of_mirrored_cannot_be_another_one_either() {
    let addresses = free_ports::<2>().map(|port| format!("127.0.0.1:{port}"));
    let settings = ["cluster.mode=mirrored", ENDLESS];
    let run = ManualRun::new(json!({"worker": addresses}), &settings);
    let keys = make_keys(&run.sandbox);
    let [ca, cert, key] = keys.each_ref().map(String::as_str);
    let first = run.start_with("worker", 0, &[ca, cert, key]);
    let [other_cert, other_key] = [cert, key].map(|path| path.replace("{task}", "worker-2"));
    let output = run.start_with("worker", 1, &[ca, &other_cert, &other_key]).finish_task();
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["its certificate is not that of worker:1"]);
    drop(first);
}

#[test]
fn a_task_with_certificates_of_another_authority_is_refused_and_says_so() {
    let [port] = free_ports();
    let run = ManualRun::new(cluster_of(1, &[port]), &[ENDLESS]);
    let keys = make_keys(&run.sandbox);
    let other = Sandbox::new();
    let other_keys = make_keys(&other);
    let server = run.start_with("ps", 0, &other_keys.each_ref().map(String::as_str));
    let worker = run.start_with("worker", 0, &keys.each_ref().map(String::as_str));
    let output = worker.finish_task();
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["ps:0 at 127.0.0.1:", "wrong certificate", "invalid peer"]);
    drop(server);
}

#[test]
fn certificates_that_have_expired_are_refused() {
    let [port] = free_ports();
    let run = ManualRun::new(cluster_of(1, &[port]), &[ENDLESS]);
    let keys = make_keys_for_days(&run.sandbox, "0");
    // They end with the second in which they were made.
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let made = now();
    within(Duration::from_secs(5), "the next second", || now() > made);
    let settings = keys.each_ref().map(String::as_str);
    let server = run.start_with("ps", 0, &settings);
    let output = run.start_with("worker", 0, &settings).finish_task();
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["ps:0 at 127.0.0.1:", "wrong certificate", "expired"]);
    drop(server);
}

#[test]
fn a_key_that_others_can_read_and_a_missing_one_are_refused() {
    let [port] = free_ports();
    let run = ManualRun::new(cluster_of(1, &[port]), &[ENDLESS]);
    let keys = make_keys(&run.sandbox);
    let [ca, cert, key] = keys.each_ref().map(String::as_str);
    let path = run.sandbox.path("all/worker-0.key");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let output = run.start_with("worker", 0, &[ca, cert, key]).finish_task();
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["cluster.tls", "worker-0.key", "chmod 600"]);
    let output = run.start_with("worker", 0, &[ca, cert]).finish_task();
    assert_says(&output.stderr, &["cluster.tls.ca", "needs cluster.tls.key"]);
}

#[test]
fn workers_join_a_run_with_certificates() {
    // A run of the launcher, whose directory has a certificate for workers that join.
    let sandbox = Sandbox::new();
    let settings = ["cluster.tls=run", "cluster.workers=1", "cluster.slots=2", ENDLESS];
    let mut launched = sandbox.launch("run", "async", &settings);
    launched.wait_for_steps();
    let run = sandbox.path("run");
    let join = ["worker", "--join", run.to_str().unwrap()];
    let mut joined = RunningProcess::start(&mut sandbox.command(&join), run.clone());
    joined.wait_for("has joined");
    // Without a certificate, the secret is not enough.
    let ServerEndpoint { address, token } = server_endpoint(&launched);
    let token = sandbox.write_secret("token", &token);
    let plain = ["worker", "--join", &address, "--token-file", token.to_str().unwrap()];
    let output = finish(start(&mut sandbox.command(&plain)));
    assert_ne!(output.code, Some(0), "{output:?}");
    launched.signal("INT");
    assert_eq!(launched.finish_task().code, Some(130));
    assert_eq!(joined.finish().code, Some(0));
}

#[test]
fn a_worker_that_joins_has_the_name_that_its_certificate_states() {
    let [port] = free_ports();
    let settings = ["cluster.mode=async", "cluster.slots=2", ENDLESS];
    let run = ManualRun::new(cluster_of(1, &[port]), &settings);
    let keys = make_keys(&run.sandbox);
    let keys = keys.each_ref().map(String::as_str);
    let tasks = [("ps", 0), ("worker", 0)];
    let _tasks = tasks.map(|(role, index)| run.start_with(role, index, &keys));
    run.wait_for_log("ps:0", "all workers are connected");
    let token = run.sandbox.write_secret("token", SECRET);
    let address = format!("127.0.0.1:{port}");
    let file = |name: &str| run.sandbox.path(&format!("all/{name}")).display().to_string();
    let join = |task: &str| {
        let [ca, cert, key] =
            ["ca.pem".to_owned(), format!("{task}.pem"), format!("{task}.key")].map(|f| file(&f));
        let token = token.to_str().unwrap();
        let args = ["worker", "--join", &address, "--token-file", token, "--ca", &ca];
        let args = [&args[..], &["--cert", &cert, "--key", &key]].concat();
        RunningProcess::start(&mut run.sandbox.command(&args), run.run().path)
    };
    // It lives on: losing it would end the run.
    let mut joined = join("worker-2");
    joined.wait_for("has joined");
    run.wait_for_log("ps:0", "worker:2 has joined");
    // A server's certificate is none of a worker.
    let output = join("ps-1").finish_task();
    assert_ne!(output.code, Some(0), "{output:?}");
    assert_says(&output.stderr, &["its certificate is not that of worker"]);
}
