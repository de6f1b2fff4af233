//! The state of a client, and what its caller may ask.

use super::config::ClientConfig;
use super::server_progress::ServerProgress;
use crate::{Generation, WireFormat, shard_ranges};

/// The operation that a client is performing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// Pushes all chunks; each answer brings updated parameters.
    Push { step: u64, examples: u32 },
    /// Pulls all chunks, or the values of keys. `resume` is set on the first pull of a worker.
    Pull { resume: bool, ahead: bool },
}

/// The state machine of one client. The documentation of the crate shows how to drive it.
pub struct Client {
    pub(super) config: ClientConfig,
    pub(super) links: Vec<ServerProgress>,
    pub(super) operation: Option<Operation>,
    /// The sequence of the current or last push.
    pub(super) sequence: u64,
    /// The step that the slot continues with; known once all servers have welcomed the client.
    pub(super) resume_step: Option<u64>,
    pub(super) has_pulled: bool,
    /// The last push of an earlier process, or of a checkpoint, that any chunk of any server has.
    /// All servers must get all pushes up to there.
    pub(super) owed_until: u64,
    pub(super) stopping: bool,
    pub(super) dropped: bool,
    pub(super) already_left: bool,
    /// The newest generation of the run that it knows of.
    pub(super) generation: Generation,
    /// Pushes completed before the run went back, until the client knows how far it went back.
    pub(super) pushed_before: u64,
    pub(super) lost_pushes: u64,
    /// Bytes of all keys that its batches have requested, as they are sent.
    pub(super) key_bytes: u64,
}

impl Client {
    /// Creates a client that is not connected yet.
    ///
    /// # Panics
    /// If there are no servers, or fewer parameters than servers.
    pub fn new(config: ClientConfig) -> Self {
        assert!(config.total_params >= config.servers, "fewer parameters than servers");
        Self {
            links: new_links(&config),
            config,
            operation: None,
            sequence: 0,
            resume_step: None,
            has_pulled: false,
            owed_until: 0,
            stopping: false,
            dropped: false,
            already_left: false,
            generation: Generation::default(),
            pushed_before: 0,
            lost_pushes: 0,
            key_bytes: 0,
        }
    }

    /// Forgets everything except the number of pushes, because the run has gone back.
    pub(super) fn rewind(&mut self) {
        self.pushed_before = self.pushed_before.max(self.complete_pushes());
        self.links = new_links(&self.config);
        self.operation = None;
        self.sequence = 0;
        self.resume_step = None;
        self.owed_until = 0;
        (self.has_pulled, self.already_left) = (false, false);
        (self.stopping, self.dropped) = (false, false);
    }

    /// The connection to a server was lost. When a new one has been opened and welcomed, the
    /// client sends again what was not answered.
    pub fn connection_lost(&mut self, server: usize) {
        self.links[server].lost();
    }

    /// Whether the last operation has been answered in full.
    pub fn is_complete(&self) -> bool {
        self.operation.is_none()
    }

    /// Whether every server has welcomed the client on its current connection.
    pub fn is_welcome(&self) -> bool {
        self.links.iter().all(ServerProgress::is_welcome)
    }

    /// Whether a server has welcomed the client on its current connection. Until then the server
    /// may be in a generation that the client does not know, so only `Hello` may be sent to it.
    pub fn is_welcome_at(&self, server: usize) -> bool {
        self.links[server].is_welcome()
    }

    /// Whether every server has sent `Start`.
    pub fn is_started(&self) -> bool {
        self.links.iter().all(ServerProgress::is_started)
    }

    /// The step of the plan that the slot continues with; 0 unless it takes over or resumes. Known
    /// once all servers have welcomed the client.
    pub fn resume_step(&self) -> Option<u64> {
        self.resume_step
    }

    /// Whether another process has already left for this slot, so that this client can only leave
    /// too.
    pub fn already_left(&self) -> bool {
        self.already_left
    }

    /// How gradients and parameters travel.
    pub fn wire(&self) -> WireFormat {
        self.config.wire
    }

    /// The generation of the run that the client is in.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Answered pushes of this process that were lost when the run went back. It makes them again.
    pub fn lost_pushes(&self) -> u64 {
        self.lost_pushes
    }

    /// Updates applied, according to the last answer for the first chunk.
    pub fn global_step(&self) -> u64 {
        self.links[0].first_version()
    }

    /// Whether the run is stopping, so that the worker must not push any more.
    ///
    /// A process that took over a slot in the middle of a push, or from a checkpoint whose servers
    /// were some pushes apart, first makes those pushes, so that all chunks of all servers have
    /// them.
    pub fn is_stopping(&self) -> bool {
        self.stopping && !self.has_unfinished_push()
    }

    /// Whether a chunk of some server has a push that this process still has to make.
    pub fn has_unfinished_push(&self) -> bool {
        self.complete_pushes() < self.owed_until
    }

    /// Whether the last push came too late and was dropped.
    pub fn was_dropped(&self) -> bool {
        self.dropped
    }

    /// Pushes of the slot that have been answered in full.
    fn complete_pushes(&self) -> u64 {
        self.sequence - u64::from(matches!(self.operation, Some(Operation::Push { .. })))
    }
}

/// The links to all servers, before any server has answered.
fn new_links(config: &ClientConfig) -> Vec<ServerProgress> {
    let shards = shard_ranges(config.total_params, config.servers);
    let width = config.is_sparse.then_some(config.width);
    shards.into_iter().map(|shard| ServerProgress::new(shard, width)).collect()
}
