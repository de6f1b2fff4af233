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
//! into *parts* ([`shard_ranges`], [`part_ranges`]). A part is what travels in one frame and what
//! is updated at one go; the shard of a sparse model is one part, of which only the keys that a
//! batch touches travel. A worker's place is its *slot*; the process that fills it has an
//! *incarnation*, and its pushes count up a *sequence* that goes on over incarnations. The
//! document `docs/protocol.md` says the same for people who write another implementation.

mod asked;
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
mod part;
mod replica;
mod reports;
mod server;
mod shard;
mod stats;
mod store;

pub use client::{
    Call, Client, ClientConfig, ClientEvent, Enrolment, Expect, ProtocolError, Purpose, ToSend,
    ask_for_terms,
};
pub use config::{ConfigError, CrewConfig, ModeConfig, OnLoss, ServerConfig, worker_names};
pub use frame::{
    CONTROL_BYTES, Flags, FrameError, HEADER_BYTES, Header, Kind, PART_BYTES, PROTOCOL_VERSION,
    SPARSE_BYTES, as_bytes, as_bytes_mut,
};
pub use generation::Generation;
pub use host::{Body, ConnId, Host, Level, Payload, ServerPhase, Trail};
pub use keys::{KeysError, MOST_KEYS, decode_keys, encode_keys, max_keys_bytes};
pub use message::{
    Hello, MAX_NAME_BYTES, MAX_REPORTS_BYTES, MAX_TOKEN_BYTES, MessageError, ProcessName, Refusal,
    RefuseCode, Report, Role, Welcome,
};
pub use replica::{
    NotLetIn, Place, Replica, ReplicaConfig, ReplicaError, ReplicaEvent, Source, ToPeer,
};
pub use server::{Mark, Outcome, PartMarks, Resume, Server};
pub use shard::{MAX_WORKERS, PART_FLOATS, WINDOW_PARTS, part_ranges, shard_ranges};
pub use stats::{STALENESS_BOUNDS, SlotStats, Stats};
pub use store::{Dense, Sparse, Store};
