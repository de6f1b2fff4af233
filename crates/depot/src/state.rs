//! What the threads of a depot share.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use paceline_checkpoint::CheckpointDir;
use paceline_trust::{ConnectionRoom, Credentials};

/// What a depot keeps.
pub struct DepotConfig {
    /// What tasks must prove.
    pub credentials: Credentials,
    /// The run's checkpoints, on this machine.
    pub checkpoints: CheckpointDir,
    /// The folder of each task that sends files, by the task's name: of workers first, from slot
    /// 1 on.
    pub folders: Vec<(String, PathBuf)>,
    /// Shards of a checkpoint: as many as there are servers or, in a run without servers, workers.
    pub shards: usize,
    /// How many complete checkpoints are kept.
    pub keep: usize,
    /// Takes messages for the log.
    pub note: Box<dyn Fn(&str) + Send + Sync>,
}

impl DepotConfig {
    /// The task that has a shard: a server or, in a run without servers, the worker of the slot.
    pub(crate) fn holder_of(&self, shard: usize) -> String {
        let server = format!("ps:{shard}");
        let has_servers = self.folders.iter().any(|(name, _)| name.starts_with("ps:"));
        let worker = shard.checked_sub(1).and_then(|at| self.folders.get(at));
        let worker = worker.filter(|(name, _)| !has_servers && !name.starts_with("evaluator:"));
        worker.map_or(server, |(name, _)| name.clone())
    }
}

/// What the threads of a depot share.
pub(crate) struct DepotState {
    pub(crate) config: DepotConfig,
    pub(crate) is_over: AtomicBool,
    /// Connections that have proved that they belong to the run.
    pub(crate) connections: ConnectionRoom<Box<dyn FnOnce() + Send>>,
    /// Those that have not.
    pub(crate) strangers: ConnectionRoom<Box<dyn FnOnce() + Send>>,
    /// Requests that are being answered.
    pub(crate) active: AtomicUsize,
    /// Tasks that have sent everything.
    pub(crate) done: Mutex<BTreeSet<String>>,
    pub(crate) has_changed: Condvar,
}

impl DepotState {
    pub(crate) fn done(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task has sent everything.
    pub(crate) fn set_done(&self, task: &str) {
        self.done().insert(task.to_owned());
        self.has_changed.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
