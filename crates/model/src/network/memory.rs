//! Memory that begins where a line of the cache does, so that vectors do not lie across two.

use std::ops::{Deref, DerefMut};

/// Numbers in a line of the cache.
const LINE: usize = 16;

/// A slice of zeros to begin with. It never grows, so it stays where it is.
pub(super) struct Memory {
    values: Vec<f32>,
    start: usize,
    len: usize,
}

impl Memory {
    /// Room for so many numbers.
    pub(super) fn new(len: usize) -> Self {
        let values = vec![0.0; len + LINE];
        let start = values.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        Self { values, start, len }
    }
}

impl Deref for Memory {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[self.start..][..self.len]
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.start..][..self.len]
    }
}
