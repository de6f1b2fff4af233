//! The state of a server, and what the program around it may ask.

use super::connections::{ConnectedPeer, Connections};
use super::roster::Roster;
use crate::chunk::{Chunk, VecPool};
use crate::gate::{Gate, GateView, gate_for};
use crate::members::Members;
use crate::reports::Reports;
use crate::shard::chunk_ranges;
use crate::{ConnId, Generation, ModeConfig, ServerConfig, Stats, Store, WireFormat};

/// In `sync`, a shard of up to this many parameters (32 MiB) keeps its previous version; see
/// [`Server::keeps_previous`].
const PREVIOUS_FLOATS: usize = 8 << 20;

/// How a run ended, as one server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The coordinator ended the run.
    Done,
    /// The run goes back to the checkpoint of a newer generation. This [`Server`] is
    /// useless from then on; another one must start from that checkpoint.
    Rewind(Generation),
    /// The run has failed. The text says why and names the worker that is missing.
    Failed(String),
}

/// The state machine of one server. The documentation of the crate shows how to drive it.
pub struct Server {
    pub(super) config: ServerConfig,
    pub(super) store: Store,
    pub(super) chunks: Vec<Chunk>,
    pub(super) gate: Box<dyn Gate>,
    pub(super) pool: VecPool<f32>,
    /// For a sparse model: lists of keys.
    pub(super) key_pool: VecPool<u32>,
    pub(super) members: Members,
    pub(super) connections: Connections,
    /// On server 0: the processes that can fill slots.
    pub(super) roster: Roster,
    pub(super) reports: Reports,
    pub(super) stats: Stats,
    /// Whether all workers have been connected at the same time.
    pub(super) started: bool,
    /// The number of updates at which the run stops; only server 0 has one.
    pub(super) stop_at: Option<u64>,
    /// In `async` and `bounded`: whether workers are asked to stop.
    pub(super) stopping: bool,
    /// Whether the run ends in the middle of its steps: no gradient is applied any more.
    pub(super) is_cut_short: bool,
    /// Since when the coordinator waits for reports.
    pub(super) collect_since_ms: Option<u64>,
    /// The step of the checkpoint that is requested but not yet taken.
    pub(super) checkpoint_at: Option<u64>,
    /// The step of the plan at which a slot begins.
    pub(super) first_step: u64,
    pub(super) generation: Generation,
    /// When the waits are checked next.
    pub(super) next_wait_check_ms: u64,
    /// When the current frame arrived.
    pub(super) now_ms: u64,
    pub(super) outcome: Option<Outcome>,
}

impl Server {
    /// Creates a server with its shard of the initial parameters.
    ///
    /// # Panics
    /// If the configuration does not pass [`ServerConfig::check`], or the store does not have the
    /// length of the shard.
    pub fn new(config: ServerConfig, mut store: Store) -> Self {
        if let Err(error) = config.check() {
            panic!("{error}");
        }
        assert_eq!(store.len(), config.shard().len(), "the store must be the shard");
        let width = if let Store::Sparse(sparse) = &store { sparse.table().width() } else { 1 };
        assert_eq!(width, config.width, "parameters of each key");
        let is_exact = config.wire == WireFormat::F32;
        assert!(is_exact || matches!(store, Store::Dense(_)), "a sparse model travels as f32");
        let ranges = match &store {
            Store::Dense(_) => chunk_ranges(store.len(), config.chunk_floats),
            Store::Sparse(_) => std::iter::once(0..store.len()).collect(),
        };
        let chunks: Vec<_> = ranges.into_iter().map(|r| Chunk::new(r, config.workers)).collect();
        if Self::keeps_previous(&config, &store, chunks.len()) {
            store.keep_previous();
        }
        Self {
            gate: gate_for(config.mode, config.workers),
            members: Members::new(&config),
            stats: Stats::new(config.workers),
            stop_at: config.stop_steps.filter(|_| config.index == 0),
            pool: VecPool::default(),
            key_pool: VecPool::default(),
            connections: Connections::default(),
            roster: Roster::default(),
            reports: Reports::default(),
            started: false,
            stopping: false,
            is_cut_short: false,
            collect_since_ms: None,
            checkpoint_at: None,
            first_step: 0,
            generation: Generation::default(),
            next_wait_check_ms: 0,
            now_ms: 0,
            outcome: None,
            config,
            store,
            chunks,
        }
    }

    /// Whether the store keeps each chunk's previous version beside the current one.
    ///
    /// A worker that dies in the middle of a push leaves some chunks one step ahead of others.
    /// The process that takes over its slot must compute that gradient again from exactly the
    /// same parameters, or `sync` would not give equal bits. A single chunk cannot be left in
    /// the middle. With backups the bits depend on the order of arrival anyway. A huge shard has
    /// no room, so there such a death costs the equal bits. A sparse model always has room: it
    /// keeps only what the last update touched.
    fn keeps_previous(config: &ServerConfig, store: &Store, chunks: usize) -> bool {
        let has_room = matches!(store, Store::Sparse(_)) || store.len() <= PREVIOUS_FLOATS;
        config.mode == ModeConfig::Sync { quorum: config.workers }
            && (chunks > 1 || config.servers > 1)
            && has_room
    }

    pub(super) fn gate_view(&self) -> GateView<'_> {
        GateView { chunks: &self.chunks, members: &self.members }
    }

    pub(super) fn is_sync(&self) -> bool {
        matches!(self.config.mode, ModeConfig::Sync { .. })
    }

    /// How the run ended, once it has. From then on the server ignores all inputs.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// The current parameters of the shard, with their optimizer.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The slot of a connection, once a worker has said `Hello` on it.
    pub fn slot_of(&self, conn: ConnId) -> Option<usize> {
        match self.connections.get(conn) {
            Some(ConnectedPeer::Worker(slot)) => Some(slot),
            _ => None,
        }
    }

    /// Updates applied to the first chunk.
    pub fn global_step(&self) -> u64 {
        self.chunks[0].version
    }

    /// Whether all workers have connected, so that training has begun.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// What became of the pushes.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The number of updates at which the run stops, as far as this server knows.
    pub fn stop_at(&self) -> Option<u64> {
        self.stop_at
    }

    /// Chunks in the shard.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Whether other workers still wait for a slot: it has neither left nor been given up.
    pub fn is_live(&self, slot: usize) -> bool {
        self.members.is_live(slot)
    }

    /// The display name of a slot: that of the process that fills it, with the slot's number if
    /// the process began in another slot.
    pub fn name(&self, slot: usize) -> &str {
        &self.members[slot].name
    }

    /// The display name of the process that fills a slot; the slot's own name if the process has
    /// none.
    pub fn process_name(&self, slot: usize) -> &str {
        let member = &self.members[slot];
        if member.process_name.is_empty() { &member.name } else { &member.process_name }
    }

    /// Before the start: the names of the workers that are not connected; empty afterwards.
    pub fn missing(&self) -> String {
        let absent = |&slot: &usize| !self.started && self.members[slot].conn.is_none();
        self.members.names((0..self.members.len()).filter(absent))
    }
}
