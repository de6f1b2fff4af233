//! The local launcher: starts every task of a run as a process of its own, watches them, and
//! leaves none behind.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use signal_hook::consts::SIGTERM;

use crate::bound_address::{BoundAddress, bind_tasks};
use crate::cluster::{Role, Task};
use crate::emulate::EmulatedHosts;
use crate::error::PlaceError;
use crate::launch_hooks::{LaunchHooks, LaunchSettings};
use crate::launcher_channel::{
    CHANNEL_VARIABLE, ChannelEnds, TaskMessages, allow_leave, send_ending, send_stop,
};
use crate::listen::LISTENER_VARIABLE;
use crate::meeting::Meeting;
use crate::task_end::{RestartPolicy, TaskEnd, describe_end};
use crate::tf_config::TF_CONFIG;
use crate::token::{TOKEN_VARIABLE, make_token};

/// How often the tasks are checked.
const CHECK_EVERY: Duration = Duration::from_millis(5);
/// How long tasks may take to end once the coordinator has.
const GRACE: Duration = Duration::from_secs(10);
/// The same for tasks that may still write or copy the last checkpoint.
const GRACE_TO_WRITE: Duration = Duration::from_secs(300);
/// The same once a task has failed: the work of the others is void.
const GRACE_AFTER_FAILURE: Duration = Duration::from_secs(3);
/// The same once the coordinator could not end the run after a signal.
const GRACE_AFTER_SIGNAL: Duration = Duration::from_millis(100);
/// How long a coordinator may take to end the run after a signal. It ends by itself before.
const STOP_LIMIT: Duration = Duration::from_secs(32);

/// The tasks of a run on this machine. Dropping it kills those that still live.
pub struct LaunchedRun<'a> {
    settings: LaunchSettings,
    hooks: &'a dyn LaunchHooks,
    /// The emulated hosts that tasks run on; `None` for this machine itself.
    hosts: Option<&'a EmulatedHosts>,
    token: String,
    /// The cluster as `TF_CONFIG` describes it.
    cluster: serde_json::Value,
    tasks: Vec<LaunchedTask>,
    /// When training ended.
    over: Option<Instant>,
    failure: Option<TaskFailure>,
    /// When the coordinator was asked to stop.
    stop_sent: Option<Instant>,
    restarts_left: usize,
}

/// The end of a task that ends the run, and how likely the task is its cause.
struct TaskFailure {
    blame: u8,
    end: TaskEnd,
}

/// A task that was started.
struct LaunchedTask {
    task: Task,
    child: Child,
    channel: UnixStream,
    messages: TaskMessages,
    /// Its listening socket, kept open so that a process that takes its place finds the peers that
    /// connected meanwhile.
    listener: Option<TcpListener>,
    ended: Option<ExitStatus>,
    /// It knows that the run is over.
    knows_end: bool,
}

impl<'a> LaunchedRun<'a> {
    /// Starts all tasks on this machine, or on emulated hosts. Without a secret they get one that
    /// only this run has.
    pub fn start(
        settings: LaunchSettings,
        token: Option<String>,
        hosts: Option<&'a EmulatedHosts>,
        hooks: &'a dyn LaunchHooks,
    ) -> Result<Self, PlaceError> {
        let cannot = || PlaceError::while_doing("cannot start the tasks");
        let servers = settings.servers.unwrap_or(0);
        let bound_servers = bind_tasks(hosts, Role::Ps, servers).map_err(cannot())?;
        // With servers, workers do not listen, but must be listed.
        let workers = settings.workers;
        let bound_workers = if settings.servers.is_none() || hosts.is_some() {
            bind_tasks(hosts, Role::Worker, workers).map_err(cannot())?
        } else {
            (0..workers).map(|_| BoundAddress::unbound("127.0.0.1:0".into())).collect()
        };
        let addresses = |bound: &[BoundAddress]| -> Vec<String> {
            bound.iter().map(|bound| bound.address.clone()).collect()
        };
        let cluster = match settings.servers {
            None => json!({"worker": addresses(&bound_workers)}),
            Some(_) => {
                json!({"worker": addresses(&bound_workers), "ps": addresses(&bound_servers)})
            }
        };
        let token = token.map_or_else(make_token, Ok).map_err(cannot())?;
        let mut run = Self::without_tasks(settings, hosts, hooks, cluster, token);
        let servers = bound_servers.into_iter().map(|bound| (Role::Ps, bound));
        let workers = bound_workers.into_iter().map(|bound| (Role::Worker, bound));
        let mut counts = [0, 0];
        for (role, bound) in servers.chain(workers) {
            let count = &mut counts[usize::from(role == Role::Ps)];
            let task = Task { role, index: *count };
            *count += 1;
            let started = run.start_task(task, bound.listener, false).map_err(cannot())?;
            run.tasks.push(started);
        }
        Ok(run)
    }

    /// Starts the servers that a worker runs as its children, in a run whose tasks have met.
    pub fn host(
        settings: LaunchSettings,
        meeting: &mut Meeting,
        hooks: &'a dyn LaunchHooks,
    ) -> Result<Self, PlaceError> {
        let cluster = meeting.cluster.to_json();
        let mut run = Self::without_tasks(settings, None, hooks, cluster, meeting.token.clone());
        for (task, listener) in meeting.servers.drain(..) {
            let cannot = PlaceError::while_doing(format!("cannot start {task}"));
            let launched = run.start_task(task, Some(listener), false).map_err(cannot)?;
            run.tasks.push(launched);
        }
        Ok(run)
    }

    fn without_tasks(
        settings: LaunchSettings,
        hosts: Option<&'a EmulatedHosts>,
        hooks: &'a dyn LaunchHooks,
        cluster: serde_json::Value,
        token: String,
    ) -> Self {
        Self {
            settings,
            hooks,
            hosts,
            token,
            cluster,
            tasks: Vec::new(),
            over: None,
            failure: None,
            stop_sent: None,
            restarts_left: settings.restarts,
        }
    }

    /// The addresses of the servers.
    pub fn servers(&self) -> Vec<String> {
        let listed = self.cluster["ps"].as_array().into_iter().flatten();
        listed.filter_map(|address| address.as_str().map(String::from)).collect()
    }

    /// The run's secret.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Waits until all tasks have ended. Passes a stop signal on, and starts lost tasks again.
    pub fn wait(&mut self) -> Result<(), PlaceError> {
        while self.tasks.iter().any(|task| task.ended.is_none()) || self.awaits_losses() {
            self.pass_on_stop();
            self.replace_lost()?;
            for index in 0..self.tasks.len() {
                self.check_task(index)?;
            }
            if self.hooks.has_own_task_ended() {
                self.over.get_or_insert_with(Instant::now);
            }
            if let Some(over) = self.over {
                self.tell_servers();
                self.kill_late(over.elapsed());
            }
            thread::sleep(CHECK_EVERY);
        }
        match self.failure.take() {
            None => Ok(()),
            Some(failure) => Err(self.describe_failure(&failure.end)),
        }
    }

    /// Whether a worker that this launcher has not started may still be lost.
    fn awaits_losses(&self) -> bool {
        self.hooks.replaces_others() && !self.hooks.has_own_task_ended()
    }

    /// Starts a task in place of one that another process had started and that is lost. The other
    /// workers do not know where it is, so it connects to all of them.
    fn replace_lost(&mut self) -> Result<(), PlaceError> {
        let Some(task) = self.hooks.lost_worker() else { return Ok(()) };
        let is_running = |one: &LaunchedTask| one.task == task && one.ended.is_none();
        let is_ending = self.over.is_some() || self.stop_sent.is_some();
        if self.restarts_left == 0 || is_ending || self.tasks.iter().any(is_running) {
            return Ok(());
        }
        self.restarts_left -= 1;
        let cannot = || PlaceError::while_doing(format!("cannot start another {task}"));
        let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot())?;
        let launched = self.start_task(task, Some(listener), true).map_err(cannot())?;
        self.tasks.retain(|one| one.task != task);
        self.tasks.push(launched);
        self.hooks.note(&format!("{task} is lost: another process takes its place here"));
        Ok(())
    }

    /// The error of the task that ended the run, and those of the others after it.
    fn describe_failure(&mut self, end: &TaskEnd) -> PlaceError {
        self.tasks.iter_mut().for_each(|task| task.messages.read(&task.channel));
        // After a signal, the coordinator says why it could not end the run cleanly.
        let is_stopped = self.hooks.stop_signal().is_some();
        let of_cause = |task: &&LaunchedTask| {
            if is_stopped { task.task.is_coordinator() } else { task.task == end.task }
        };
        let why = self.tasks.iter().find(of_cause).and_then(|task| task.messages.failure.clone());
        let mut others = Vec::new();
        for task in self.tasks.iter().filter(|task| task.task != end.task) {
            if let Some(text) = &task.messages.failure
                && why.as_ref() != Some(text)
            {
                others.push(format!("{}: {text}", task.task));
            }
        }
        end.error(self.hooks.stop_signal(), why, &others)
    }

    /// Asks the coordinator to stop if the launcher received a signal.
    fn pass_on_stop(&mut self) {
        if self.stop_sent.is_some_and(|sent| sent.elapsed() >= STOP_LIMIT) {
            self.tasks.iter_mut().filter(|task| task.ended.is_none()).for_each(LaunchedTask::kill);
        }
        if let Some(signal) = self.hooks.stop_signal().filter(|_| self.stop_sent.is_none()) {
            self.stop_sent = Some(Instant::now());
            for worker in self.tasks.iter().filter(|task| task.task.role != Role::Ps) {
                if worker.task.is_coordinator() {
                    send_stop(&worker.channel, signal);
                } else {
                    send_ending(&worker.channel);
                }
            }
        }
    }

    /// Looks at one task: lets it leave, starts it again, or notes how it ended.
    fn check_task(&mut self, index: usize) -> Result<(), PlaceError> {
        let launched = &mut self.tasks[index];
        if launched.ended.is_some() {
            return Ok(());
        }
        let task = launched.task;
        launched.messages.read(&launched.channel);
        let asks_to_leave = std::mem::take(&mut launched.messages.asks_to_leave);
        if asks_to_leave && self.hooks.stop_signal().is_none() {
            allow_leave(&launched.channel);
        }
        let status = launched.child.try_wait();
        launched.ended = status.map_err(PlaceError::while_doing(format!("cannot watch {task}")))?;
        let Some(status) = launched.ended else { return Ok(()) };
        if self.over.is_none() && self.ends_run(task, status) {
            self.over = Some(Instant::now());
        }
        let end = TaskEnd { task, status };
        let policy = RestartPolicy {
            workers: self.settings.restarts_workers,
            servers: self.settings.restarts_servers,
        };
        let is_replaceable = end.is_replaceable(policy);
        let may_restart = self.restarts_left > 0 && self.failure.is_none() && self.over.is_none();
        if may_restart && is_replaceable {
            return self.restart(index, status);
        }
        let is_harmless = is_replaceable || end.is_lost_worker();
        if self.over.is_some() && self.failure.is_none() && is_harmless {
            self.hooks.note(&format!("{task} {} after the run had ended", describe_end(status)));
            return Ok(());
        }
        self.note_failure(end);
        Ok(())
    }

    fn restart(&mut self, index: usize, status: ExitStatus) -> Result<(), PlaceError> {
        let task = self.tasks[index].task;
        self.restarts_left -= 1;
        if task.is_coordinator() {
            self.stop_sent = None;
        }
        let listener = self.tasks[index].listener.take();
        let cannot = PlaceError::while_doing(format!("cannot start {task} again"));
        self.tasks[index] = self.start_task(task, listener, true).map_err(cannot)?;
        let (end, left) = (describe_end(status), self.restarts_left);
        self.hooks.note(&format!("{task} is started again: it {end}; restarts left: {left}"));
        Ok(())
    }

    fn note_failure(&mut self, end: TaskEnd) {
        let is_spared = self.settings.spares_workers
            && end.task.role == Role::Worker
            && !end.task.is_coordinator();
        let blame = end.blame();
        let is_worse = self.failure.as_ref().is_none_or(|failure| failure.blame < blame);
        if !end.status.success() && !is_spared && is_worse {
            self.failure = Some(TaskFailure { blame, end });
            self.over.get_or_insert_with(Instant::now);
        }
    }

    /// Whether this end of a task ends the run: the coordinator is done, or a server was released
    /// by it, or, without servers, the summary is written.
    fn ends_run(&self, task: Task, status: ExitStatus) -> bool {
        let is_last = task.is_coordinator() || task.role == Role::Ps;
        let has_servers = self.settings.servers.is_some();
        status.success() && is_last || !has_servers && self.hooks.has_ended()
    }

    /// Tells the servers that the run is over, so that a restarted server does not wait for
    /// workers. A server that is still writing finishes first.
    fn tell_servers(&mut self) {
        let servers = self.tasks.iter_mut().filter(|task| task.task.role == Role::Ps);
        for server in servers.filter(|server| !server.knows_end) {
            server.knows_end = true;
            send_stop(&server.channel, SIGTERM);
        }
    }

    /// Kills the tasks that should have ended by now.
    fn kill_late(&mut self, elapsed: Duration) {
        let has_failed = self.failure.is_some();
        let is_stopped = has_failed && self.hooks.stop_signal().is_some();
        let writes = self.settings.writes_checkpoints;
        let may_write = |task: Task| writes && (task.role == Role::Ps || task.is_coordinator());
        let grace = |task: Task| {
            if is_stopped {
                GRACE_AFTER_SIGNAL
            } else if has_failed {
                GRACE_AFTER_FAILURE
            } else if may_write(task) {
                GRACE_TO_WRITE
            } else {
                GRACE
            }
        };
        let running = self.tasks.iter_mut().filter(|task| task.ended.is_none());
        let late: Vec<_> = running.filter(|task| elapsed >= grace(task.task)).collect();
        if !late.is_empty() && !is_stopped {
            let names: Vec<_> = late.iter().map(|task| task.task.to_string()).collect();
            self.hooks
                .note(&format!("killed because they did not end in time: {}", names.join(", ")));
        }
        late.into_iter().for_each(LaunchedTask::kill);
    }

    fn start_task(
        &self,
        task: Task,
        listener: Option<TcpListener>,
        is_restart: bool,
    ) -> io::Result<LaunchedTask> {
        let ends = ChannelEnds::new()?;
        let place = json!({
            "cluster": self.cluster,
            "task": {"type": task.role.name(), "index": task.index},
        });
        let program = std::env::current_exe()?;
        let mut command = match self.hosts {
            Some(hosts) => hosts.command(task, &program),
            None => Command::new(program),
        };
        self.hooks.configure(&mut command, is_restart);
        command
            .env(TF_CONFIG, place.to_string())
            .env(TOKEN_VARIABLE, &self.token)
            .env(CHANNEL_VARIABLE, "1")
            .stdout(ends.task);
        match &listener {
            Some(listener) => {
                let socket = OwnedFd::from(listener.try_clone()?);
                command.stdin(Stdio::from(socket)).env(LISTENER_VARIABLE, "1")
            }
            None => command.stdin(Stdio::null()).env_remove(LISTENER_VARIABLE),
        };
        let child = command.spawn()?;
        let channel = ends.launcher;
        let messages = TaskMessages::default();
        Ok(LaunchedTask { task, child, channel, messages, listener, ended: None, knows_end: false })
    }
}

impl Drop for LaunchedRun<'_> {
    fn drop(&mut self) {
        self.tasks.iter_mut().filter(|task| task.ended.is_none()).for_each(LaunchedTask::kill);
    }
}

impl LaunchedTask {
    fn kill(&mut self) {
        let _ = self.child.kill();
        self.ended = self.child.wait().ok();
    }
}
