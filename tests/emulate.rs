//! Emulated clusters: hosts with links of their own, which vanish with the run.
//!
//! Emulation needs root, which CI has. Without root the tests print that they are skipped and
//! pass.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{
    ENDLESS, PACELINE, Sandbox, assert_says, finish, processes_of, start, wait_until,
};

/// Whether this process may create emulated hosts.
pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("CapEff:")).unwrap();
    let capabilities = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
    let is_root = capabilities >> 21 & 1 == 1;
    if !is_root {
        eprintln!("skipped: emulated hosts need root");
    }
    is_root
}

/// The program, ready to start without the right to create networks.
pub(crate) fn without_root(sandbox: &Sandbox) -> Command {
    if !is_root() {
        return sandbox.command(&[]);
    }
    let mut command = sandbox.program("setpriv");
    command.args(["--bounding-set", "-sys_admin", PACELINE]);
    command
}

#[test]
fn a_server_that_lacks_processor_time_on_a_host_of_its_own_holds_the_run_back() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // The network is large, so its exchange overlaps the computation.
    let settings = [
        "cluster.emulate={hosts=2, cpus=0.3, server=\"own\"}",
        "cluster.workers=1",
        "model.kind=network",
        "model.layers=[{kind=\"flatten\"}, {kind=\"dense\", size=2048}, {kind=\"relu\"}, \
         {kind=\"dense\", size=2048}, {kind=\"dense\", size=10}]",
        "train.batch=1",
        "train.optimizer={kind=\"adam\", rate=0.0001}",
        "train.stop={seconds=3}",
        "train.evaluate.every=1000",
    ];
    let run = sandbox.train_cluster("run", "async", &settings);
    let (worker, verdict) = (run.task("worker:0"), run.summary()["verdict"].clone());
    assert_eq!(worker["phases"]["push"], 0.0, "the exchange overlaps: {worker}");
    let shares = &verdict["shares"];
    assert!(shares["server"].as_f64() > shares["network"].as_f64(), "{verdict}");
    // On a machine that is busy with something else, all tasks lack cores.
    if verdict["kind"] != "cores" {
        assert_says(verdict["text"].as_str().unwrap(), &["server: ", "ps:0 is busy for"]);
    }
}

/// The child processes of a launcher, each with its network namespace.
fn networks(launcher: u32) -> Vec<(u32, String)> {
    let children = format!("/proc/{launcher}/task/{launcher}/children");
    let children = fs::read_to_string(children).unwrap_or_default();
    let pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
    let network = |pid: u32| {
        let network = fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
        Some((pid, network.to_string_lossy().into_owned()))
    };
    pids.filter_map(network).collect()
}

#[test]
fn links_of_emulated_hosts_are_held_to_their_rate() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // A step sends 31.4 kB each way, so 20 Mbit/s carry 79 steps/s.
    let settings = [
        "cluster.emulate={hosts=3, link=\"20mbit\", server=\"own\"}",
        "cluster.workers=2",
        "train.stop={steps=120}",
        "observe.sample_ms=100",
    ];
    let run = sandbox.train_cluster("run", "async", &settings);
    let summary = run.summary();
    let rate = summary["steps_per_second"].as_f64().unwrap();
    assert!((20.0..=85.0).contains(&rate), "{rate} steps/s");
    let verdict = &summary["verdict"];
    let shares = &verdict["shares"];
    if verdict["kind"] != "cores" {
        assert_says(verdict["text"].as_str().unwrap(), &["network: ", " sends ", "Mbit/s"]);
        assert!(shares["network"].as_f64() > shares["server"].as_f64(), "{verdict}");
    }
    // Each task measures its own host's interface only.
    for (task, steps) in [("ps:0", 60.0), ("worker:0", 20.0)] {
        let mean = run.task(task)["resources"]["mean"]["net_sent_bytes_per_s"].as_f64().unwrap();
        assert!(mean > steps * 1_000.0 && mean < 2_700_000.0, "{task}: {mean} bytes/s");
    }
}

#[test]
fn workers_of_emulated_hosts_find_each_other_without_servers() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let settings = ["cluster.emulate={hosts=2}", "train.stop={steps=20}"];
    let emulated = sandbox.train_cluster("emulated", "mirrored", &settings);
    let plain = sandbox.train_cluster("plain", "mirrored", &settings[1..]);
    assert_eq!(emulated.params(), plain.params(), "where a task runs changes no bit");
}

#[test]
fn emulated_hosts_vanish_when_their_launcher_is_killed() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let settings = ["cluster.emulate={hosts=2, cpus=1.5}", ENDLESS];
    let mut launched = sandbox.launch("run", "async", &settings);
    launched.wait_for_steps();
    let own = fs::read_link("/proc/self/ns/net").unwrap().to_string_lossy().into_owned();
    let held = networks(launched.pid());
    let mut names: Vec<_> = held.iter().map(|(_, network)| network.clone()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3, "two hosts and a switch: {held:?}");
    assert!(!names.contains(&own), "this machine's network is not touched");
    launched.signal("KILL");
    let is_gone = || held.iter().all(|(pid, _)| !Path::new(&format!("/proc/{pid}")).exists());
    assert!(wait_until(|| processes_of(&sandbox.path("run")).is_empty() && is_gone()));
    let killed = launched.pid();
    launched.finish();
    // Empty control groups remain; the next run removes them.
    let settings = ["cluster.emulate={hosts=1, cpus=1.5}", "train.stop={steps=2}"];
    sandbox.train_cluster("next", "async", &settings);
    for tree in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"] {
        let left = Path::new(tree).join(format!("paceline-{killed}-host0"));
        assert!(!left.exists(), "{}", left.display());
    }
}

#[test]
fn an_emulated_host_is_held_to_its_share_of_the_cores() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let settings = ["cluster.emulate={hosts=1, cpus=0.25}", "train.stop={seconds=0.5}"];
    let run = sandbox.train_cluster("run", "async", &settings);
    let resources = &run.task("worker:0")["resources"];
    assert_eq!(resources["cores"].as_f64(), Some(0.25));
    let summary = run.summary();
    let used: f64 = summary["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["cpu_seconds"].as_f64().unwrap())
        .sum();
    let idle = resources["mean"]["cpu_idle_percent"].as_f64().unwrap();
    assert!(idle < 60.0, "idle time is relative to the host's share: {idle} % idle, {used} s");
}

#[test]
fn without_root_emulation_is_refused_with_what_to_do() {
    let sandbox = Sandbox::new();
    let mut command = without_root(&sandbox);
    command.args(["train", "--set", "cluster.emulate={hosts=2}", "--run-dir", "run"]);
    let output = finish(start(&mut command));
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(
        &output.stderr,
        &["error: cluster.emulate needs root", "leave out cluster.emulate"],
    );
    assert!(!sandbox.path("run").exists(), "the run directory was created");
}

#[test]
fn a_delay_is_applied_or_refused_by_its_key() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let settings = ["cluster.emulate={hosts=2, delay_ms=20}", "train.stop={steps=10}"];
    let output = finish(start(&mut sandbox.cluster("run", "sync", &settings)));
    match output.code {
        // One of the two workers shares a host with the server; the other is 20 ms away.
        Some(0) => {
            let seconds = sandbox.run_folder("run").summary()["seconds"].as_f64().unwrap();
            assert!(seconds > 0.36, "{seconds} s");
        }
        _ => assert_says(
            &output.stderr,
            &["cluster.emulate.delay_ms: this kernel does not support delays"],
        ),
    }
}
