//! Emulated clusters: hosts with links of their own, of which nothing is left.
//!
//! They need root, which CI is; who is not is told so, and the tests pass.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{
    ENDLESS, PACELINE, RunningProcess, Sandbox, assert_says, finish, processes_of, start,
    wait_until,
};

/// Whether emulated hosts can be made here.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("CapEff:")).unwrap();
    let capabilities = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
    let is_root = capabilities >> 21 & 1 == 1;
    if !is_root {
        eprintln!("skipped: emulated hosts need root");
    }
    is_root
}

/// The program as somebody who may not make networks runs it.
pub(crate) fn without_root(sandbox: &Sandbox) -> Command {
    if !is_root() {
        return sandbox.command(&[]);
    }
    let mut command = sandbox.program("setpriv");
    command.args(["--bounding-set", "-sys_admin", PACELINE]);
    command
}

/// The processes that a launcher has started and that hold networks, and those networks.
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
fn links_of_emulated_hosts_carry_what_they_may_and_no_more() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // Of 31.4 kB a step and way, 20 Mbit/s carry 79 a second.
    let settings = [
        "cluster.emulate={hosts=3, link=\"20mbit\", server=\"own\"}",
        "cluster.workers=2",
        "train.stop={steps=60}",
        "observe.sample_ms=100",
    ];
    let run = sandbox.train_cluster("run", "async", &settings);
    let summary = run.summary();
    let rate = summary["steps_per_second"].as_f64().unwrap();
    assert!((20.0..=85.0).contains(&rate), "{rate} steps/s");
    let text = summary["verdict"]["text"].as_str().unwrap();
    assert_says(text, &["network: ", "Mbit/s"]);
    // Each task sees its own host's interface, and no other's.
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
fn nothing_is_left_of_emulated_hosts_when_the_launcher_is_killed() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let settings = ["cluster.emulate={hosts=2, cpus=1.5}", ENDLESS];
    let mut command = sandbox.cluster("run", "async", &settings);
    let mut launched = RunningProcess::start(&mut command, sandbox.path("run"));
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
    // Of control groups the directories stay, empty; the next run removes them.
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
    // Three tasks from their start to their end, and whoever was served first in each period.
    let idle = resources["mean"]["cpu_idle_percent"].as_f64().unwrap();
    assert!(
        idle < 60.0,
        "what the host may use is what it is measured by: {idle} % idle, {used} s"
    );
}

#[test]
fn who_may_not_make_networks_is_told_so_and_what_to_do() {
    let sandbox = Sandbox::new();
    let mut command = without_root(&sandbox);
    command.args(["train", "--set", "cluster.emulate={hosts=2}", "--run-dir", "run"]);
    let output = finish(start(&mut command));
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(
        &output.stderr,
        &["error: cluster.emulate needs root", "leave out cluster.emulate"],
    );
    assert!(!sandbox.path("run").exists(), "nothing was made");
}

#[test]
fn a_delay_is_there_or_refused_with_its_key() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let settings = ["cluster.emulate={hosts=2, delay_ms=20}", "train.stop={steps=10}"];
    let output = finish(start(&mut sandbox.cluster("run", "sync", &settings)));
    match output.code {
        // Two workers of which one is beside the server: 20 ms each way for the other.
        Some(0) => {
            let seconds = sandbox.run_folder("run").summary()["seconds"].as_f64().unwrap();
            assert!(seconds > 0.36, "{seconds} s");
        }
        _ => {
            assert_says(&output.stderr, &["cluster.emulate.delay_ms: this kernel offers no delay"])
        }
    }
}
