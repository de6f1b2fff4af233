//! Bytes onto a socket: written at once where it takes them, kept and written later where not.

use std::io::{self, IoSlice, Write};

use crate::inbound::would_block;

/// The writing side of one connection.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    /// Bytes that the socket did not take yet, from `at` on.
    waiting: Vec<u8>,
    at: usize,
    sent_bytes: u64,
}

impl Outbound {
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

    /// Writes what is waiting, as far as the socket takes it.
    pub(crate) fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let written = write_some(stream, &self.waiting[self.at..])?;
        self.at += written;
        self.sent_bytes += written as u64;
        if self.at == self.waiting.len() {
            self.waiting.clear();
            self.at = 0;
        }
        Ok(())
    }

    /// Whether everything has been written.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes that wait to be written.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.len() - self.at
    }

    /// Bytes written since the connection was opened.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }
}

/// Writes as far as the stream takes bytes now; returns how far.
fn write_some(stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    write_frame(stream, &[], bytes, 0)
}

/// Writes a head and a body, of which so many bytes are written already, as far as the stream
/// takes them now; returns how far that is.
pub(crate) fn write_frame(
    stream: &mut impl Write,
    head: &[u8],
    body: &[u8],
    mut written: usize,
) -> io::Result<usize> {
    while written < head.len() + body.len() {
        let result = if written < head.len() {
            stream.write_vectored(&[IoSlice::new(&head[written..]), IoSlice::new(body)])
        } else {
            stream.write(&body[written - head.len()..])
        };
        match result {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => written += n,
            Err(error) if would_block(&error) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}
