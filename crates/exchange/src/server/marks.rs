//! How far each slot has come on each chunk: what a checkpoint records besides the parameters.

/// How far a slot has come on a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotMark {
    /// The sequence of its last push that is in the parameters, or was dropped; 0 for none.
    pub last_sequence: u64,
    /// The step of that push.
    pub step: u64,
}

/// How far all slots have come on a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkMarks {
    /// Updates applied to the chunk.
    pub version: u64,
    /// One mark per slot.
    pub slots: Vec<SlotMark>,
}

/// The point from which a server resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeState {
    /// The step of the plan at which slots begin that have not pushed yet.
    pub first_step: u64,
    /// One entry per chunk.
    pub chunks: Vec<ChunkMarks>,
    /// If the run had been asked to stop: the number of updates at which it stops. Only server 0
    /// has one.
    pub stop_at: Option<u64>,
}

impl ResumeState {
    /// `version` updates have been made, but no slot has pushed: the checkpoint had other slots
    /// and shards.
    pub fn anew(version: u64, first_step: u64, chunks: usize, workers: usize) -> Self {
        let marks = ChunkMarks { version, slots: vec![SlotMark::default(); workers] };
        Self { first_step, chunks: vec![marks; chunks], stop_at: None }
    }
}
