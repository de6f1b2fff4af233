//! Ciphertext on its way to a stream.

use rustls::unbuffered::InsufficientSizeError;

/// Ciphertext that the stream has not taken. The memory behind it is kept, so that it need not be
/// cleared again for each record.
#[derive(Default)]
pub(super) struct OutgoingBytes {
    memory: Vec<u8>,
    /// What waits is from `at` up to `end`.
    at: usize,
    end: usize,
}

impl OutgoingBytes {
    /// What the stream has not taken.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.memory[self.at..self.end]
    }

    /// The stream has taken this many of the bytes that waited.
    pub(super) fn take(&mut self, taken: usize) {
        self.at += taken;
        debug_assert!(self.at <= self.end);
        if self.at == self.end {
            (self.at, self.end) = (0, 0);
        }
    }

    /// Appends what `write` puts into a slice, which is enlarged once if it is too short.
    pub(super) fn append(
        &mut self,
        likely: usize,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
    ) -> Result<(), rustls::Error> {
        let written = match write(self.room(likely)) {
            Err(Some(InsufficientSizeError { required_size })) => write(self.room(required_size)),
            written => written,
        };
        self.end += written.map_err(|_| rustls::Error::EncryptError)?;
        Ok(())
    }

    /// Memory for this many further bytes.
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let needed = self.end + bytes;
        if self.memory.len() < needed {
            self.memory.resize(needed, 0);
        }
        &mut self.memory[self.end..needed]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_in_which_they_came_and_the_memory_is_used_again() {
        let mut outgoing = OutgoingBytes::default();
        let put = |outgoing: &mut OutgoingBytes, bytes: &[u8]| {
            let written = outgoing.append(3, |room| {
                let Some(place) = room.get_mut(..bytes.len()) else {
                    return Err(Some(InsufficientSizeError { required_size: bytes.len() }));
                };
                place.copy_from_slice(bytes);
                Ok(bytes.len())
            });
            written.unwrap();
        };
        put(&mut outgoing, b"ab");
        put(&mut outgoing, b"cdefg");
        outgoing.take(1);
        assert_eq!(outgoing.waiting(), b"bcdefg");
        outgoing.take(6);
        assert_eq!(outgoing.waiting(), b"");
        put(&mut outgoing, b"h");
        assert_eq!(outgoing.waiting(), b"h");
        assert_eq!(outgoing.memory.len(), 7);
        assert!(outgoing.append(1, |_| Err(None)).is_err());
        assert_eq!(outgoing.waiting(), b"h");
    }
}
