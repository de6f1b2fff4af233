//! Which of its beginnings a run is counted from.
//!
//! A server that starts, for the first time or after it died, cannot know what its predecessor
//! had done since the last checkpoint. So it begins a new *generation* of the run: a higher number,
//! and the checkpoint that everybody goes on from. Whoever says `Hello` tells the newest generation
//! that it knows of, and is told the server's. A server that hears of a newer one goes back to that
//! one's checkpoint, and a client begins anew. So everybody ends up at the same checkpoint, whoever
//! died, in whatever order they hear of it, and nobody needs to lead.

/// A beginning of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Later ones have higher numbers; 0 is that of who knows of none.
    pub number: u64,
    /// The step of the checkpoint that it begins with; none for the run's own beginning.
    pub base: Option<u64>,
}

impl Generation {
    /// How long it is on the wire.
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

    /// Whether this one came after the other.
    pub(crate) fn is_newer_than(self, other: Self) -> bool {
        self.number > other.number
    }
}
