//! The sockets under Paceline's sharing protocol.
//!
//! [`paceline_exchange`] decides what is applied and answered when, without I/O. This crate moves
//! its frames between processes, and copies no gradient or parameter more than once:
//!
//! - [`serve()`] is a server: it holds a shard of the parameters and serves each connection on a
//!   thread of its own.
//! - [`ServerConnections`] is a worker's or evaluator's side: it connects to all servers and
//!   exchanges a gradient for updated parameters in one round trip.
//! - [`Mesh`] is a worker without servers: it is connected to all other workers, and reduces their
//!   gradients together with them.
//! - [`RosterConnection`] is a process that fills slots, and learns from server 0 which.
//!
//! # Example
//! A server and a worker exchange one gradient:
//!
//! ```
//! use std::net::TcpListener;
//! use std::thread;
//!
//! use paceline_exchange::{
//!     ClientConfig, Level, ModeConfig, PeerRole, Server, ServerConfig, Stats, Store,
//! };
//! use paceline_model::{Group, Layout, OptimizerState, Sgd};
//! use paceline_net::{
//!     ConnectConfig, Credentials, ExchangePhase, LinkObserver, ServeEnd, ServerConnections,
//!     ServerObserver, ServerTotals, serve,
//! };
//!
//! struct Silent;
//!
//! impl ServerObserver for Silent {
//!     fn note(&mut self, _: Level, _: &str) {}
//!     fn report(&mut self, _: &ServerTotals, _: &Stats, _: &Store) -> Vec<u8> {
//!         Vec::new()
//!     }
//!     fn tick(&mut self, _: &Server) -> Result<(), String> {
//!         Ok(())
//!     }
//! }
//!
//! impl LinkObserver for Silent {
//!     fn enter_phase(&mut self, _: ExchangePhase) {}
//!     fn note(&mut self, _: &str) {}
//!     fn should_give_up(&mut self) -> bool {
//!         false
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A model of two parameters, updated by SGD with a learning rate of 0.5.
//! let mut layout = Layout::new();
//! layout.push("weight", &[2], Group::Weights);
//! let optimizer = OptimizerState::new(Sgd::new(0.5), &layout, 0..2);
//! let config = ServerConfig::new(ModeConfig::Async, 1, 2);
//! let mut server = Server::new(config, Store::dense(vec![1.0, 2.0], optimizer));
//!
//! // Both ends know the run's secret.
//! let credentials = Credentials::with_token(b"open sesame");
//! let client = ClientConfig::new(PeerRole::Worker, 1, 2);
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?.to_string();
//! let config = ConnectConfig {
//!     credentials: credentials.clone(),
//!     ..ConnectConfig::new(client, vec![address])
//! };
//! let serving = thread::spawn(move || serve(&listener, &mut server, &credentials, &mut Silent));
//!
//! let mut servers = ServerConnections::connect(config, &mut Silent)?;
//! assert_eq!(servers.params(), [1.0, 2.0]);
//! // The gradient of plan step 0, computed from 32 examples.
//! let _ = servers.exchange(0, 32, &[0.2, -0.4], &mut Silent)?;
//! assert_eq!(servers.params(), [0.9, 2.2]);
//!
//! let _ = servers.leave(b"report", &mut Silent)?;
//! servers.finish(&mut Silent)?;
//! assert_eq!(serving.join().expect("the server panicked")?, ServeEnd::Finished);
//! # Ok(())
//! # }
//! ```
//!
//! # Words
//! A *worker* computes gradients for the *slot* that it fills; *servers* hold the parameters. To
//! *push* is to send a gradient, to *pull* to fetch parameters; an exchange does both. A *chunk* is
//! the piece of a shard that travels in one frame. When a server is lost, a run may go back to a
//! checkpoint, as a new *generation*: see [`LinkOutcome::Rewound`].

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod connections;
mod dial;
mod error;
mod framed;
mod inbound;
mod join_info;
mod long_wait;
mod mesh;
mod observer;
mod opening;
mod outbound;
mod outcome;
mod peer_state;
mod peer_stream;
mod pieces;
mod roster;
mod serve;
mod socket;
mod spin_wait;
mod traffic;

pub use connections::{ConnectConfig, ServerConnections, SparseValues};
pub use error::LinkError;
pub use join_info::request_join_info;
pub use mesh::{KeyedGradient, LocalGradient, LossReport, Mesh, MeshConfig, PieceOutcome};
pub use observer::{ExchangePhase, LinkObserver};
pub use outcome::LinkOutcome;
pub use paceline_trust::{Credentials, random_bytes};
pub use pieces::{
    HandedBack, HandedIn, PieceChannel, PieceExchange, PieceSender, StepPieces, WorkerFactors,
};
pub use roster::{RosterConnection, RosterLoss};
pub use serve::{
    ConnectionTracer, ConnectionTrack, ServeEnd, ServeError, ServerObserver, ServerTotals,
    ServerTrace, serve,
};
pub use traffic::Traffic;
