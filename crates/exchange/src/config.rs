//! What a server is told before it starts.
//!
//! Raw settings become a checked plan above this crate; what is asserted here is only what the
//! machine relies on, so that a fault above is named instead of becoming a hang.

use std::ops::Range;

use thiserror::Error;

use crate::{CONTROL_BYTES, MAX_TOKEN_BYTES, MAX_WORKERS, PART_FLOATS, shard_ranges};

/// How workers share the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeConfig {
    /// A push is applied and answered when it arrives.
    Async,
    /// A step is applied once this many gradients for it are in, as their mean.
    Sync {
        /// How many gradients a step takes; the workers beyond are backups.
        quorum: usize,
    },
    /// Nobody runs more than this many pushes ahead of the slowest.
    Bounded {
        /// How many; 0 is lock-step.
        staleness: u64,
    },
}

/// What happens to the run when a worker is lost for good. The chief's loss always ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// The run fails and names the worker.
    Fail,
    /// The run goes on without it.
    Continue,
}

/// Everything that defines a server but its parameters and its optimizer.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Which of the servers this is.
    pub index: usize,
    /// How many servers there are.
    pub servers: usize,
    /// How many slots there are, each for one worker.
    pub workers: usize,
    /// What people call the worker in each slot; see [`worker_names`].
    pub names: Vec<String>,
    /// How they share.
    pub mode: ModeConfig,
    /// After how many updates the run stops. Only server 0 judges it.
    pub stop_steps: Option<u64>,
    /// What happens when a worker is lost for good.
    pub on_loss: OnLoss,
    /// How long a worker that lost its connection may take to come back; 0 is not at all.
    pub rejoin_ms: u64,
    /// The run fails when somebody has been waited for this long.
    pub stall_ms: u64,
    /// The secret that every task of the run knows; empty for none.
    pub token: Vec<u8>,
    /// Identifies the job: equal on all tasks of a run.
    pub job_digest: [u8; 32],
    /// Identifies the layout of the parameters.
    pub layout_digest: [u8; 32],
    /// Which of the flat parameters this server holds.
    pub shard: Range<usize>,
    /// How many parameters there are on all servers together.
    pub total_params: usize,
    /// How many parameters travel in one part; [`PART_FLOATS`] but in tests. The shard of a
    /// sparse model is one part, whatever this says.
    pub part_floats: usize,
    /// The processes that fill the slots.
    pub crew: CrewConfig,
}

/// What a server knows of the processes that fill slots before it has met them.
#[derive(Clone, Debug, Default)]
pub struct CrewConfig {
    /// How many processes the run begins with: slot s is first for process s modulo this. 0 is
    /// one for each slot.
    pub processes: usize,
    /// What a newcomer must know of the run, in a form that only the tasks understand; empty if
    /// nobody may join.
    pub terms: Vec<u8>,
}

/// The usual names: `worker:0` and so on.
pub fn worker_names(workers: usize) -> Vec<String> {
    (0..workers).map(|slot| format!("worker:{slot}")).collect()
}

impl ServerConfig {
    /// What people call the worker in a slot.
    pub(crate) fn name(&self, slot: usize) -> String {
        self.names[slot].clone()
    }

    /// How many processes the run begins with.
    pub(crate) fn processes(&self) -> usize {
        if self.crew.processes == 0 { self.workers } else { self.crew.processes }
    }

    /// Checks what the machine relies on.
    pub fn check(&self) -> Result<(), ConfigError> {
        let require = |holds: bool, what: &'static str| match holds {
            true => Ok(()),
            false => Err(ConfigError(what)),
        };
        require(self.index < self.servers, "the server's index lies beyond the servers")?;
        require((1..=MAX_WORKERS).contains(&self.workers), "workers must be 1 to 1024")?;
        require(self.names.len() == self.workers, "not every worker has a name")?;
        require(self.total_params >= self.servers, "there are fewer parameters than servers")?;
        let shard = &shard_ranges(self.total_params, self.servers)[self.index];
        require(self.shard == *shard, "the shard is not the one of this server")?;
        require((1..=PART_FLOATS).contains(&self.part_floats), "parts must hold 1 to 65536")?;
        require(self.token.len() <= MAX_TOKEN_BYTES, "the token is longer than 256 bytes")?;
        require(self.stop_steps != Some(0), "a run of 0 steps needs no server")?;
        require(self.stall_ms > 0, "a wait needs a limit")?;
        require(self.crew.terms.len() <= CONTROL_BYTES, "the terms are longer than 64 KiB")?;
        if let ModeConfig::Sync { quorum } = self.mode {
            require((1..=self.workers).contains(&quorum), "quorum must be 1 to workers")?;
            // Which gradients are used is decided on one server; two could decide differently.
            require(
                quorum == self.workers || self.servers == 1,
                "a quorum smaller than the workers needs exactly one server",
            )?;
        }
        Ok(())
    }
}

/// A setting that the machine cannot work with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConfigError(&'static str);
