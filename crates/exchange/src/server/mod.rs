//! One server: a shard of the parameters, who may change it, and when.
//!
//! This file holds the machine's state and its doors: a connection opened, a frame arrived, a
//! connection closed, time went by. Behind them stand the handshake (`handshake.rs`), the hot
//! path from push to answer (`push.rs`, `apply.rs`), what is particular to sparse models
//! (`sparse.rs`), the waits and their limits (`waits.rs`), checkpoints and how a server goes on from
//! one (`checkpoint.rs`), who fills which slot (`roster.rs`) and the end of a run (`ending.rs`).
//!
//! A client that breaks the protocol loses its connection and nothing else happens; if it was a
//! worker, that is a lost worker like any other.

mod apply;
mod checkpoint;
mod connections;
mod ending;
mod handshake;
mod push;
mod roster;
mod sparse;
mod waits;

use crate::chunk::{Chunk, Pool};
use crate::gate::{Gate, GateView, gate_for};
use crate::members::{Away, Members, Standing};
use crate::reports::Reports;
use crate::shard::chunk_ranges_of;
use crate::{
    ConnId, FrameBody, FrameKind, Generation, Header, Host, Level, ModeConfig, Payload,
    ServerConfig, Stats, Store,
};

use connections::{Connections, Peer};
use roster::Roster;

pub use checkpoint::{ChunkMarks, ResumeState, SlotMark};

/// How large a shard may be for `sync` to keep each chunk's last version beside the present one
/// (32 MiB), see [`Server::keeps_previous`].
const PREVIOUS_FLOATS: usize = 8 << 20;

/// How a run ended, as this server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The chief said that the run is over.
    Done,
    /// The run goes back to the checkpoint of a newer generation: this machine is of no more use,
    /// and another is to begin there.
    Rewind(Generation),
    /// The run cannot go on; the text says why and names whoever is missing.
    Failed(String),
}

/// What a client that keeps to the protocol would not do.
#[derive(Debug)]
pub(crate) struct Violation(String);

impl From<&str> for Violation {
    fn from(what: &str) -> Self {
        Violation(what.to_owned())
    }
}

/// The machine of one server. See the crate's documentation for how it is driven.
pub struct Server {
    config: ServerConfig,
    store: Store,
    chunks: Vec<Chunk>,
    gate: Box<dyn Gate>,
    pool: Pool<f32>,
    /// Of a sparse model: lists of keys.
    key_pool: Pool<u32>,
    members: Members,
    connections: Connections,
    /// On server 0: the processes that would fill slots.
    roster: Roster,
    reports: Reports,
    stats: Stats,
    /// All workers have been here at one time.
    started: bool,
    /// The number of updates at which the run stops; only server 0 has one.
    stop_at: Option<u64>,
    /// In `async` and `bounded`: the run is to stop.
    stopping: bool,
    /// Since when the chief waits for reports.
    collect_since_ms: Option<u64>,
    /// The step of the checkpoint that is to be taken, and of the one that was taken last.
    checkpoint_at: Option<u64>,
    checkpoint_last: Option<u64>,
    /// The step of the plan that a slot begins with.
    first_step: u64,
    generation: Generation,
    /// When the waits are looked at next.
    next_look_ms: u64,
    /// When the frame came that is being handled.
    now_ms: u64,
    outcome: Option<Outcome>,
}

impl Server {
    /// A server with its shard of the initial parameters and their optimizer.
    ///
    /// # Panics
    /// If the configuration does not pass [`ServerConfig::check`] or the store is not exactly
    /// the shard.
    pub fn new(config: ServerConfig, mut store: Store) -> Self {
        if let Err(error) = config.check() {
            panic!("{error}");
        }
        assert_eq!(store.len(), config.shard().len(), "the parameters are not the shard's");
        let ranges = match &store {
            Store::Dense(_) => chunk_ranges_of(store.len(), config.chunk_floats),
            Store::Sparse(_) => std::iter::once(0..store.len()).collect(),
        };
        let chunks: Vec<_> = ranges.into_iter().map(|r| Chunk::new(r, config.workers)).collect();
        if Self::keeps_previous(&config, &store, chunks.len()) {
            store.remember();
        }
        Self {
            gate: gate_for(config.mode, config.workers),
            members: Members::new(&config),
            stats: Stats::new(config.workers),
            stop_at: config.stop_steps.filter(|_| config.index == 0),
            pool: Pool::default(),
            key_pool: Pool::default(),
            connections: Connections::default(),
            roster: Roster::default(),
            reports: Reports::default(),
            started: false,
            stopping: false,
            collect_since_ms: None,
            checkpoint_at: None,
            checkpoint_last: None,
            first_step: 0,
            generation: Generation::default(),
            next_look_ms: 0,
            now_ms: 0,
            outcome: None,
            config,
            store,
            chunks,
        }
    }

    /// Whether a chunk's last version is kept beside the present one.
    ///
    /// A worker that dies in the middle of a push leaves some chunks one step further than
    /// others. Who takes its slot over must compute that gradient again from the very
    /// parameters it belongs to, or `sync` would not give equal bits. With a single chunk
    /// nothing can be in the middle; with backups the bits depend on arrival anyway; and a huge
    /// shard has no room, so there a death in the middle of a push costs the equal bits. A sparse
    /// model has room always: only what the last update touched is kept.
    fn keeps_previous(config: &ServerConfig, store: &Store, chunks: usize) -> bool {
        let has_room = matches!(store, Store::Sparse(_)) || store.len() <= PREVIOUS_FLOATS;
        config.mode == ModeConfig::Sync { quorum: config.workers }
            && (chunks > 1 || config.servers > 1)
            && has_room
    }

    /// A connection was opened by somebody.
    pub fn connection_opened(&mut self, conn: ConnId, now_ms: u64) {
        self.connections.add(conn, now_ms);
    }

    /// A frame arrived. The payload must be as long as the header says.
    pub fn frame_arrived(
        &mut self,
        conn: ConnId,
        header: &Header,
        payload: Payload<'_>,
        now_ms: u64,
        host: &mut impl Host,
    ) {
        let Some(peer) = self.connections.get(conn) else { return };
        if self.outcome.is_some() {
            return;
        }
        self.now_ms = now_ms;
        let result = match (peer, payload) {
            (Peer::Worker(slot), payload) => {
                self.members[slot].heard_ms = now_ms;
                self.worker_frame(slot, conn, header, payload, now_ms, host)
            }
            (Peer::Stranger { .. }, Payload::Bytes(bytes)) if header.kind == FrameKind::Hello => {
                self.hello(conn, bytes, now_ms, host)
            }
            (Peer::Stranger { .. }, _) => Err("a frame before Hello".into()),
            (Peer::Evaluator, payload) => match header.kind {
                FrameKind::Pull => self.pull(None, conn, header, now_ms, host),
                FrameKind::PullKeys => {
                    self.pull_keys(None, conn, header, bytes_of(payload), now_ms, host)
                }
                FrameKind::Heartbeat => Ok(()),
                kind => Err(Violation(format!("{kind:?} from an evaluator"))),
            },
            (Peer::Process(_), _) if header.kind == FrameKind::Heartbeat => Ok(()),
            (Peer::Process(_), _) => Err("a process on the roster has nothing to say".into()),
        };
        if let Err(Violation(what)) = result {
            self.shut_out(conn, &what, now_ms, host);
        }
    }

    fn worker_frame(
        &mut self,
        slot: usize,
        conn: ConnId,
        header: &Header,
        payload: Payload<'_>,
        now_ms: u64,
        host: &mut impl Host,
    ) -> Result<(), Violation> {
        let is_chief = slot == 0;
        match (header.kind, payload) {
            (FrameKind::Push | FrameKind::PushKeys, Payload::Floats(gradient)) => {
                self.push(slot, header, gradient, now_ms, host)
            }
            (FrameKind::Pull, _) => self.pull(Some(slot), conn, header, now_ms, host),
            (FrameKind::PullKeys, Payload::Bytes(keys)) => {
                self.pull_keys(Some(slot), conn, header, keys, now_ms, host)
            }
            (FrameKind::Heartbeat, _) => Ok(()),
            (FrameKind::Leave, Payload::Bytes(report)) => self.leave(slot, conn, report, host),
            (FrameKind::Release, Payload::Bytes(report)) => {
                self.release(slot, conn, report, now_ms, host)
            }
            (FrameKind::Stop, Payload::Bytes(reason)) if is_chief => {
                self.stop(reason, host);
                Ok(())
            }
            (FrameKind::Collect, _) if is_chief => {
                self.collect_since_ms = Some(now_ms);
                self.answer_collect(host);
                Ok(())
            }
            (FrameKind::Checkpoint, _) if is_chief => {
                self.ask_for_checkpoint(header.step, host);
                Ok(())
            }
            (FrameKind::Finish, _) if is_chief => self.finish(host),
            (kind, _) => {
                Err(Violation(format!("{kind:?} from {}", self.members[slot].name.clone())))
            }
        }
    }

    /// A connection was closed by the other end, or broke.
    ///
    /// Connections that the server closed itself are forgotten already and may be told or not.
    pub fn connection_closed(
        &mut self,
        conn: ConnId,
        why: &str,
        now_ms: u64,
        host: &mut impl Host,
    ) {
        let slot = match self.connections.remove(conn) {
            Some(Peer::Worker(slot)) => slot,
            Some(Peer::Stranger { .. }) => {
                host.note(Level::Info, &format!("closed the connection of a stranger: {why}"));
                return;
            }
            Some(Peer::Process(id)) => return self.strike_off(id, now_ms, host),
            Some(Peer::Evaluator) | None => return,
        };
        self.members[slot].conn = None;
        self.stats.forget(slot);
        if slot == 0 {
            // The chief asks again when it is back.
            self.collect_since_ms = None;
        }
        for chunk in &mut self.chunks {
            chunk.slots[slot].awaiting_reply = None;
        }
        match self.members[slot].standing {
            Standing::Gone => return,
            Standing::Left if slot != 0 => return,
            Standing::In if !self.started => self.members[slot].standing = Standing::Absent,
            _ => self.members[slot].away = Some(Away { since_ms: now_ms, why: why.to_owned() }),
        }
        if self.outcome.is_none() {
            let who = self.members[slot].name.clone();
            host.note(Level::Warning, &format!("lost the connection to {who}: {why}"));
            self.give_up_the_lost(now_ms, host);
            self.allot(now_ms, host);
        }
    }

    /// Time went by. To be called a few times a second.
    pub fn tick(&mut self, now_ms: u64, host: &mut impl Host) {
        if self.outcome.is_some() {
            return;
        }
        for conn in self.connections.overdue(now_ms) {
            self.shut_out(conn, "no Hello in time", now_ms, host);
        }
        self.give_up_the_lost(now_ms, host);
        if self.outcome.is_some() {
            return;
        }
        self.allot(now_ms, host);
        self.look_at_waits(now_ms, host);
    }

    /// Closes the connection of a client that broke the protocol.
    fn shut_out(&mut self, conn: ConnId, what: &str, now_ms: u64, host: &mut impl Host) {
        host.close(conn, what);
        let who = match self.connections.get(conn) {
            Some(Peer::Worker(slot)) => self.members[slot].name.clone(),
            Some(Peer::Evaluator) => "an evaluator".to_owned(),
            Some(Peer::Process(_)) => "a process on the roster".to_owned(),
            // What is closed for a stranger is told of in a moment.
            _ => return self.connection_closed(conn, what, now_ms, host),
        };
        host.note(Level::Warning, &format!("closed the connection of {who}: {what}"));
        self.connection_closed(conn, what, now_ms, host);
    }

    /// What the gate may look at.
    fn view(&self) -> GateView<'_> {
        GateView { chunks: &self.chunks, members: &self.members }
    }

    /// Whether this is `sync`.
    fn is_sync(&self) -> bool {
        matches!(self.config.mode, ModeConfig::Sync { .. })
    }

    /// How the run ended, once it has. From then on the machine does nothing more.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// The present parameters of the shard, with their optimizer.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The slot of a connection, once it is known to be a worker's.
    pub fn slot_of(&self, conn: ConnId) -> Option<usize> {
        match self.connections.get(conn) {
            Some(Peer::Worker(slot)) => Some(slot),
            _ => None,
        }
    }

    /// Updates applied to the first chunk.
    pub fn global_step(&self) -> u64 {
        self.chunks[0].version
    }

    /// Whether all workers have been here and training has begun.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// What became of the pushes.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The sequence of the last push of a slot that a chunk has accepted; 0 for none.
    pub fn accepted(&self, chunk: usize, slot: usize) -> u64 {
        self.chunks[chunk].slots[slot].last_sequence
    }

    /// Whether the others still wait for a slot: it has neither left nor been given up.
    pub fn is_live(&self, slot: usize) -> bool {
        self.members.is_live(slot)
    }

    /// What people call a slot: the process that fills it, and where that has others too, the
    /// slot's number.
    pub fn name(&self, slot: usize) -> &str {
        &self.members[slot].name
    }

    /// What people call the process that fills a slot; what they call the slot if it is not told.
    pub fn process_name(&self, slot: usize) -> &str {
        let member = &self.members[slot];
        if member.holder.is_empty() { &member.name } else { &member.holder }
    }

    /// Before the start: the workers that are not here, as people read them; empty if none.
    pub fn missing(&self) -> String {
        let absent = |&slot: &usize| !self.started && self.members[slot].conn.is_none();
        self.members.names((0..self.members.len()).filter(absent))
    }

    /// How many gradients are held, and how many vectors lie spare: the server's memory beyond
    /// parameters and slots, in chunks.
    pub fn buffers(&self) -> (usize, usize) {
        ((0..self.members.len()).map(|slot| self.members[slot].pending).sum(), self.pool.spare())
    }

    /// Of a sparse model: how many lists of keys are kept for a gradient that is held or to
    /// come, and how many vectors for such lists lie spare.
    pub fn key_lists(&self) -> (usize, usize) {
        let slots = self.chunks.iter().flat_map(|chunk| &chunk.slots);
        let kept =
            slots.map(|state| state.pending_keys.len() + usize::from(state.pending.is_some()));
        (kept.sum(), self.key_pool.spare())
    }

    /// Sends a frame that carries no parameters.
    fn say(&self, conn: ConnId, kind: FrameKind, bytes: &[u8], host: &mut impl Host) {
        host.send(conn, Header::new(kind, bytes.len()), FrameBody::Bytes(bytes));
    }
}

/// The payload of a frame that carries no gradient.
fn bytes_of(payload: Payload<'_>) -> &[u8] {
    match payload {
        Payload::Bytes(bytes) => bytes,
        Payload::Floats(_) => &[],
    }
}
