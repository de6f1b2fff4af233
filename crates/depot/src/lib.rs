//! Keeps the files of a run in one place, for tasks that share no disk with it.
//!
//! The coordinator holds a [`Depot`]. Other tasks have a [`DepotClient`]: a
//! [`RemoteCheckpoints`](paceline_checkpoint::RemoteCheckpoints), through which they claim
//! generations, fetch checkpoints and deliver shards. A [`Gatherer`] sends the files in a task's
//! folder while they grow.
//!
//! - `channel.rs`: a connection, on which both sides have proved that they belong to the run;
//! - `message.rs`: what they say;
//! - `depot.rs`, `answer.rs`, `task_files.rs`: the side that keeps files;
//! - `client.rs`, `gatherer.rs`: the side of a task;
//! - `copies/`: copies of checkpoints in another place, such as an object store.
//!
//! A connection is used for one request after another. A body, such as a file, follows its message
//! and is copied through a buffer of fixed size.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod answer;
mod channel;
mod client;
mod copies;
mod depot;
mod gatherer;
mod message;
mod state;
mod task_files;
#[cfg(test)]
mod tests;

pub use client::{DepotAddress, DepotClient};
pub use copies::{Copier, FileStore, StoredRun, open_store};
pub use depot::Depot;
pub use gatherer::{GatherTime, Gatherer};
pub use state::DepotConfig;
