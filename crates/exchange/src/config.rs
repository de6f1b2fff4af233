//! The settings of a server.
//!
//! The job file is checked above this crate. [`ServerConfig::check`] covers only what the state
//! machine relies on, so that a mistake above becomes an error message and not a hang.

use std::ops::Range;

use thiserror::Error;

use crate::{CHUNK_FLOATS, CONTROL_BYTES, JobIdentity, MAX_WORKERS, WireFormat, shard_ranges};

/// The most parameters of a key: a frame has room for some hundred keys.
const MAX_WIDTH: usize = 65_536;

/// How workers share the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeConfig {
    /// A push is applied and answered when it arrives.
    Async,
    /// A step is applied as the mean of its gradients once a quorum of them has arrived.
    Sync {
        /// Gradients per step, 1 to the number of workers; the workers beyond are backups.
        quorum: usize,
    },
    /// No worker runs more than `staleness` pushes ahead of the slowest one.
    Bounded {
        /// The largest lead in pushes; 0 is lock-step.
        staleness: u64,
    },
}

/// What happens to the run when a worker is lost for good. Losing the coordinator always
/// ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// The run fails and names the worker.
    Fail,
    /// The run continues without it.
    Continue,
}

/// The settings of a server: everything except its parameters and its optimizer.
///
/// Start from [`ServerConfig::new`] and override the fields that differ:
///
/// ```
/// use paceline_exchange::{ModeConfig, ServerConfig};
///
/// let second_of_two = ServerConfig {
///     index: 1,
///     servers: 2,
///     stop_steps: Some(1_000),
///     ..ServerConfig::new(ModeConfig::Sync { quorum: 4 }, 4, 10_000)
/// };
/// assert_eq!(second_of_two.shard(), 5_000..10_000);
/// ```
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The index of this server, from 0.
    pub index: usize,
    /// Servers in the run.
    pub servers: usize,
    /// Slots in the run; one worker fills each.
    pub workers: usize,
    /// The display name of the worker in each slot; see [`worker_names`].
    pub names: Vec<String>,
    /// How workers share the parameters.
    pub mode: ModeConfig,
    /// The number of updates after which the run stops. Only server 0 acts on it.
    pub stop_steps: Option<u64>,
    /// What happens when a worker is lost for good.
    pub on_loss: OnLoss,
    /// How long a worker that lost its connection may take to return; with 0 it is lost at once.
    pub rejoin_ms: u64,
    /// The longest wait; the run fails when one lasts this long. At least 1.
    pub stall_ms: u64,
    /// Identifies the job: equal on all tasks of a run.
    pub job: JobIdentity,
    /// Identifies the layout of the parameters.
    pub layout_digest: [u8; 32],
    /// Parameters on all servers together; for a sparse model, keys.
    pub total_params: usize,
    /// For a sparse model: the parameters of each key.
    pub width: usize,
    /// Parameters per chunk, 1 to [`CHUNK_FLOATS`]; only tests use fewer. The shard of a sparse
    /// model is one chunk regardless.
    pub chunk_floats: usize,
    /// How gradients and parameters travel; a sparse model's as `f32` only.
    pub wire: WireFormat,
    /// When the server started, in microseconds since 1970, which incarnations are compared with;
    /// 0 where they count from 1.
    pub started_us: u64,
    /// The processes that fill the slots.
    pub roster: RosterConfig,
}

/// What server 0 knows of the processes that fill slots before they connect.
#[derive(Clone, Debug, Default)]
pub struct RosterConfig {
    /// Processes that the run begins with: slot `s` goes first to process `s` modulo this. 0
    /// stands for one process per slot.
    pub processes: usize,
    /// What a process that joins later must know of the run, opaque to this crate; at most
    /// [`CONTROL_BYTES`]. Empty if no process may join.
    pub join_info: Vec<u8>,
    /// Lost processes are not started again: their slots go to others at once, and are not kept
    /// for them.
    pub reassigns_at_once: bool,
}

/// The usual names: `worker:0` and so on.
pub fn worker_names(workers: usize) -> Vec<String> {
    (0..workers).map(|slot| format!("worker:{slot}")).collect()
}

impl ServerConfig {
    /// The only server of a run without a step limit or a grace period: a lost worker
    /// fails the run at once, and so does a wait of five minutes.
    pub fn new(mode: ModeConfig, workers: usize, total_params: usize) -> Self {
        Self {
            index: 0,
            servers: 1,
            workers,
            names: worker_names(workers),
            mode,
            stop_steps: None,
            on_loss: OnLoss::Fail,
            rejoin_ms: 0,
            stall_ms: 300_000,
            job: JobIdentity::default(),
            layout_digest: [0; 32],
            total_params,
            width: 1,
            chunk_floats: CHUNK_FLOATS,
            wire: WireFormat::F32,
            started_us: 0,
            roster: RosterConfig::default(),
        }
    }

    /// The range of the flat parameters that this server holds; for a sparse model, of the keys.
    ///
    /// # Panics
    /// If the index is not below the number of servers.
    pub fn shard(&self) -> Range<usize> {
        shard_ranges(self.total_params, self.servers)[self.index].clone()
    }

    /// The number of processes that the run begins with.
    pub(crate) fn processes(&self) -> usize {
        if self.roster.processes == 0 { self.workers } else { self.roster.processes }
    }

    /// Checks what the state machine relies on.
    pub fn check(&self) -> Result<(), ConfigError> {
        let require = |holds: bool, what: &'static str| {
            if holds { Ok(()) } else { Err(ConfigError(what)) }
        };
        require(self.index < self.servers, "the server's index lies beyond the servers")?;
        require((1..=MAX_WORKERS).contains(&self.workers), "workers must be 1 to 1024")?;
        require(self.names.len() == self.workers, "not every worker has a name")?;
        require(self.total_params >= self.servers, "there are fewer parameters than servers")?;
        let chunk_floats = self.chunk_floats;
        require((1..=CHUNK_FLOATS).contains(&chunk_floats), "chunks must hold 1 to 65536")?;
        require(self.stop_steps != Some(0), "a run of 0 steps needs no server")?;
        require(self.stall_ms > 0, "a wait needs a limit")?;
        require((1..=MAX_WIDTH).contains(&self.width), "a key has 1 to 65536 parameters")?;
        let join_bytes = self.roster.join_info.len();
        require(join_bytes <= CONTROL_BYTES, "the join information is longer than 64 KiB")?;
        if let ModeConfig::Sync { quorum } = self.mode {
            require((1..=self.workers).contains(&quorum), "quorum must be 1 to workers")?;
            // One server decides which gradients are used; two could decide differently.
            require(
                quorum == self.workers || self.servers == 1,
                "a quorum smaller than the workers needs exactly one server",
            )?;
        }
        Ok(())
    }
}

/// A setting that the state machine cannot work with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConfigError(&'static str);
