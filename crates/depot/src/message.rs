//! What tasks and the depot say to each other.

use paceline_checkpoint::{DeliveredShard, ServerNumber};
use serde::{Deserialize, Serialize};

/// What a task asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum DepotRequest {
    /// The generation in which a server starts.
    Claim { server: ServerNumber },
    /// A server enters a generation that another has claimed.
    Follow { server: ServerNumber, generation: u64, base: Option<u64> },
    /// The manifest of a step, or of the newest complete checkpoint, as a body.
    Manifest { step: Option<u64> },
    /// A file of a complete checkpoint, as a body.
    Shard { step: u64, file: String },
    /// A shard, whose file is the body.
    Deliver { shard: Box<DeliveredShard> },
    /// The files that the depot has of a task. `probe` is the name of a file that exists in the
    /// task's folder at this moment: if it exists here too, both share a disk.
    List { task: String, probe: String },
    /// The body belongs to a file of a task, from a byte on.
    Append { task: String, file: String, at: u64 },
    /// The task has sent everything.
    Done { task: String },
}

/// What the depot answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum DepotReply {
    /// It is done.
    Done,
    /// The generation.
    Generation { number: u64, base: Option<u64> },
    /// What was asked for is the body.
    Body,
    /// There is no such thing.
    Absent,
    /// The files of a task.
    Files { is_shared: bool, files: Vec<KeptFile> },
    /// It cannot be done; why.
    Refused(String),
}

/// A file that the depot has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) crc32c: u32,
}
