//! The tasks of a run that chaos comes over, however they are started: by the local launcher, or
//! by us in the place of a cluster's, with the same command again for each that has gone.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::proxy::Proxy;
use crate::support::{
    Launched, Room, SMALL_DATA, cluster_of, environment, free_ports, processes_of, tf_config,
};

/// How long the others may take to end when the chief has.
const GRACE: Duration = Duration::from_secs(20);

/// Workers and servers of every run here.
pub(crate) const WORKERS: usize = 3;
pub(crate) const SERVERS: usize = 2;

/// Somebody who has started the tasks, and starts those again that go.
pub(crate) trait Tasks {
    /// The process of a task, if it has one now.
    fn find(&mut self, task: &str) -> Option<u32>;

    /// Cuts the connections to a server; says whether it can.
    fn cut(&mut self, server: usize) -> bool;

    /// Looks after everybody; says whether the run is over.
    fn look(&mut self) -> bool;

    /// Sees that the run has ended well, and what was said.
    fn finish(self: Box<Self>) -> String;
}

/// A run of the local launcher.
pub(crate) struct Local(pub(crate) Launched, pub(crate) std::path::PathBuf);

impl Tasks for Local {
    fn find(&mut self, task: &str) -> Option<u32> {
        processes_of(&self.1).into_iter().find(|&pid| {
            let config = environment(pid, "TF_CONFIG").unwrap_or_default();
            let config: Value = serde_json::from_str(&config).unwrap_or_default();
            let place = &config["task"];
            format!("{}:{}", place["type"].as_str().unwrap_or(""), place["index"]) == task
        })
    }

    fn cut(&mut self, _: usize) -> bool {
        false
    }

    fn look(&mut self) -> bool {
        self.0.has_ended()
    }

    fn finish(self: Box<Self>) -> String {
        let done = self.0.finish();
        assert_eq!(done.code, Some(0), "{done:?}");
        done.stderr
    }
}

/// Tasks that we start ourselves, with somebody between workers and servers.
pub(crate) struct Ours {
    tasks: Vec<(String, Command, Child)>,
    proxies: Vec<Proxy>,
    run: std::path::PathBuf,
    chief_ended: Option<Instant>,
    /// How many tasks were started again.
    pub(crate) restarts: usize,
}

impl Ours {
    pub(crate) fn start(room: &Room, settings: &[String]) -> Self {
        let ports = free_ports::<SERVERS>();
        let proxies: Vec<_> = ports.iter().map(|&port| Proxy::to(port)).collect();
        let called: Vec<_> = proxies.iter().map(|proxy| proxy.port).collect();
        let run = room.path("run");
        let task = |role: &str, index: usize| {
            let ports = if role == "ps" { &ports[..] } else { &called };
            let mut command = room.command(&["train", "--run-dir", run.to_str().unwrap()]);
            for setting in SMALL_DATA.iter().copied().chain(settings.iter().map(String::as_str)) {
                command.args(["--set", setting]);
            }
            command.env("TF_CONFIG", tf_config(&cluster_of(WORKERS, ports), role, index));
            let log = std::fs::File::options().append(true).create(true).open(room.path("said"));
            command.stdout(Stdio::null()).stderr(log.unwrap());
            let child = command.spawn().unwrap();
            (format!("{role}:{index}"), command, child)
        };
        let servers = (0..SERVERS).map(|index| task("ps", index));
        let tasks = servers.chain((0..WORKERS).map(|index| task("worker", index))).collect();
        Self { tasks, proxies, run, chief_ended: None, restarts: 0 }
    }

    fn said(&self) -> String {
        let path = self.run.with_file_name("said");
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        for (_, _, child) in &mut self.tasks {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Tasks for Ours {
    fn find(&mut self, task: &str) -> Option<u32> {
        let (_, _, child) = self.tasks.iter_mut().find(|(name, ..)| name == task)?;
        matches!(child.try_wait(), Ok(None)).then(|| child.id())
    }

    fn cut(&mut self, server: usize) -> bool {
        self.proxies[server].cut();
        true
    }

    fn look(&mut self) -> bool {
        let mut gone_wrong = None;
        for (name, command, child) in &mut self.tasks {
            let Ok(Some(status)) = child.try_wait() else { continue };
            match status.code() {
                Some(0) if name == "worker:0" => {
                    self.chief_ended.get_or_insert_with(Instant::now);
                }
                Some(0) => {}
                _ if self.chief_ended.is_some() => {}
                None | Some(128..) => {
                    self.restarts += 1;
                    *child = command.spawn().unwrap();
                }
                Some(code) => gone_wrong = Some(format!("{name} ended with code {code}")),
            }
        }
        assert_eq!(gone_wrong, None, "{}", self.said());
        self.chief_ended.is_some()
    }

    fn finish(mut self: Box<Self>) -> String {
        let ended = self.chief_ended.expect("the chief has ended");
        // Servers write the last checkpoint. One that was killed when all was done has come back to
        // nobody, and is not waited for longer than that takes.
        while ended.elapsed() < GRACE && self.tasks.iter_mut().any(|(_, _, c)| is_running(c)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let late = self.tasks.iter_mut().filter(|(name, ..)| name.starts_with("worker"));
        let late: Vec<_> = late.filter_map(|(n, _, c)| is_running(c).then(|| n.clone())).collect();
        assert_eq!(late, [""; 0], "{}", self.said());
        self.said()
    }
}

fn is_running(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(None))
}
