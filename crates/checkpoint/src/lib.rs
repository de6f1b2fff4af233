//! Checkpoints: what a run keeps so that it can continue as if nothing had happened.
//!
//! A checkpoint is a directory, `step-<step>/` in the directory of checkpoints. It holds a
//! safetensors file per server (one for `single`) with that server's shard of the parameters and
//! of the optimizer's state (`buffer.rs`), and a manifest ([`manifest`]) with sizes, checksums and
//! how far each slot had come. The manifest appears last, by rename: without it there is no
//! checkpoint. Parameters are copied between two updates and written by a thread of their own
//! ([`CheckpointWriter`]). `generation.rs` counts how often a run with servers was rewound.
//! [`CheckpointDir`] finds the newest sound checkpoint, a [`ResumePoint`] turns it into the start
//! of a run, whatever its mode and number of tasks, and a [`ResumeRequest`] says how a run
//! continues. A [`StartModel`] is a trained model whose parameters another run begins with.
//!
//! ```
//! use paceline_checkpoint::CheckpointDir;
//!
//! let dir = CheckpointDir::new("runs/mine/checkpoints");
//! match dir.newest(&mut |skipped| eprintln!("{skipped}")) {
//!     Ok(checkpoint) => println!("continues from step {}", checkpoint.manifest.global_step()),
//!     Err(error) => println!("{error}"),
//! }
//! ```

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod buffer;
mod copy;
mod dir;
mod error;
mod generation;
mod layout_digest;
pub mod manifest;
mod remote;
mod resume;
mod resume_point;
mod separate_dir;
mod server_number;
mod start_model;
mod step_layout;
mod test_log;
#[cfg(test)]
mod tests;
mod writer;

pub use copy::{copy_dense, copy_server};
pub use dir::{Checkpoint, CheckpointDir};
pub use error::CheckpointError;
pub use generation::GenerationStart;
pub use layout_digest::{layout_digest, pieces_digest};
pub use manifest::{CheckpointInfo, Manifest, PlanOrigin, is_plain_name};
pub use remote::{DeliveredShard, RemoteCheckpoints};
pub use resume::{PlannedEnd, ResumeRequest, ResumedModel};
pub use resume_point::{DenseShard, ResumePoint};
pub use server_number::ServerNumber;
pub use start_model::{FeatureMove, StartModel, StartTensor};
pub use step_layout::StepLayout;
pub use test_log::{LoggedTest, TestLog};
pub use writer::{CheckpointSpec, CheckpointWait, CheckpointWriter, ReportCheckpoint};
