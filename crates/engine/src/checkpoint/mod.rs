//! Checkpoints: what a run keeps so that it can continue as if nothing had happened.
//!
//! A checkpoint is a directory, `step-<step>/` in the directory of checkpoints. It holds a
//! safetensors file per server (one for `single`) with that server's shard of the parameters and
//! of the optimizer's state ([`buffer`]), and a manifest ([`manifest`]) with sizes, checksums and
//! how far each slot had come. The manifest appears last, by rename: without it there is no
//! checkpoint. Parameters are copied between two updates and written by a thread of their own
//! ([`writer`]). [`generation`] counts how often a run with servers was rewound. [`dir`] finds the
//! newest sound checkpoint, [`resume_point`] turns it into the start of a run, whatever its mode
//! and number of tasks, and [`resume`] is the sequence of a run that continues.

pub mod buffer;
pub mod dir;
pub mod generation;
pub mod manifest;
pub mod resume;
pub mod resume_point;
#[cfg(test)]
mod tests;
pub mod writer;

pub use dir::{Checkpoint, CheckpointDir};
pub use generation::{GenerationStart, ServerNumber};
pub use manifest::{CheckpointInfo, Manifest, PlanOrigin};
pub use resume::{ResumeRequest, ResumedModel};
pub use resume_point::{DenseShard, ResumePoint};
pub use writer::{CheckpointSpec, CheckpointWriter, PlanPosition, ReportCheckpoint, ShardPlace};
pub(crate) use writer::{copy_dense, copy_server, copy_table};
