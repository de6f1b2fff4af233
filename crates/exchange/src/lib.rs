//! How tasks share parameters: the protocol of the parameter server, without any I/O.
//!
//! Two state machines stand against each other. A [`Server`] holds one shard of the parameters
//! and decides, through the gate of its mode, when a pushed gradient is applied and when it is
//! answered. A [`Client`] is one worker or evaluator that talks to all servers. Neither opens a
//! socket, reads a clock or starts a thread: frames, times and lost connections are handed in,
//! frames to send are handed out. A [`Replica`] stands for itself: it is one worker of a run
//! without servers, where every worker sums a part of the gradient for all. So a test can play a whole cluster, with all its accidents,
//! from one seed (see `tests/simulation`), and the network crate has nothing left to decide.
//!
//! The words: parameters are one flat `[f32]`, cut into a *shard* for each server and each shard
//! into *chunks* ([`shard_ranges`], [`chunk_ranges`]). A chunk is what travels in one frame and what
//! is updated at one go; the shard of a sparse model is one chunk, of which only the keys that a
//! batch touches travel. A worker's place is its *slot*; the process that fills it has an
//! *incarnation*, and its pushes count up a *sequence* that goes on over incarnations. The
//! document `docs/protocol.md` says the same for people who write another implementation.

mod chunk;
mod client;
mod config;
mod frame;
mod gate;
mod generation;
mod host;
mod keys;
mod mean;
mod members;
mod message;
mod pending_keys;
mod replica;
mod reports;
mod server;
mod shard;
mod stats;
mod store;

pub use client::{
    Client, ClientConfig, ClientEvent, Enrolment, OutgoingFrame, ProtocolError, PullPurpose,
    ReadTarget, RosterEvent, request_join_info,
};
pub use config::{ConfigError, ModeConfig, OnLoss, RosterConfig, ServerConfig, worker_names};
pub use frame::{
    CHUNK_BYTES, CONTROL_BYTES, Flags, FrameError, FrameKind, HEADER_BYTES, Header,
    PROTOCOL_VERSION, SPARSE_BYTES, as_bytes, as_bytes_mut,
};
pub use generation::Generation;
pub use host::{ConnId, FrameBody, GradientStage, Host, Level, Payload, ServerPhase};
pub use keys::{KeysError, MAX_KEYS, decode_keys, encode_keys, max_keys_bytes};
pub use message::{
    Hello, MAX_NAME_BYTES, MAX_REPORTS_BYTES, MAX_TOKEN_BYTES, MessageError, PeerRole, ProcessName,
    Refusal, RefuseCode, TaskReport, Welcome,
};
pub use replica::{
    GreetError, PeerFrame, PeerSource, PeerTarget, Replica, ReplicaConfig, ReplicaError,
    ReplicaEvent,
};
pub use server::{ChunkMarks, Outcome, ResumeState, Server, SlotMark};
pub use shard::{CHUNK_FLOATS, MAX_WORKERS, WINDOW_CHUNKS, chunk_ranges, shard_ranges};
pub use stats::{STALENESS_BOUNDS, SlotStats, Stats};
pub use store::{DenseStore, SparseStore, Store};
