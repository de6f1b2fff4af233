//! Numbers whose memory begins at a cache line.
//!
//! A vector that lies across two cache lines takes two reads. Memory from the system's allocator
//! begins at a multiple of 16 bytes, so without this every second vector of 32 bytes would.

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Numbers in a cache line.
const LINE_NUMBERS: usize = LINE / size_of::<f32>();

/// Numbers in memory that begins at a cache line, for parameters and gradients.
///
/// ```
/// use paceline_kernels::AlignedBuffer;
///
/// let mut params = AlignedBuffer::zeros(7850);
/// params[3] = 1.0;
/// assert_eq!(params.as_ptr() as usize % 64, 0);
/// ```
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    /// The numbers, with up to a line of unused ones before and after them.
    numbers: Vec<f32>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of `len` zeros.
    pub fn zeros(len: usize) -> Self {
        let mut buffer = Self { numbers: vec![0.0; len + LINE_NUMBERS], start: 0, len: 0 };
        buffer.resize(len);
        buffer
    }

    /// Replaces the content with a copy of `numbers`.
    pub fn copy_from(&mut self, numbers: &[f32]) {
        self.resize(numbers.len());
        self.copy_from_slice(numbers);
    }

    /// Makes the buffer at least this long; the content is unspecified afterwards.
    pub fn grow(&mut self, len: usize) {
        if self.len < len {
            self.resize(len);
        }
    }

    /// Changes the length; the content is unspecified afterwards.
    pub fn resize(&mut self, len: usize) {
        self.numbers.resize(len + LINE_NUMBERS, 0.0);
        // `align_offset` may decline to answer; the buffer is then unaligned, which is only slower.
        self.start = self.numbers.as_ptr().align_offset(LINE).min(LINE_NUMBERS);
        self.len = len;
    }
}

impl From<Vec<f32>> for AlignedBuffer {
    fn from(numbers: Vec<f32>) -> Self {
        let mut buffer = Self::zeros(numbers.len());
        buffer.copy_from_slice(&numbers);
        buffer
    }
}

impl Deref for AlignedBuffer {
    type Target = [f32];

    #[inline]
    fn deref(&self) -> &[f32] {
        &self.numbers[self.start..][..self.len]
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.numbers[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_equal_and_begins_at_a_cache_line_whatever_its_length() {
        let mut buffer = AlignedBuffer::default();
        for len in [0, 1, 15, 16, 17, 7850, 3] {
            let numbers: Vec<f32> = (0..len).map(|i| i as f32).collect();
            buffer.copy_from(&numbers);
            assert_eq!(*buffer, *numbers);
            assert_eq!(buffer.as_ptr() as usize % LINE, 0, "{len} numbers");
        }
    }

    #[test]
    fn a_new_buffer_holds_zeros() {
        assert_eq!(*AlignedBuffer::zeros(37), [0.0; 37]);
    }
}
