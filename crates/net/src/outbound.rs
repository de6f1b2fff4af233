//! Writes bytes to a socket at once where it takes them, and keeps the rest for later.

use std::io::{self, IoSlice, Write};

use paceline_exchange::{HEADER_BYTES, Header};
use paceline_trust::{FrameSealer, SEAL_BYTES};

use crate::inbound::would_block;

/// A header as it is written, with its seals if frames are sealed.
pub(crate) struct FrameHead {
    bytes: [u8; HEADER_BYTES + SEAL_BYTES],
    len: usize,
}

impl FrameHead {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The writing side of one connection.
#[derive(Default)]
pub(crate) struct Outbound {
    /// Seals frames.
    sealer: Option<FrameSealer>,
    /// Bytes that the socket has not taken yet, from `waiting_at` on.
    waiting: Vec<u8>,
    waiting_at: usize,
    sent_bytes: u64,
}

impl Outbound {
    /// Writes sealed frames if there is a sealer.
    pub(crate) fn new(sealer: Option<FrameSealer>) -> Self {
        Self { sealer, ..Self::default() }
    }

    /// The head of the next frame. Frames must be written in the order of these calls.
    pub(crate) fn head(&mut self, header: &Header, payload: &[&[u8]]) -> FrameHead {
        let mut head = FrameHead { bytes: [0; _], len: HEADER_BYTES };
        let (encoded, seals) = head.bytes.split_at_mut(HEADER_BYTES);
        encoded.copy_from_slice(&header.encode());
        if let Some(sealer) = &mut self.sealer {
            seals.copy_from_slice(&sealer.seal(encoded, payload));
            head.len += SEAL_BYTES;
        }
        head
    }

    /// Writes a frame, and keeps a copy of what the socket does not take now.
    pub(crate) fn send(&mut self, stream: &mut impl Write, frame: &[u8]) -> io::Result<()> {
        let mut written = 0;
        if self.is_empty() {
            written = write_some(stream, frame)?;
            self.sent_bytes += written as u64;
        }
        self.waiting.extend_from_slice(&frame[written..]);
        Ok(())
    }

    /// Moves queued frames behind those that wait already, and seals them, for which each has room
    /// behind its header. The queue is empty afterwards and keeps memory for the next frames.
    pub(crate) fn take(&mut self, queued: &mut Vec<u8>) {
        let before = self.waiting.len();
        if self.is_empty() {
            std::mem::swap(&mut self.waiting, queued);
        } else {
            self.waiting.append(queued);
        }
        if let Some(sealer) = &mut self.sealer {
            seal_frames(sealer, &mut self.waiting[before..]);
        }
    }

    /// Writes waiting bytes, as far as the socket takes them.
    pub(crate) fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let written = write_some(stream, &self.waiting[self.waiting_at..])?;
        self.waiting_at += written;
        self.sent_bytes += written as u64;
        if self.waiting_at == self.waiting.len() {
            self.waiting.clear();
            self.waiting_at = 0;
        }
        Ok(())
    }

    /// Whether everything has been written.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes that wait to be written.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.len() - self.waiting_at
    }

    /// Bytes written since the connection was opened.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }
}

/// Seals whole frames, which lie one behind the other.
fn seal_frames(sealer: &mut FrameSealer, mut frames: &mut [u8]) {
    while let Some((head, rest)) = frames.split_at_mut_checked(HEADER_BYTES) {
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (seals, rest) = rest.split_at_mut(SEAL_BYTES);
        let (payload, rest) = rest.split_at_mut(len);
        seals.copy_from_slice(&sealer.seal(head, &[payload]));
        frames = rest;
    }
}

/// Writes as many bytes as the stream takes now, and returns how many.
fn write_some(stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    write_frame(stream, [bytes, &[], &[]], 0)
}

/// Writes the pieces of a frame from the byte `written` on, as far as the stream takes them now.
/// Returns how many bytes of the frame are written then.
pub(crate) fn write_frame(
    stream: &mut impl Write,
    pieces: [&[u8]; 3],
    mut written: usize,
) -> io::Result<usize> {
    let total: usize = pieces.iter().map(|piece| piece.len()).sum();
    while written < total {
        let mut before = 0;
        let left = pieces.map(|piece| {
            let from = written.saturating_sub(before).min(piece.len());
            before += piece.len();
            IoSlice::new(&piece[from..])
        });
        match stream.write_vectored(&left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => written += n,
            Err(error) if would_block(&error) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes at each call, and sometimes none.
    struct ChoppyWriter(Vec<u8>, usize);

    impl Write for ChoppyWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1.is_multiple_of(3) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let n = bytes.len().min(self.1 % 5 + 1);
            self.0.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_frame_arrives_whole_however_little_the_stream_takes() {
        let bytes: Vec<u8> = (0..60).collect();
        for (first, second) in [(0, 0), (0, 60), (40, 40), (40, 55), (60, 60), (7, 8)] {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            let (mut stream, mut written) = (ChoppyWriter(Vec::new(), 0), 0);
            while written < bytes.len() {
                written = write_frame(&mut stream, pieces, written).unwrap();
            }
            assert_eq!(stream.0, bytes);
        }
    }
}
