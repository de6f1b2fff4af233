//! A task's place in its run, and how it identifies itself to the others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paceline_checkpoint::layout_digest;
use paceline_exchange::{ClientConfig, PeerRole, ProcessName, shard_ranges};
use paceline_model::{KeyPlaces, Model};
use paceline_net::{ConnectConfig, Credentials, LossReport, ServerConnections};

use crate::error::TrainError;
use crate::link_observers::WaitObserver;
use crate::settings::TrainSettings;

/// A worker gives up this much later than the servers, so that it hears the reason from them.
const LATER: Duration = Duration::from_secs(10);

/// How long servers may take to say that they belong to another run.
const OBJECTION_LIMIT: Duration = Duration::from_millis(700);

/// A task's place in its run.
#[derive(Clone, Debug, Default)]
pub struct TaskPlace {
    /// The task's name, such as `worker:0`.
    pub name: String,
    /// The slot a worker starts with; `None` for servers, evaluators and workers that join later.
    pub slot: Option<usize>,
    /// A server's or evaluator's number among its kind.
    pub index: usize,
    /// Slots of the batch plan. At least the number of processes unless some are spares.
    pub slots: usize,
    /// The names of the worker processes the run starts with, by slot.
    pub processes: Vec<String>,
    /// The servers' addresses, by index.
    pub servers: Vec<String>,
    /// The workers' addresses, by slot. Only `mirrored` needs them.
    pub workers: Vec<String>,
    /// What this task shows to the others and demands of them.
    pub credentials: Credentials,
    /// Processes that are lost are not started again, so others take their slots at once.
    pub is_not_restarted: bool,
    /// In `mirrored`: this task takes the place of a lost one at another address.
    pub is_substitute: bool,
    /// In `mirrored`: receives the slots of lost workers.
    pub losses: Option<LossReport>,
}

impl TaskPlace {
    /// The only task of a run.
    pub fn single() -> Self {
        let name = "worker:0".to_owned();
        Self { processes: vec![name.clone()], name, slot: Some(0), slots: 1, ..Self::default() }
    }

    /// Refuses servers that are listed for a run without them. If they run, they belong to a run of
    /// another mode: this worker introduces itself, and the error says what differs.
    pub fn refuse_servers(
        &self,
        servers: Vec<String>,
        settings: &TrainSettings,
    ) -> Result<(), TrainError> {
        if self.workers.is_empty() || servers.is_empty() {
            return Ok(());
        }
        let client = ClientConfig {
            slot: self.slot.unwrap_or(0) as u32,
            incarnation: incarnation(),
            process: ProcessName { id: process_id(), name: self.name.clone() },
            job: settings.job.clone(),
            wire: settings.wire,
            ..ClientConfig::new(PeerRole::Worker, servers.len(), servers.len())
        };
        let config = ConnectConfig {
            credentials: self.credentials.clone(),
            start_timeout: OBJECTION_LIMIT,
            ..ConnectConfig::new(client, servers)
        };
        let observer = &mut WaitObserver { notify: &|_| (), should_give_up: None };
        match ServerConnections::connect(config, observer).map_err(TrainError::from) {
            Err(error @ TrainError::Settings(_)) => Err(error),
            _ => Err(TrainError::Settings(
                "cluster.mode = \"mirrored\" has no servers, but TF_CONFIG lists ps:0; choose \
                 another mode, or leave ps out"
                    .into(),
            )),
        }
    }

    /// How this task connects to the servers.
    pub(crate) fn connect_config(
        &self,
        settings: &TrainSettings,
        role: PeerRole,
        model: ModelIdentity<'_>,
    ) -> ConnectConfig {
        let (layout, is_sparse) = (model.model.layout(), model.is_sparse);
        let total_params = if is_sparse { layout.keys() } else { layout.len() };
        let client = ClientConfig {
            slot: self.slot.unwrap_or(self.index) as u32,
            incarnation: incarnation(),
            job: settings.job.clone(),
            layout_digest: layout_digest(layout),
            is_sparse,
            width: layout.width(),
            padding: layout.keys() * layout.width() - layout.len(),
            wire: settings.wire,
            ..ClientConfig::new(role, self.servers.len(), total_params)
        };
        let timeouts = settings.timeouts;
        let order = is_sparse.then(|| key_places(model.model, self.servers.len()));
        ConnectConfig {
            order: order.filter(|order| !order.is_plain()),
            credentials: self.credentials.clone(),
            start_timeout: timeouts.start,
            stall_timeout: timeouts.stall + LATER,
            rejoin_timeout: settings.waits_for_servers.then_some(timeouts.rejoin),
            ..ConnectConfig::new(client, self.servers.clone())
        }
    }
}

/// What tasks compare to know that they train the same model.
#[derive(Clone, Copy)]
pub(crate) struct ModelIdentity<'a> {
    pub(crate) model: &'a dyn Model,
    pub(crate) is_sparse: bool,
}

/// Which of some servers holds which keys of a sparse model.
pub(crate) fn key_places(model: &dyn Model, servers: usize) -> KeyPlaces {
    let layout = model.layout();
    KeyPlaces::new(model.inputs(), layout.width(), &shard_ranges(layout.keys(), servers))
}

/// A number that is higher for every later process or thread: microseconds since 1970.
pub(crate) fn incarnation() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_micros() as u64);
    // Two threads may ask within one microsecond.
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(now.max(last.saturating_add(1)))
    });
    now.max(last.unwrap_or(0).saturating_add(1))
}

/// The number by which servers know this process: higher for every later one.
pub(crate) fn process_id() -> u64 {
    incarnation() << 8 | u64::from(std::process::id() & 0xff)
}
