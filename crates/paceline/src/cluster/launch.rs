//! The local launcher: starts every task of a run as a process of this same program, watches
//! them, and sees to it that none is left behind.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use signal_hook::consts::SIGTERM;

use super::emulate::Hosts;
use super::join::OpenDoor;
use super::{Role, Task, calling, leash, listen, tf_config};
use crate::Failure;
use crate::checkpoint::{Resumption, Shape, Shelf};
use crate::interrupt::Interrupt;
use crate::job::{ClusterPlan, Mode, OnWorkerLoss, Plan, RawJob};
use crate::progress::write_line;
use crate::source::check_data;
use crate::train::{Finished, Options, check_unfinished, resumed};
use crate::worker;
use paceline_record::RunDir;
use paceline_record::Summary;
use paceline_record::names::files::SUMMARY;

/// How often the tasks are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long tasks may take to end by themselves once the chief has.
const GRACE: Duration = Duration::from_secs(10);
/// The same if servers may still be writing the last checkpoint.
const GRACE_TO_WRITE: Duration = Duration::from_secs(300);
/// The same once a task has failed: what the others do from then on is of no use.
const GRACE_AFTER_FAILURE: Duration = Duration::from_secs(3);

/// One task that was started.
struct Started {
    task: Task,
    child: Child,
    leash: UnixStream,
    /// Where it listens, kept open so that a process that takes its place finds whoever called.
    door: Option<TcpListener>,
    ended: Option<ExitStatus>,
    /// It knows that the run is over.
    is_told: bool,
}

/// Starts all tasks of the plan on this machine and waits for their end.
pub fn launch(
    job: &RawJob,
    plan: &Plan,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<Finished, Failure> {
    // What is wrong with the data is better said once, here, than by every task.
    let examples = check_data(job, plan, &mut |text| options.say(text))?;
    let checkpoint = options.checkpoint()?;
    if let Some(checkpoint) = &checkpoint {
        let shape = Shape::of(plan, plan.cluster.slots(plan.cluster.workers));
        check_unfinished(plan, &Resumption::new(checkpoint.clone(), shape), examples)?;
        options.say(&resumed(checkpoint.manifest.global_step()));
    }
    // Made before the tasks, so that they are gone when the hosts go.
    let hosts = Hosts::make(&plan.cluster)?;
    let run = options.open_run(&plan.name, checkpoint.as_ref())?;
    let from = checkpoint.map(|checkpoint| checkpoint.manifest.about.step);
    run.write("job.toml", job.explain().as_bytes())?;
    let mut tasks = Tasks { started: Vec::new() };
    let start = tasks.start_all(plan, hosts.as_ref(), &run, options, from)?;
    let servers = start.servers();
    let door = (!servers.is_empty()).then(|| OpenDoor::open(&run, &servers, &start.token));
    let _door = door.transpose()?;
    tasks.watch(plan, interrupt, &start)?;
    let path = run.path().join(SUMMARY);
    let text = std::fs::read(&path).map_err(Failure::at("read", &path))?;
    let summary: Summary = serde_json::from_slice(&text)
        .map_err(|error| Failure::Training(format!("{}: {error}", path.display())))?;
    let signal = interrupt.signal().filter(|_| summary.stop_reason == "interrupted");
    Ok(Finished { run: run.path().to_owned(), summary, signal })
}

/// The tasks of a run. Those that still live when this goes are killed.
struct Tasks {
    started: Vec<Started>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.kill_all();
    }
}

impl Tasks {
    fn start_all<'r>(
        &mut self,
        plan: &Plan,
        hosts: Option<&'r Hosts>,
        run: &'r RunDir,
        options: &Options,
        from: Option<u64>,
    ) -> Result<Start<'r>, Failure> {
        let cannot = |source| Failure::Files { what: "cannot start the tasks".into(), source };
        let ClusterPlan { servers, workers, mode, .. } = plan.cluster;
        let (listeners, servers) = bind(hosts, Role::Ps, servers).map_err(cannot)?;
        // Without servers workers listen; with servers their places still need to be listed.
        let (mut doors, places) = match mode {
            _ if mode == Mode::Mirrored || hosts.is_some() => {
                bind(hosts, Role::Worker, workers).map_err(cannot)?
            }
            _ => (Vec::new(), vec!["127.0.0.1:0".into(); workers]),
        };
        doors.resize_with(workers, || None);
        let cluster = match mode {
            Mode::Mirrored => json!({"worker": places}),
            _ => json!({"worker": places, "ps": servers}),
        };
        let token = make_token().map_err(cannot)?;
        let Options { quiet, bare, .. } = *options;
        let start = Start { run, hosts, quiet, bare, from, token, cluster };
        for (index, listener) in listeners.into_iter().enumerate() {
            let task = Task { role: Role::Ps, index };
            self.started.push(start.start(task, listener).map_err(cannot)?);
        }
        for (index, door) in doors.into_iter().enumerate() {
            let task = Task { role: Role::Worker, index };
            self.started.push(start.start(task, door).map_err(cannot)?);
        }
        Ok(start)
    }

    /// Waits until all tasks have ended, and passes on the wish to stop.
    fn watch(
        &mut self,
        plan: &Plan,
        interrupt: &Interrupt,
        start: &Start<'_>,
    ) -> Result<(), Failure> {
        let mut failure: Option<(u8, Failure)> = None;
        // Since when there is nothing left to train.
        let mut over: Option<Instant> = None;
        let mut told = false;
        let mut restarts = plan.cluster.restarts;
        while self.started.iter().any(|task| task.ended.is_none()) {
            if let Some(signal) = interrupt.signal().filter(|_| !told) {
                told = true;
                let chief = self.started.iter_mut().find(|task| is_chief(task.task));
                let _ = chief.map(|chief| writeln!(chief.leash, "stop {signal}"));
            }
            for task in &mut self.started {
                if task.ended.is_some() {
                    continue;
                }
                if leash::asks_to_leave(&task.leash) && interrupt.signal().is_none() {
                    leash::let_go(&task.leash);
                }
                let status = task.child.try_wait();
                task.ended = status.map_err(|source| Failure::Files {
                    what: format!("cannot watch {}", task.task),
                    source,
                })?;
                let Some(status) = task.ended else { continue };
                over = over.or_else(|| start.is_over(task.task, status).then(Instant::now));
                let is_replaceable = is_worth_restarting(plan, task.task, status);
                let has_failed = failure.is_some();
                if restarts > 0 && !has_failed && over.is_none() && is_replaceable {
                    restarts -= 1;
                    told &= !is_chief(task.task);
                    let door = task.door.take();
                    *task = start.start_again(task.task, door).map_err(|source| {
                        Failure::Files { what: format!("cannot start {} again", task.task), source }
                    })?;
                    write_line(&format!("{} is started again: it {}", task.task, told_end(status)));
                    continue;
                }
                let is_harmless = is_replaceable || is_lost_worker(task.task, status);
                if over.is_some() && !has_failed && is_harmless {
                    write_line(&format!("{} {}, after the end", task.task, told_end(status)));
                    continue;
                }
                let may_go = plan.cluster.on_worker_loss == OnWorkerLoss::Continue
                    && task.task.role == Role::Worker
                    && !is_chief(task.task);
                let blame = blame(status);
                if !status.success() && !may_go && failure.as_ref().is_none_or(|f| f.0 < blame) {
                    failure = Some((blame, failed(task.task, status, interrupt)));
                    over.get_or_insert_with(Instant::now);
                }
            }
            if let Some(over) = over {
                self.tell_servers();
                let writes = plan.checkpoint.is_some();
                self.kill_late(|role| match role {
                    _ if failure.is_some() => over.elapsed() >= GRACE_AFTER_FAILURE,
                    Role::Ps if writes => over.elapsed() >= GRACE_TO_WRITE,
                    _ => over.elapsed() >= GRACE,
                });
            }
            thread::sleep(LOOK_EVERY);
        }
        failure.map_or(Ok(()), |(_, failure)| Err(failure))
    }

    /// The run is over: a server that has just come back to it needs not wait for anybody. One
    /// that has its end to write does that first.
    fn tell_servers(&mut self) {
        let servers = self.started.iter_mut().filter(|task| task.task.role == Role::Ps);
        for server in servers.filter(|server| !server.is_told) {
            server.is_told = true;
            let _ = writeln!(server.leash, "stop {SIGTERM}");
        }
    }

    /// Kills those that should have ended by now.
    fn kill_late(&mut self, is_late: impl Fn(Role) -> bool) {
        let running = self.started.iter_mut().filter(|task| task.ended.is_none());
        let late: Vec<_> = running.filter(|task| is_late(task.task.role)).collect();
        if !late.is_empty() {
            let names: Vec<_> = late.iter().map(|task| task.task.to_string()).collect();
            write_line(&format!("killed, for not ending in time: {}", names.join(", ")));
        }
        late.into_iter().for_each(Started::kill);
    }

    fn kill_all(&mut self) {
        self.started.iter_mut().filter(|task| task.ended.is_none()).for_each(Started::kill);
    }
}

impl Started {
    fn kill(&mut self) {
        let _ = self.child.kill();
        self.ended = self.child.wait().ok();
    }
}

/// So many sockets that listen, and their addresses. On an emulated host, where every port is
/// free, a task makes its socket itself.
fn bind(
    hosts: Option<&Hosts>,
    role: Role,
    count: usize,
) -> io::Result<(Vec<Option<TcpListener>>, Vec<String>)> {
    let bound = (0..count).map(|index| {
        if let Some(hosts) = hosts {
            return Ok((None, hosts.address(Task { role, index })));
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        Ok((Some(listener), address))
    });
    bound.collect()
}

/// What all tasks of a run are started with.
struct Start<'a> {
    run: &'a RunDir,
    /// Where tasks run, if not on this machine as it is.
    hosts: Option<&'a Hosts>,
    quiet: bool,
    bare: bool,
    /// The step of the checkpoint that the run goes on from, if it does.
    from: Option<u64>,
    token: String,
    cluster: serde_json::Value,
}

impl Start<'_> {
    /// Where the servers are.
    fn servers(&self) -> Vec<String> {
        let listed = self.cluster["ps"].as_array().into_iter().flatten();
        listed.filter_map(|address| address.as_str().map(String::from)).collect()
    }

    /// Whether this end of a task means that of the run: the chief is done, servers go when it has
    /// told them to, and without servers nothing is left to do once it has written everything.
    fn is_over(&self, task: Task, status: ExitStatus) -> bool {
        let has_servers = self.cluster.get("ps").is_some();
        let is_last = is_chief(task) || task.role == Role::Ps;
        status.success() && is_last || !has_servers && self.run.has_ended()
    }

    fn start(&self, task: Task, door: Option<TcpListener>) -> io::Result<Started> {
        self.start_from(task, door, self.from)
    }

    /// Starts a task in the place of one that was lost. With servers, what the run went on from may
    /// be pruned by now, but what has been kept since tells the same.
    fn start_again(&self, task: Task, door: Option<TcpListener>) -> io::Result<Started> {
        let shelf = Shelf::of(self.run.path());
        let has_servers = self.cluster.get("ps").is_some();
        let newest = shelf.steps().into_iter().find(|&step| has_servers && shelf.is_complete(step));
        self.start_from(task, door, self.from.map(|from| newest.unwrap_or(from)))
    }

    fn start_from(
        &self,
        task: Task,
        door: Option<TcpListener>,
        from: Option<u64>,
    ) -> io::Result<Started> {
        let (leash, stdout) = leash::pair()?;
        let place = json!({
            "cluster": self.cluster,
            "task": {"type": task.role.name(), "index": task.index},
        });
        let program = std::env::current_exe()?;
        let mut command = match self.hosts {
            Some(hosts) => hosts.command(task, &program),
            None => Command::new(program),
        };
        command
            .arg("train")
            .arg(self.run.path().join("job.toml"))
            .arg(if from.is_some() { "--resume" } else { "--run-dir" })
            .arg(self.run.path())
            .args(from.map(|step| format!("--checkpoint={step}")))
            .args(self.quiet.then_some("--quiet"))
            .env(tf_config::VARIABLE, place.to_string())
            .env(calling::TOKEN_VARIABLE, &self.token)
            .env(leash::VARIABLE, "1")
            .stdout(stdout);
        if self.bare {
            command.env(worker::BARE_VARIABLE, "1");
        }
        match &door {
            Some(door) => {
                let door = OwnedFd::from(door.try_clone()?);
                command.stdin(Stdio::from(door)).env(listen::VARIABLE, "1")
            }
            None => command.stdin(Stdio::null()).env_remove(listen::VARIABLE),
        };
        Ok(Started { task, child: command.spawn()?, leash, door, ended: None, is_told: false })
    }
}

/// Whether a task that has ended can be taken over by a new process of it: a worker that was
/// killed, or has lost the others; a server that was killed. One that failed by itself would fail
/// again.
fn is_worth_restarting(plan: &Plan, task: Task, status: ExitStatus) -> bool {
    match task.role {
        Role::Ps => plan.cluster.waits_for_servers && status.code().is_none(),
        _ => plan.cluster.on_worker_loss == OnWorkerLoss::Wait && is_lost_worker(task, status),
    }
}

/// Whether a worker has ended because it was killed, or has lost the others.
fn is_lost_worker(task: Task, status: ExitStatus) -> bool {
    task.role != Role::Ps && matches!(status.code(), None | Some(128..))
}

/// How a task ended, in words.
fn told_end(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with code {code}"),
        None => format!("was killed by signal {}", status.signal().unwrap_or_default()),
    }
}

fn is_chief(task: Task) -> bool {
    task == Task { role: Role::Worker, index: 0 }
}

/// How much a task's end is to blame for the run's: one that was killed or failed by itself
/// more than those that merely lost it, whoever is seen first.
fn blame(status: ExitStatus) -> u8 {
    match status.code() {
        None => 2,
        Some(1..128) => 1,
        Some(_) => 0,
    }
}

/// How a task's end is told. What it had to say itself stands on standard error already.
fn failed(task: Task, status: ExitStatus, interrupt: &Interrupt) -> Failure {
    if let Some(signal) = interrupt.signal() {
        return Failure::Interrupted { signal };
    }
    match status.code() {
        Some(code @ 1..128) => Failure::Task { task: task.to_string(), code: code as u8 },
        _ => Failure::Lost(format!("the run failed: {task} {}", told_end(status))),
    }
}

/// A secret for the tasks of this run.
fn make_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
