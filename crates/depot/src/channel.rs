//! A connection between a task and the depot: messages in JSON over a [`MessageChannel`], on which
//! both sides have proved that they belong to the run.
//!
//! A message states the length of the body behind it, which travels in messages of its own. Until
//! both sides have proved themselves, every message has a fixed size and must arrive within two
//! seconds.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use paceline_trust::{Credentials, MessageChannel, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long the other side may take for each message of the handshake.
const PROOF_LIMIT: Duration = Duration::from_secs(2);
/// How long a single read or write may take after that.
const IO_LIMIT: Duration = Duration::from_secs(30);
/// The longest message: a list of a task's files, or how far a thousand slots have come.
pub(crate) const MAX_MESSAGE: usize = 64 << 20;
/// Bytes of a body that are in memory at a time.
const BUFFER_BYTES: usize = 256 << 10;
/// The length of a body, before a message.
const BODY_LENGTH: usize = 8;

/// One side of a connection.
pub(crate) struct Channel(MessageChannel<TcpStream>);

/// A message, and the length of the body behind it.
pub(crate) struct Received<M> {
    pub(crate) message: M,
    pub(crate) body: u64,
}

impl Channel {
    /// The depot's side of a new connection. Fails if the other side does not belong to the run.
    pub(crate) fn accept(stream: TcpStream, credentials: &Credentials) -> io::Result<Self> {
        set_limits(&stream, PROOF_LIMIT)?;
        MessageChannel::accept(stream, credentials, Service::Files).and_then(Self::new)
    }

    /// The side of a task. Fails if the other side does not belong to the run, or is not the task
    /// `keeper`.
    pub(crate) fn join(
        stream: TcpStream,
        credentials: &Credentials,
        keeper: &str,
    ) -> io::Result<Self> {
        set_limits(&stream, PROOF_LIMIT)?;
        MessageChannel::dial(stream, credentials, Service::Files, keeper).and_then(Self::new)
    }

    fn new(channel: MessageChannel<TcpStream>) -> io::Result<Self> {
        set_limits(channel.stream(), IO_LIMIT)?;
        Ok(Self(channel))
    }

    /// Whether the other side may be this task: its certificate says so, or none is needed.
    pub(crate) fn may_be(&self, task: &str) -> bool {
        self.0.may_be(task)
    }

    /// Sends a message, and says how long the body is that follows it.
    pub(crate) fn send(&mut self, message: &impl Serialize, body: u64) -> io::Result<()> {
        let text = serde_json::to_vec(message).map_err(io::Error::other)?;
        if BODY_LENGTH + text.len() > MAX_MESSAGE {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the message is too long"));
        }
        self.0.send(&[&body.to_le_bytes(), &text])
    }

    /// Receives a message of at most this length.
    pub(crate) fn receive<M: DeserializeOwned>(&mut self, most: usize) -> io::Result<Received<M>> {
        let invalid = || io::Error::new(ErrorKind::InvalidData, "a message that is too short");
        let message = self.0.receive(most)?.ok_or(ErrorKind::TimedOut)?;
        let (body, text) = message.split_first_chunk::<BODY_LENGTH>().ok_or_else(invalid)?;
        let message = serde_json::from_slice(text)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(Received { message, body: u64::from_le_bytes(*body) })
    }

    /// Sends a body of this length from a file.
    pub(crate) fn send_body(&mut self, from: &mut impl Read, length: u64) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES.min(length as usize)];
        let mut left = length;
        while left > 0 {
            let most = buffer.len().min(left as usize);
            match from.read(&mut buffer[..most]) {
                // The other side waits for the rest, which does not exist: the connection is of
                // no use.
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    self.0.send(&[&buffer[..read]])?;
                    left -= read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives a body of this length.
    pub(crate) fn receive_body(&mut self, to: &mut impl Write, length: u64) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let most = left.min(BUFFER_BYTES as u64);
            let piece = self.0.receive(most as usize)?.ok_or(ErrorKind::TimedOut)?;
            if piece.is_empty() {
                return Err(io::Error::new(ErrorKind::InvalidData, "an empty part of a body"));
            }
            to.write_all(piece)?;
            left -= piece.len() as u64;
        }
        Ok(())
    }
}

fn set_limits(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))
}
