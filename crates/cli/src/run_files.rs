//! The files of a run whose tasks share no disk (`cluster.files_port`).
//!
//! The coordinator keeps them: its process holds a depot. Every other task writes to a run
//! directory of its own, delivers its shards of checkpoints to the depot, fetches the checkpoint
//! it starts from, and sends its events, resource samples and log (`observe.gather`).

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use paceline_depot::{Depot, DepotAddress, DepotClient, DepotConfig, Gatherer};
use paceline_engine::Mode;
use paceline_engine::checkpoint::{Checkpoint, CheckpointDir};
use paceline_job::Plan;
use paceline_net::Credentials;
use paceline_place::{Cluster, Role, Task, bind_named, with_port};
use paceline_record::names::folders;
use paceline_record::{RunDir, TaskLog};

use crate::Failure;
use crate::end_limit::TaskActivity;
use crate::progress::write_line;
use crate::stop_source::StopSource;
use crate::train_options::TrainOptions;

/// How long the coordinator waits for the last files of other tasks after it heard from any.
const LAST_FILES_LIMIT: Duration = Duration::from_secs(5);
/// How long it waits for them in all.
const LAST_FILES_MOST: Duration = Duration::from_secs(600);

/// How a task of a run without a common disk reaches the coordinator's depot.
pub(crate) struct DepotPlace<'a> {
    plan: &'a Plan,
    cluster: &'a Cluster,
    /// What this task shows to the depot, or demands of those that connect to it.
    credentials: &'a Credentials,
    /// The depot's address, `host:port`.
    address: String,
}

impl<'a> DepotPlace<'a> {
    /// Where the depot of this run is; `None` if all tasks share a disk.
    pub(crate) fn of(
        plan: &'a Plan,
        cluster: &'a Cluster,
        credentials: &'a Credentials,
    ) -> Result<Option<Self>, Failure> {
        let Some(port) = plan.cluster.files_port else { return Ok(None) };
        let name = cluster.slot_name(0);
        let found = cluster.addresses.iter().find(|(task, _)| task.to_string() == name);
        let Some((_, address)) = found else {
            let text = format!("cluster.files_port is set, but TF_CONFIG does not list {name}");
            return Err(Failure::Usage(text));
        };
        let address = with_port(address, port);
        Ok(Some(Self { plan, cluster, credentials, address }))
    }

    /// Whether this task keeps the files.
    fn is_keeper(&self) -> bool {
        self.cluster.slot() == Some(0)
    }

    /// The task's access to the depot; `None` for the coordinator.
    pub(crate) fn client(&self, activity: &TaskActivity, stop: &StopSource) -> Option<DepotClient> {
        if self.is_keeper() {
            return None;
        }
        let (activity, stop) = (activity.clone(), stop.clone());
        let wait = move |text: Option<&str>| {
            activity.set_wait(text);
            stop.signal().is_some()
        };
        let limit = self.plan.cluster.start_timeout;
        let place = DepotAddress {
            address: self.address.clone(),
            keeper: self.cluster.slot_name(0),
            credentials: self.credentials.clone(),
        };
        Some(DepotClient::new(place, limit, wait))
    }

    /// Binds the depot's socket, before anything else starts.
    pub(crate) fn listen(&self) -> Result<Option<TcpListener>, Failure> {
        if !self.is_keeper() {
            return Ok(None);
        }
        let has_secret = self.credentials.has_secret();
        Ok(Some(bind_named(&self.address, has_secret, &mut write_line)?))
    }

    /// Keeps the files of all other tasks in the run's directory.
    pub(crate) fn keep(
        &self,
        listener: TcpListener,
        run: &RunDir,
        checkpoints: &CheckpointDir,
        log: Arc<TaskLog>,
    ) -> Result<Depot, Failure> {
        let (names, servers) = (self.other_tasks(), self.cluster.count(Role::Ps));
        let config = DepotConfig {
            credentials: self.credentials.clone(),
            checkpoints: checkpoints.clone(),
            folders: names.map(|name| (name.clone(), run.task(&name))).collect(),
            shards: if servers > 0 { servers } else { self.cluster.slots() },
            keep: self.plan.checkpoint.map_or(usize::MAX, |checkpoint| checkpoint.keep),
            note: Box::new(move |text| log.info(text)),
        };
        Depot::start(listener, config).map_err(cannot("keep the files of other tasks"))
    }

    /// The names of all tasks but the coordinator.
    fn other_tasks(&self) -> impl Iterator<Item = String> {
        let of = |role: Role| {
            (0..self.cluster.count(role)).map(move |index| Task { role, index }.to_string())
        };
        let workers = (1..self.cluster.slots()).map(|slot| self.cluster.slot_name(slot));
        workers.chain(of(Role::Ps)).chain(of(Role::Evaluator))
    }

    /// Sends the files in the task's folder.
    pub(crate) fn gather(
        &self,
        client: &DepotClient,
        run: &RunDir,
        log: Arc<TaskLog>,
    ) -> Result<Gatherer, Failure> {
        let name = self.cluster.task.to_string();
        let note = move |text: &str| log.info(text);
        Gatherer::start(client, &name, run.task(&name), self.plan.observe_gather, note)
            .map_err(cannot("send files to the coordinator"))
    }

    /// The checkpoint that this task resumes from, if the run is resumed.
    pub(crate) fn checkpoint(
        &self,
        client: &DepotClient,
        options: &TrainOptions,
    ) -> Result<Option<Checkpoint>, Failure> {
        let Some(run) = &options.resume else { return Ok(None) };
        // Other workers need to know where it is, and servers fetch their shards later.
        let needed = if self.plan.cluster.mode == Mode::Mirrored { 0..usize::MAX } else { 0..0 };
        let dir = self.remote_dir(run, client).needing(needed);
        Ok(Some(dir.choose(options.checkpoint, &mut write_line)?))
    }

    /// Where this task keeps copies of checkpoints.
    pub(crate) fn remote_dir(&self, run: &Path, client: &DepotClient) -> CheckpointDir {
        let folder = paceline_record::names::task_folder(&self.cluster.task.to_string());
        let dir = run.join(folder).join(folders::CHECKPOINTS);
        CheckpointDir::new(dir).with_remote(Arc::new(client.clone()))
    }
}

/// Waits for the files of other tasks, after the run.
pub(crate) fn wait_for_files(depot: &Depot) {
    let mut waiting = |left: &[String]| {
        write_line(&format!("waiting for the last files of {}", left.join(", ")));
    };
    let left = depot.wait_for_files(LAST_FILES_LIMIT, LAST_FILES_MOST, &mut waiting);
    if !left.is_empty() {
        write_line(&format!("warning: the files of {} are not complete here", left.join(", ")));
    }
}

fn cannot(what: &str) -> impl FnOnce(io::Error) -> Failure {
    let what = format!("cannot {what}");
    move |source| Failure::Files { what, source }
}
