//! The memory that a read of a TLS connection fills.

use std::io::IoSliceMut;

/// The slices that a read fills, one after the other.
pub(super) struct ReadSlices<'a, 'b> {
    slices: &'a mut [IoSliceMut<'b>],
    slice: usize,
    at: usize,
    filled: usize,
}

impl<'a, 'b> ReadSlices<'a, 'b> {
    pub(super) fn new(slices: &'a mut [IoSliceMut<'b>]) -> Self {
        Self { slices, slice: 0, at: 0, filled: 0 }
    }

    /// Bytes that have been filled.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    pub(super) fn is_full(&mut self) -> bool {
        self.put(&[]);
        self.slice == self.slices.len()
    }

    /// Copies bytes to where they belong. Returns those for which there is no room.
    pub(super) fn put<'p>(&mut self, mut bytes: &'p [u8]) -> &'p [u8] {
        while let Some(slice) = self.slices.get_mut(self.slice) {
            let room = &mut slice[self.at..];
            let len = room.len().min(bytes.len());
            room[..len].copy_from_slice(&bytes[..len]);
            self.filled += len;
            self.at += len;
            bytes = &bytes[len..];
            if self.at < slice.len() {
                break;
            }
            (self.slice, self.at) = (self.slice + 1, 0);
        }
        bytes
    }
}
