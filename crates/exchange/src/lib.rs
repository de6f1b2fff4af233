//! How tasks share parameters: the protocol of Paceline as state machines without I/O.
//!
//! A [`Server`] holds one shard of the parameters and decides, by the gate of its mode, when a
//! pushed gradient is applied and when it is answered. A [`Client`] is a worker or an evaluator
//! that is connected to all servers. A [`Replica`] is a worker of a run without servers, in which
//! every worker reduces a shard of the gradient for all. None of them opens a socket, reads a clock
//! or starts a thread, so a test can play a whole cluster with all its accidents from one seed.
//!
//! # Driving the state machines
//!
//! The caller hands in what happens and carries out what the state machine decides:
//!
//! - A server receives connections, frames, losses and the time ([`Server::connection_opened`],
//!   [`Server::frame_arrived`], [`Server::connection_closed`], [`Server::tick`]). During each call
//!   it acts through a [`Host`], which sends frames and closes connections.
//! - A client names the frames to send ([`Client::hello`], [`Client::next_frame`]) and says where
//!   the payload of an arriving frame belongs ([`Client::read_target`]) and what it means
//!   ([`Client::frame_arrived`]). Parameters and gradients stay in the caller's slices.
//!
//! This is a server and a worker in one process that exchange one gradient:
//!
//! ```
//! use paceline_exchange::*;
//! use paceline_model::{Group, Layout, OptimizerState, Sgd};
//!
//! /// Takes the place of a socket from the server to the worker.
//! #[derive(Default)]
//! struct Wire(Vec<(Header, Vec<u8>)>);
//!
//! impl Host for Wire {
//!     fn send(&mut self, _to: ConnId, header: Header, body: FrameBody<'_>) {
//!         let mut bytes = Vec::new();
//!         body.append_to(&mut bytes);
//!         self.0.push((header, bytes));
//!     }
//!     fn close(&mut self, _conn: ConnId, _reason: &str) {}
//!     fn note(&mut self, _level: Level, _text: &str) {}
//!     fn report(&mut self, _stats: &Stats, _store: &Store) -> Vec<u8> {
//!         Vec::new()
//!     }
//!     fn phase(&mut self, _phase: ServerPhase) {}
//! }
//!
//! // A server with three parameters, and SGD at rate 0.5.
//! let mut layout = Layout::new();
//! layout.push("weight", &[3], Group::Weights);
//! let optimizer = OptimizerState::new(Sgd::new(0.5), &layout, 0..3);
//! let store = Store::dense(vec![1.0; 3], optimizer);
//! let mut server = Server::new(ServerConfig::new(ModeConfig::Async, 1, 3), store);
//! let (conn, now_ms, mut wire) = (ConnId(0), 0, Wire::default());
//!
//! // A worker connects. Its first frame is `Hello`.
//! let mut client = Client::new(ClientConfig::new(PeerRole::Worker, 1, 3));
//! server.connection_opened(conn, now_ms);
//! let hello = client.hello(0);
//! server.frame_arrived(conn, &hello.header, Payload::Bytes(&hello.body), now_ms, &mut wire);
//!
//! let (mut params, gradient) = (vec![0.0; 3], vec![2.0, 4.0, 6.0]);
//! while client.global_step() < 1 {
//!     // From the server to the worker.
//!     for (header, bytes) in std::mem::take(&mut wire.0) {
//!         let event = match client.read_target(0, &header)? {
//!             ReadTarget::Floats(range) => {
//!                 as_bytes_mut(&mut params[range]).copy_from_slice(&bytes);
//!                 client.frame_arrived(0, &header, &[])?
//!             }
//!             _ => client.frame_arrived(0, &header, &bytes)?,
//!         };
//!         match event {
//!             ClientEvent::Started => client.begin_pull(),
//!             // The pull is complete: push a gradient for step 0, a mean over 10 examples.
//!             ClientEvent::Complete if client.global_step() == 0 => client.begin_push(0, 10),
//!             _ => {}
//!         }
//!     }
//!     // From the worker to the server.
//!     while let Some(frame) = client.next_frame(0) {
//!         let mut payload = gradient[frame.gradient].to_vec();
//!         let payload = Payload::Floats(&mut payload);
//!         server.frame_arrived(conn, &frame.header, payload, now_ms, &mut wire);
//!     }
//! }
//! assert_eq!(params, [0.0, -1.0, -2.0]);
//! assert_eq!(server.store().params(), params);
//! # Ok::<(), ProtocolError>(())
//! ```
//!
//! # Words
//!
//! The parameters are one flat `[f32]`, divided into one *shard* per server ([`shard_ranges`]) and
//! each shard into *chunks* of at most [`CHUNK_FLOATS`]. A chunk travels in one frame and is
//! updated as a whole. The shard of a sparse model is one chunk, and only the keys that a batch
//! touches travel. A worker's place in the plan is its *slot*. The process that fills it has
//! an *incarnation*, and its pushes count up a *sequence* that continues across incarnations. The
//! worker in slot 0 is the *coordinator*: it decides when to stop and requests checkpoints. Every
//! restart of a server begins a new *generation* of the run. `docs/protocol.md` specifies the
//! frames for other implementations.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod chunk;
mod client;
mod config;
mod connection;
mod control_frame;
mod frame;
mod gate;
mod generation;
mod incarnation;
mod job_identity;
mod keyed_sum;
mod keys;
mod mean;
mod members;
mod message;
mod pending_keys;
mod replica;
mod reports;
mod run_identity;
mod server;
mod shard;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{
    Client, ClientConfig, ClientEvent, Enrolment, OutgoingFrame, ProtocolError, PullPurpose,
    ReadTarget, RosterEvent, request_join_info,
};
pub use config::{ConfigError, ModeConfig, OnLoss, RosterConfig, ServerConfig, worker_names};
pub use connection::{ConnId, FrameBody, Payload};
pub use control_frame::ControlFrame;
pub use frame::{
    CHUNK_BYTES, CONTROL_BYTES, Flags, FrameError, FrameKind, HEADER_BYTES, HELLO_BYTES, Header,
    PROTOCOL_VERSION, SPARSE_BYTES, as_bytes, as_bytes_mut,
};
pub use generation::Generation;
pub use job_identity::{JobIdentity, TaskKeys, first_difference};
pub use keys::{MAX_KEYS, max_keys};
pub use message::{
    Hello, MessageError, PeerRole, ProcessName, Refusal, RefuseCode, TaskReport, Welcome,
};
pub use replica::{
    CompletedPiece, Contributor, ExchangeConditions, FactorChoice, GreetError, KnownPart,
    LentState, PeerFrame, PeerSource, PeerTarget, Replica, ReplicaConfig, ReplicaError,
    ReplicaEvent, StepMemory, StepPiece, WholeGradient, route_pieces, travels_in_pieces,
};
pub use server::{
    ChunkMarks, GradientStage, Host, Level, Outcome, PayloadLimits, ResumeState, Server,
    ServerPhase, SlotMark,
};
pub use shard::{CHUNK_FLOATS, MAX_WORKERS, WINDOW_CHUNKS, shard_ranges};
pub use stats::{STALENESS_BOUNDS, SlotStats, Stats};
pub use store::{DenseStore, SparseStore, Store};
pub use wire::{GradientChanges, RoundedChunk, WireFormat};

pub(crate) use keys::{KeysError, decode_keys, encode_keys, max_keys_bytes};
pub(crate) use message::MAX_REPORTS_BYTES;
pub(crate) use run_identity::RunIdentity;
