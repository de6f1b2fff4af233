//! Numbers that begin where a line of the cache begins.
//!
//! A vector that lies across two lines takes two reads. Memory from the system's allocator begins
//! at a multiple of 16 bytes, so that with vectors of 32 every second one would.

use std::ops::Deref;

/// Bytes of a line, and numbers in it.
const LINE: usize = 64;
const NUMBERS: usize = LINE / size_of::<f32>();

/// A copy of some numbers, that begins at a line.
#[derive(Default)]
pub(crate) struct Lines {
    /// The numbers, with some room before and behind them.
    room: Vec<f32>,
    start: usize,
    len: usize,
}

impl Lines {
    /// Takes over other numbers.
    pub(crate) fn copy_from(&mut self, numbers: &[f32]) {
        self.room.resize(numbers.len() + NUMBERS, 0.0);
        // Memory that does not tell its address gets no shift; it is as right there, only slower.
        self.start = self.room.as_ptr().align_offset(LINE).min(NUMBERS);
        self.len = numbers.len();
        self.room[self.start..][..self.len].copy_from_slice(numbers);
    }
}

impl Deref for Lines {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.room[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_equal_and_begins_at_a_line_whatever_its_length() {
        let mut lines = Lines::default();
        for len in [0, 1, 15, 16, 17, 7850, 3] {
            let numbers: Vec<f32> = (0..len).map(|i| i as f32).collect();
            lines.copy_from(&numbers);
            assert_eq!(*lines, *numbers);
            assert_eq!(lines.as_ptr() as usize % LINE, 0, "{len} numbers");
        }
    }
}
