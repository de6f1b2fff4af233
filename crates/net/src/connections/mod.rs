//! A worker's or evaluator's connections to all servers of its run.
//!
//! - `server_connections.rs`: the operations push and pull, for dense models;
//! - `pieces.rs`: a push that overlaps with the passes of a network;
//! - `buffers.rs`: where an operation finds its gradient and puts the parameters;
//! - `keys.rs`: the same by key, for sparse models;
//! - `sparse_values.rs`: the values of keys that a worker has fetched;
//! - `start.rs`: how the connections are made;
//! - `rejoin.rs`: what happens when one breaks, or when the run goes back to a checkpoint;
//! - `leave.rs`: how a worker leaves and a run ends;
//! - `server_peer.rs`: one server and the connection to it.

mod buffers;
mod config;
mod keys;
mod leave;
mod pieces;
mod rejoin;
mod requests;
mod server_connections;
mod server_peer;
mod sparse_values;
mod start;

pub use config::ConnectConfig;
pub use server_connections::ServerConnections;
pub use sparse_values::SparseValues;
