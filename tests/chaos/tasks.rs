//! The tasks of a run under chaos. Either the local launcher starts and restarts them, or the test
//! does, as a cluster's scheduler would: with the same command again for each that died.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::proxy::Proxy;
use crate::support::{
    RunningProcess, SECRET, SMALL_DATA, Sandbox, cluster_of, free_ports, task_process, tf_config,
};

/// How long the other tasks may take to end after the coordinator.
const GRACE: Duration = Duration::from_secs(20);

/// Workers and servers of every run under chaos.
pub(crate) const WORKERS: usize = 3;
pub(crate) const SERVERS: usize = 2;

/// Bytes of a few steps of all workers with one server, with new connections.
const PROGRESS_BYTES: usize = 2_000_000;

/// Control over the tasks of one run.
pub(crate) trait TaskControl {
    /// The process of a task, if it has one now.
    fn find(&mut self, task: &str) -> Option<u32>;

    /// Cuts the connections to a server. Returns whether they can be cut.
    fn cut(&mut self, server: usize) -> bool;

    /// Flips a bit of what next travels to or from a server. Returns whether that can be done.
    fn flip(&mut self, server: usize) -> bool;

    /// Restarts tasks that died. Returns whether the run is over.
    fn supervise(&mut self) -> bool;

    /// Checks that the run has succeeded. Returns what its tasks printed.
    fn finish(self: Box<Self>) -> String;
}

/// Tasks of the local launcher.
pub(crate) struct LaunchedTasks {
    pub(crate) launcher: RunningProcess,
    pub(crate) run: PathBuf,
}

impl TaskControl for LaunchedTasks {
    fn find(&mut self, task: &str) -> Option<u32> {
        task_process(&self.run, task)
    }

    fn cut(&mut self, _: usize) -> bool {
        false
    }

    fn flip(&mut self, _: usize) -> bool {
        false
    }

    fn supervise(&mut self) -> bool {
        self.launcher.has_ended()
    }

    fn finish(self: Box<Self>) -> String {
        let output = self.launcher.finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stderr
    }
}

/// Tasks that the test starts itself, with a proxy in front of each server.
pub(crate) struct ManualTasks {
    tasks: Vec<ManualTask>,
    proxies: Vec<Proxy>,
    /// What all tasks print.
    log: PathBuf,
    coordinator_ended: Option<Instant>,
    pub(crate) restarts: usize,
}

struct ManualTask {
    name: String,
    command: Command,
    child: Child,
}

impl ManualTask {
    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl ManualTasks {
    pub(crate) fn start(sandbox: &Sandbox, settings: &[String]) -> Self {
        let ports = free_ports::<SERVERS>();
        let proxies: Vec<_> =
            ports.iter().map(|port| Proxy::to(format!("127.0.0.1:{port}"))).collect();
        let proxy_ports: Vec<_> = proxies.iter().map(|proxy| proxy.port).collect();
        let (run, log) = (sandbox.path("run"), sandbox.path("log"));
        let start = |role: &str, index: usize| {
            let ports = if role == "ps" { &ports[..] } else { &proxy_ports };
            let mut command = sandbox.command(&["train", "--run-dir", run.to_str().unwrap()]);
            for setting in SMALL_DATA.iter().copied().chain(settings.iter().map(String::as_str)) {
                command.args(["--set", setting]);
            }
            command.env("TF_CONFIG", tf_config(&cluster_of(WORKERS, ports), role, index));
            command.env("PACELINE_TOKEN", SECRET);
            let stderr = std::fs::File::options().append(true).create(true).open(&log);
            command.stdout(Stdio::null()).stderr(stderr.unwrap());
            let child = command.spawn().unwrap();
            ManualTask { name: format!("{role}:{index}"), command, child }
        };
        let servers = (0..SERVERS).map(|index| start("ps", index));
        let tasks = servers.chain((0..WORKERS).map(|index| start("worker", index))).collect();
        Self { tasks, proxies, log, coordinator_ended: None, restarts: 0 }
    }

    /// Whether a server and its clients have made a few steps since they had exchanged `before`
    /// bytes, which are updated then.
    pub(crate) fn has_progressed(&self, server: usize, before: &mut [usize; SERVERS]) -> bool {
        let forwarded = self.proxies[server].forwarded();
        let is_more = forwarded > before[server] + PROGRESS_BYTES;
        if is_more {
            before[server] = forwarded;
        }
        is_more
    }

    /// How many bits have been flipped.
    pub(crate) fn flipped(&self) -> usize {
        self.proxies.iter().map(Proxy::flipped).sum()
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for ManualTasks {
    fn drop(&mut self) {
        for task in &mut self.tasks {
            let _ = task.child.kill();
            let _ = task.child.wait();
        }
    }
}

impl TaskControl for ManualTasks {
    fn find(&mut self, name: &str) -> Option<u32> {
        let task = self.tasks.iter_mut().find(|task| task.name == name)?;
        task.is_running().then(|| task.child.id())
    }

    fn cut(&mut self, server: usize) -> bool {
        self.proxies[server].cut();
        true
    }

    fn flip(&mut self, server: usize) -> bool {
        self.proxies[server].flip();
        true
    }

    fn supervise(&mut self) -> bool {
        let mut failure = None;
        for ManualTask { name, command, child } in &mut self.tasks {
            let Ok(Some(status)) = child.try_wait() else { continue };
            match status.code() {
                Some(0) if name == "worker:0" => {
                    self.coordinator_ended.get_or_insert_with(Instant::now);
                }
                Some(0) => {}
                _ if self.coordinator_ended.is_some() => {}
                None | Some(128..) => {
                    self.restarts += 1;
                    *child = command.spawn().unwrap();
                }
                Some(code) => failure = Some(format!("{name} exited with code {code}")),
            }
        }
        assert_eq!(failure, None, "{}", self.printed());
        self.coordinator_ended.is_some()
    }

    fn finish(mut self: Box<Self>) -> String {
        let ended = self.coordinator_ended.expect("the coordinator has ended");
        // Servers write the last checkpoint. A server that was killed after the run's end has come
        // back to a run without workers; the test does not wait for it beyond the grace period.
        while ended.elapsed() < GRACE && self.tasks.iter_mut().any(ManualTask::is_running) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let workers = self.tasks.iter_mut().filter(|task| task.name.starts_with("worker"));
        let late: Vec<_> = workers.filter_map(|t| t.is_running().then(|| t.name.clone())).collect();
        assert_eq!(late, [""; 0], "{}", self.printed());
        self.printed()
    }
}
