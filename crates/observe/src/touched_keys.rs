//! How much of a sparse model its batches touch, and how much of it a task holds.

/// What the batches of a sparse model touched, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TouchedKeys {
    /// The keys of each batch, each once; where steps are made in place, as often as they occur.
    pub keys: u64,
    /// Bytes of these keys: as they are sent to each task that needs them, 4 each if they are not
    /// sent.
    pub key_bytes: u64,
    /// The parameters of these keys.
    pub numbers: u64,
}

impl TouchedKeys {
    /// Adds the keys and parameters of a batch.
    #[inline]
    pub fn add(&mut self, keys: usize, numbers: usize) {
        self.keys += keys as u64;
        self.key_bytes += 4 * keys as u64;
        self.numbers += numbers as u64;
    }

    /// Bytes of the parameters of these keys.
    pub fn value_bytes(&self) -> u64 {
        4 * self.numbers
    }
}

/// The part of a sparse model's parameters that a task holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableUse {
    /// Keys that have their numbers in memory; all keys if each has one number.
    pub entries: u64,
    /// Bytes of these numbers, of their optimizer's state and of the index that finds them.
    pub bytes: u64,
}
