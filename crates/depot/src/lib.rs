//! Keeps the files of a run in one place, for tasks that share no disk with it.
//!
//! The coordinator holds a [`Depot`]. Other tasks have a [`DepotClient`]: a
//! [`RemoteCheckpoints`](paceline_checkpoint::RemoteCheckpoints), through which they claim
//! generations, fetch checkpoints and deliver shards. A [`Gatherer`] sends the files in a task's
//! folder while they grow.
//!
//! ```
//! use std::net::TcpListener;
//! use std::time::Duration;
//!
//! use paceline_checkpoint::CheckpointDir;
//! use paceline_depot::{Depot, DepotAddress, DepotClient, DepotConfig, GatherTime, Gatherer};
//! use paceline_trust::Credentials;
//!
//! # let (run, task) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! # let (run, folder) = (run.path(), task.path());
//! // The coordinator keeps the files of one other task.
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?.to_string();
//! let credentials = Credentials::with_token(b"the run's secret");
//! let depot = Depot::start(
//!     listener,
//!     DepotConfig {
//!         credentials: credentials.clone(),
//!         checkpoints: CheckpointDir::new(run.join("checkpoints")),
//!         folders: vec![("worker:1".into(), run.join("worker_1"))],
//!         shards: 2,
//!         keep: 2,
//!         note: Box::new(|text| eprintln!("{text}")),
//!     },
//! )?;
//!
//! // The other task sends its log when it ends.
//! std::fs::write(folder.join("log.txt"), "step 1\n")?;
//! let place = DepotAddress { address, keeper: "worker:0".into(), credentials };
//! let client = DepotClient::new(place, Duration::from_secs(10), |_| false);
//! let warn = |text: &str| eprintln!("{text}");
//! drop(Gatherer::start(&client, "worker:1", folder.into(), GatherTime::End, warn)?);
//!
//! let (limit, most) = (Duration::from_secs(10), Duration::from_secs(60));
//! assert!(depot.wait_for_files(limit, most, &mut |_| {}).is_empty());
//! assert_eq!(std::fs::read_to_string(run.join("worker_1/log.txt"))?, "step 1\n");
//! # Ok::<(), std::io::Error>(())
//! ```
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
