//! TODO

mod chunk;
mod client;
mod config;
mod connection;
mod frame;
mod gate;
mod generation;
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
#[cfg(test)]
mod tests;

pub use client::{
    Client, ClientConfig, ClientEvent, Enrolment, OutgoingFrame, ProtocolError, PullPurpose,
    ReadTarget, RosterEvent, request_join_info,
};
pub use config::{ConfigError, ModeConfig, OnLoss, RosterConfig, ServerConfig, worker_names};
pub use connection::{ConnId, FrameBody, Payload};
pub use frame::{
    CHUNK_BYTES, CONTROL_BYTES, Flags, FrameError, FrameKind, HEADER_BYTES, Header,
    PROTOCOL_VERSION, SPARSE_BYTES, as_bytes, as_bytes_mut,
};
pub use generation::Generation;
pub use keys::MAX_KEYS;
pub use message::{
    Hello, MAX_TOKEN_BYTES, MessageError, PeerRole, ProcessName, Refusal, RefuseCode, TaskReport,
    Welcome,
};
pub use replica::{
    GreetError, PeerFrame, PeerSource, PeerTarget, Replica, ReplicaConfig, ReplicaError,
    ReplicaEvent,
};
pub use server::{
    ChunkMarks, GradientStage, Host, Level, Outcome, ResumeState, Server, ServerPhase, SlotMark,
};
pub use shard::{CHUNK_FLOATS, MAX_WORKERS, WINDOW_CHUNKS, shard_ranges};
pub use stats::{STALENESS_BOUNDS, SlotStats, Stats};
pub use store::{DenseStore, SparseStore, Store};

pub(crate) use keys::{KeysError, decode_keys, encode_keys};
pub(crate) use message::MAX_REPORTS_BYTES;
