//! Checkpoints that another task keeps, for tasks that do not share its disk.
//!
//! `separate_dir.rs` is what both sides do with them.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use paceline_exchange::Generation;

use crate::error::CheckpointError;
use crate::manifest::{ShardPiece, is_plain_name};
use crate::server_number::ServerNumber;

/// The checkpoints of a run, where another task keeps them.
pub trait RemoteCheckpoints: Debug + Send + Sync {
    /// The generation in which a server starts.
    fn claim(&self, server: ServerNumber) -> Result<Generation, CheckpointError>;

    /// A server enters a generation that another server has claimed.
    fn follow(&self, server: ServerNumber, to: Generation) -> Result<(), CheckpointError>;

    /// The manifest of the checkpoint of a step, or of the newest complete one, as its file has
    /// it; `None` if there is none.
    fn manifest(&self, step: Option<u64>) -> Result<Option<Vec<u8>>, CheckpointError>;

    /// Writes a file of the checkpoint of a step to a path.
    fn fetch(&self, step: u64, file: &str, to: &Path) -> io::Result<()>;

    /// Delivers a shard, whose file is at a path.
    fn deliver(&self, shard: &DeliveredShard, file: &Path) -> io::Result<()>;
}

/// A shard on its way to the task that keeps the checkpoints.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct DeliveredShard {
    /// The shard's number.
    pub index: usize,
    /// The shard's file name, without its extension.
    pub name: String,
    pub(crate) piece: ShardPiece,
}

impl DeliveredShard {
    /// The step of its checkpoint.
    pub fn step(&self) -> u64 {
        self.piece.info.step
    }

    /// How many shards its checkpoint has.
    pub fn shard_count(&self) -> usize {
        self.piece.info.shard_count
    }

    /// The length of its file.
    pub fn bytes(&self) -> u64 {
        self.piece.shard.bytes
    }

    /// Checks what a task that is not trusted to be correct has sent.
    pub(crate) fn check(&self) -> Result<(), String> {
        let ShardPiece { info, shard } = &self.piece;
        if self.index >= info.shard_count || !is_plain_name(&self.name) {
            return Err(format!("shard {} of {} is none", self.index, info.shard_count));
        }
        if shard.from > shard.to {
            return Err("the shard is none".into());
        }
        Ok(())
    }
}

/// Where a task gets checkpoints from, and which parameters it needs of them.
#[derive(Clone, Debug)]
pub(crate) struct RemoteSource {
    pub(crate) checkpoints: Arc<dyn RemoteCheckpoints>,
    pub(crate) needed: Range<usize>,
}
