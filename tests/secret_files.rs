//! Files with the run's secret and keys: used by every launcher, and never a pipe that blocks.

use crate::hostile_peers::{ServerEndpoint, server_endpoint};
use crate::support::{
    ENDLESS, ManualRun, RunningProcess, SECRET, Sandbox, assert_says, cluster_of, finish,
    free_ports, start,
};
use crate::tls::make_keys;

/// Makes a pipe that no program writes.
fn pipe(sandbox: &Sandbox, name: &str) -> String {
    let path = sandbox.path(name);
    let made = finish(start(sandbox.program("mkfifo").args(["-m", "600"]).arg(&path)));
    assert_eq!(made.code, Some(0), "{made:?}");
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_launcher_gives_its_tasks_the_secret_of_the_jobs_file() {
    let sandbox = Sandbox::new();
    let secret = sandbox.write_secret("secret", SECRET);
    let key = format!("cluster.token_file={}", secret.display());
    let settings = [&key, "cluster.workers=1", "cluster.slots=2", ENDLESS];
    let mut launched = sandbox.launch("run", "async", &settings);
    launched.wait_for_steps();
    let ServerEndpoint { address, token } = server_endpoint(&launched);
    assert_eq!(token, SECRET);
    let secret = secret.to_str().unwrap();
    let join = ["worker", "--join", &address, "--token-file", secret, "--allow", secret];
    let mut joined = RunningProcess::start(&mut sandbox.command(&join), sandbox.path("run"));
    joined.wait_for("has joined");
    launched.signal("INT");
    assert_eq!(launched.finish_task().code, Some(130));
    assert_eq!(joined.finish().code, Some(0));
}

#[test]
fn a_secret_that_cannot_be_read_ends_a_launcher_before_it_creates_a_run() {
    let sandbox = Sandbox::new();
    sandbox.write_secret("short", "abc");
    sandbox.write("open", SECRET);
    pipe(&sandbox, "pipe");
    for (file, says) in [
        ("missing", "No such file or directory"),
        ("short", "a secret must have 16 to 256"),
        ("open", "chmod 600"),
        ("pipe", "write its content to a file"),
        (".", "it is a directory"),
    ] {
        let key = format!("cluster.token_file={file}");
        for mode in ["sync", "mirrored"] {
            let output = finish(start(&mut sandbox.cluster("run", mode, &[&key])));
            assert_eq!(output.code, Some(2), "{output:?}");
            assert_says(&output.stderr, &["cluster.token_file", file, says]);
            assert!(!sandbox.path("run").exists(), "{output:?}");
        }
    }
}

#[test]
fn keys_and_certificates_that_are_pipes_block_no_task() {
    let [port] = free_ports();
    let run = ManualRun::new(cluster_of(1, &[port]), &["cluster.mode=sync"]);
    let keys = make_keys(&run.sandbox);
    let pipe = pipe(&run.sandbox, "pipe");
    for (index, name) in ["ca", "cert", "key"].into_iter().enumerate() {
        let of_pipe = format!("cluster.tls.{name}={pipe}");
        let mut settings = keys.each_ref().map(String::as_str);
        settings[index] = &of_pipe;
        let output = run.start_with("worker", 0, &settings).finish_task();
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(&output.stderr, &["cluster.tls", &pipe, "it is a pipe or a device"]);
    }
    let address = format!("127.0.0.1:{port}");
    let join = ["worker", "--join", &address, "--token-file", &pipe];
    assert_says(&run.sandbox.fails(2, &join), &["--token-file", &pipe, "it is a pipe"]);
}
