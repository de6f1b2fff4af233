//! A worker without servers: connections to all other workers, and one step after another.
//!
//! One thread does everything. It sends what the sockets take, reads what has arrived, reduces a
//! chunk as soon as all workers' gradients of it are here, and sends the result while it is in the
//! cache. The [`Replica`](paceline_exchange::Replica) decides which frame may come when, and what
//! it does.
//!
//! - `state.rs`: the [`Mesh`] and its peers;
//! - `step.rs`: one step;
//! - `pieces.rs`: one step in pieces, while another thread computes;
//! - `gather.rs`, `listener.rs`: how workers find each other;
//! - `recover.rs`: what happens when a worker is lost;
//! - `leave.rs`, `abort.rs`, `cut_short.rs`: how a run ends, cleanly, by a failure, or in the
//!   middle of a step;
//! - `connection.rs`: one connection to another worker.

mod abort;
mod config;
mod connection;
mod cut_short;
mod fault;
mod gather;
mod leave;
mod listener;
mod pieces;
mod recover;
mod state;
mod step;

pub use config::{KeyedGradient, LocalGradient, LossReport, MeshConfig};
pub use pieces::PieceOutcome;
pub use state::Mesh;
