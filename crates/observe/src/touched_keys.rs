//! How much of a sparse model its batches touch.

/// What the batches of a sparse model touched, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TouchedKeys {
    /// The keys of each batch, each once; where steps are made in place, as often as they occur.
    pub keys: u64,
    /// The parameters of these keys.
    pub numbers: u64,
}

impl TouchedKeys {
    /// Adds the keys and parameters of a batch.
    #[inline]
    pub fn add(&mut self, keys: usize, numbers: usize) {
        self.keys += keys as u64;
        self.numbers += numbers as u64;
    }
}
