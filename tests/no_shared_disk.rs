//! Runs whose tasks share no directory: each has its own, on a machine of its own (a network
//! namespace) where that is possible. The coordinator keeps checkpoints, events and logs.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{
    PACELINE, RunFolder, RunningProcess, SECRET, SMALL_DATA, Sandbox, assert_says, free_ports,
    tf_config, wait_until,
};
use crate::tls::make_keys;

/// A network namespace, which ends with its holder.
struct TestMachine {
    holder: Child,
}

impl TestMachine {
    /// Four machines with the addresses 10.231.77.1 to 4, and the switch between them; `None`
    /// without the right to create networks.
    fn four() -> Option<Vec<Self>> {
        if !crate::emulate::is_root() {
            return None;
        }
        let machines: Vec<_> = (0..5).map(|_| Self::start()).collect();
        let mut bridge = String::from("link add bridge type bridge\nlink set bridge up\n");
        for (nth, machine) in machines[..4].iter().enumerate() {
            let pid = machine.holder.id();
            bridge += &format!("link add port{nth} type veth peer name eth0 netns {pid}\n");
            bridge += &format!("link set port{nth} master bridge up\n");
        }
        machines[4].ip(&bridge);
        for (nth, machine) in machines[..4].iter().enumerate() {
            let address = format!("address add 10.231.77.{}/24 dev eth0\n", nth + 1);
            machine.ip(&format!("{address}link set lo up\nlink set eth0 up\n"));
        }
        Some(machines)
    }

    fn start() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        // The holder repeats its input once the namespace exists.
        holder.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        holder.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Self { holder }
    }

    fn ip(&self, lines: &str) {
        let mut command = Command::new("nsenter");
        command.arg(self.network()).args(["--", "ip", "-batch", "-"]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{lines}");
    }

    fn network(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.holder.id())
    }
}

impl Drop for TestMachine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A run whose tasks have directories of their own.
struct SeparateRun {
    sandbox: Sandbox,
    cluster: Value,
    settings: Vec<String>,
    machines: Vec<TestMachine>,
}

impl SeparateRun {
    fn new(mode: &str, machines: Vec<TestMachine>, cluster: Value, settings: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        let token = sandbox.write_secret("token", SECRET);
        let own =
            [format!("cluster.mode={mode}"), format!("cluster.token_file={}", token.display())];
        let settings = SMALL_DATA.iter().chain(settings).map(|&setting| setting.to_owned());
        // Files are encrypted as gradients are.
        let keys = (mode == "mirrored").then(|| make_keys(&sandbox)).into_iter().flatten();
        let settings = own.into_iter().chain(keys).chain(settings).collect();
        Self { sandbox, cluster, settings, machines }
    }

    /// Starts a task into the directory `dir`, or resumes it from there.
    fn start(&self, task: &str, dir: &str, resumes: Option<&str>) -> RunningProcess {
        let (role, index) = task.split_once(':').unwrap();
        let index: usize = index.parse().unwrap();
        let machine = if role == "ps" { 2 + index } else { index };
        let mut command = match self.machines.get(machine) {
            Some(machine) => {
                let mut command = self.sandbox.program("nsenter");
                command.arg(machine.network()).args(["--", PACELINE]);
                command
            }
            None => self.sandbox.command(&[]),
        };
        let path = self.dir(dir);
        command.arg("train");
        match resumes {
            Some(stop) => {
                // A machine that takes part for the first time needs the job.
                fs::create_dir_all(&path).unwrap();
                let job = self.coordinator().file("job.toml");
                if job != path.join("job.toml") {
                    fs::copy(job, path.join("job.toml")).unwrap();
                }
                command.arg("--resume").arg(&path).args(["--set", stop]);
            }
            None => {
                command.arg("--run-dir").arg(&path);
                command.args(self.settings.iter().flat_map(|setting| ["--set", setting]));
            }
        }
        command
            .env("TF_CONFIG", tf_config(&self.cluster, role, index))
            .env("PACELINE_TOKEN", SECRET);
        RunningProcess::start(&mut command, path)
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.sandbox.path(name)
    }

    fn coordinator(&self) -> RunFolder {
        self.sandbox.run_folder("worker-0")
    }

    /// The steps of the coordinator's complete checkpoints, the oldest first.
    fn checkpoints(&self) -> Vec<u64> {
        let entries = fs::read_dir(self.coordinator().file("checkpoints")).into_iter().flatten();
        let complete = entries.flatten().filter(|at| at.path().join("manifest.json").exists());
        let step = |name: String| name.strip_prefix("step-")?.parse().ok();
        let mut steps: Vec<u64> =
            complete.filter_map(|at| step(at.file_name().to_string_lossy().into_owned())).collect();
        steps.sort_unstable();
        steps
    }
}

fn all_end_well(tasks: Vec<RunningProcess>) {
    for task in tasks {
        let output = task.finish_task();
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}

#[test]
fn tasks_on_four_machines_without_a_common_disk_lose_a_server_and_then_everything() {
    let at = |n: u16| format!("10.231.77.{n}:5000");
    let (machines, hosts) = match TestMachine::four() {
        Some(machines) => (machines, [1, 2, 3, 4].map(at)),
        None => (Vec::new(), free_ports::<4>().map(|port| format!("127.0.0.1:{port}"))),
    };
    let cluster = json!({"worker": hosts[..2], "ps": hosts[2..]});
    let port = format!("cluster.files_port={}", free_ports::<1>()[0]);
    let common = ["train.batch=10", "train.optimizer={kind=\"momentum\", rate=0.01}"];
    let more = [&port[..], "cluster.on_worker_loss=wait", "checkpoint.every_steps=500"];
    let more = [&more[..], &["checkpoint.keep=2", "train.stop={steps=100000000}"]].concat();
    let run = SeparateRun::new("sync", machines, cluster, &[&common[..], &more].concat());
    let tasks = ["worker:0", "worker:1", "ps:0", "ps:1"];
    let dir = |task: &str| task.replace(':', "-");
    let mut running: Vec<_> = tasks.iter().map(|task| run.start(task, &dir(task), None)).collect();
    let has_more = |than: u64| run.checkpoints().last().is_some_and(|&last| last > than);
    assert!(wait_until(|| has_more(0)), "{}", running[0].stderr());
    // A server dies, and its machine's disk with it.
    let lost = running.pop().unwrap();
    lost.signal("KILL");
    drop(lost.finish_task());
    let before = run.checkpoints().last().copied().unwrap();
    running.push(run.start("ps:1", "ps-1-new", None));
    assert!(wait_until(|| has_more(before)), "{}", running[0].stderr());
    assert!(wait_until(|| run.coordinator().event_bytes("worker:1") > 0), "live events");
    let old_log = run.coordinator().file("ps_0").join("log.txt");
    assert!(wait_until(|| old_log.exists()), "a live log");
    for task in running {
        task.signal("KILL");
        drop(task.finish_task());
    }
    let last = run.checkpoints().last().copied().unwrap();
    let stop = format!("train.stop={{steps={}}}", last + 50);
    let resumed = tasks.iter().map(|task| {
        let dir = if *task == "worker:0" { dir(task) } else { format!("new-{}", dir(task)) };
        run.start(task, &dir, Some(&stop))
    });
    all_end_well(resumed.collect());
    assert_eq!(run.checkpoints(), [last, last + 50], "older ones are removed");
    for task in &tasks[1..] {
        assert!(run.coordinator().event_bytes(task) > 0, "{task}");
        let log = run.coordinator().log(task);
        assert!(log.contains("checkpoint of step") || *task == "worker:1", "{task}: {log}");
    }
    // The log of the new disk does not replace that of the old one.
    assert!(run.coordinator().file("ps_0").join("log.txt.1").exists());
    let settings = [&common[..], &["cluster.servers=2", &stop]].concat();
    let undisturbed = run.sandbox.train_cluster("undisturbed", "sync", &settings);
    assert!(run.coordinator().model() == undisturbed.model(), "the bytes differ");
}

/// Trains 25 steps on tasks without a common disk, and 15 more on new disks but for the
/// coordinator's. `common` are the settings that the same run on one machine has, too.
fn resume_on_new_disks(mode: &str, cluster: Value, tasks: &[&str], common: &[&str]) -> SeparateRun {
    let port = format!("cluster.files_port={}", free_ports::<1>()[0]);
    let more = [&port[..], "checkpoint.every_steps=10", "train.stop={steps=25}"];
    let more = [common, &more[..], &["observe.gather=\"end\""]].concat();
    let run = SeparateRun::new(mode, Vec::new(), cluster, &more);
    let dir = |task: &str| task.replace(':', "-");
    all_end_well(tasks.iter().map(|task| run.start(task, &dir(task), None)).collect());
    assert_eq!(run.checkpoints().last(), Some(&25));
    let resumed = tasks.iter().map(|task| {
        let dir = if *task == "worker:0" { dir(task) } else { format!("new-{}", dir(task)) };
        run.start(task, &dir, Some("train.stop={steps=40}"))
    });
    all_end_well(resumed.collect());
    run
}

#[test]
fn mirrored_workers_without_a_common_disk_resume_with_the_same_bits() {
    let cluster = json!({"worker": free_ports::<3>().map(|port| format!("127.0.0.1:{port}"))});
    let common = ["train.batch=10", "train.optimizer={kind=\"adam\", rate=0.01}"];
    let tasks = ["worker:0", "worker:1", "worker:2"];
    let run = resume_on_new_disks("mirrored", cluster, &tasks, &common);
    let whole = [&common[..], &["cluster.workers=3", "train.stop={steps=40}"]].concat();
    let whole = run.sandbox.train_cluster("whole", "mirrored", &whole);
    assert!(run.coordinator().model() == whole.model(), "the bytes differ");
    assert!(run.coordinator().event_bytes("worker:2") > 0, "gathered at the end");
}

#[test]
fn models_with_vectors_on_two_servers_without_a_common_disk_resume_with_the_same_bits() {
    // The keys of the first are ranges, those of the second lie on both servers.
    for kind in ["fm", "deepfm"] {
        let at = free_ports::<3>().map(|port| format!("127.0.0.1:{port}"));
        let cluster = json!({"worker": at[..1], "ps": at[1..]});
        let kind = format!("model.kind={kind}");
        let common = [&kind[..], "data.kind=clicks", "data.features=2000", "train.batch=10"];
        let run = resume_on_new_disks("sync", cluster, &["worker:0", "ps:0", "ps:1"], &common);
        let whole = [&common[..], &["cluster.workers=1", "cluster.servers=2"]].concat();
        let whole = [&whole[..], &["train.stop={steps=40}"]].concat();
        let whole = run.sandbox.train_cluster("whole", "sync", &whole);
        assert!(run.coordinator().model() == whole.model(), "{kind}: the bytes differ");
    }
}

#[test]
fn checkpoints_that_could_never_be_complete_are_refused_at_the_start() {
    let at = free_ports::<3>().map(|port| format!("127.0.0.1:{port}"));
    for (mode, cluster, witness, limit) in [
        ("sync", json!({"worker": at[..1], "ps": at[1..2]}), "ps:0", "cluster.rejoin_timeout_s=1"),
        ("mirrored", json!({"worker": at[..2]}), "worker:1", "cluster.stall_timeout_s=60"),
    ] {
        let settings = ["checkpoint.every_steps=10", "train.stop={steps=100000000}", limit];
        let run = SeparateRun::new(mode, Vec::new(), cluster, &settings);
        let coordinator = run.start("worker:0", "worker-0", None);
        let output = run.start(witness, "elsewhere", None).finish_task();
        assert!(output.code.is_some_and(|code| code != 0), "{output:?}");
        assert_says(&output.stderr, &["share no directory", "cluster.files_port", "--run-dir"]);
        assert_ne!(coordinator.finish_task().code, Some(0));
    }
    let sandbox = Sandbox::new();
    let local = ["train", "--set", "cluster.files_port=5000"];
    assert_says(&sandbox.fails(2, &local), &["cluster.files_port", "several machines"]);
}
