//! Generations: the beginnings that a run is counted from.
//!
//! A server that starts, for the first time or after it died, cannot know what its predecessor did
//! since the last checkpoint. So it begins a new *generation* of the run: a higher number, and the
//! checkpoint that all tasks continue from. A client states in its `Hello` the newest generation
//! that it knows, and the server answers with its own. A server that hears of a newer generation
//! goes back to that generation's checkpoint, and so does a client. Thus all tasks reach the same
//! checkpoint, whichever of them died and in whatever order they hear of it, without a leader.

/// A beginning of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Rises with every generation; 0 stands for a task that knows of none.
    pub number: u64,
    /// The step of the checkpoint that it begins with; `None` for the beginning of the run.
    pub base: Option<u64>,
}

impl Generation {
    /// The length on the wire.
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.base.unwrap_or(u64::MAX).to_le_bytes());
        bytes
    }

    pub(crate) fn decode(number: [u8; 8], base: [u8; 8]) -> Self {
        let base = Some(u64::from_le_bytes(base)).filter(|&base| base != u64::MAX);
        Self { number: u64::from_le_bytes(number), base }
    }

    pub(crate) fn is_newer_than(self, other: Self) -> bool {
        self.number > other.number
    }
}
