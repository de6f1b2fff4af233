//! A connection over which two tasks exchange messages, on any stream that blocks.
//!
//! It begins with the handshake, so neither side reads a message before the other one has proved
//! that it belongs to the run. Every message is sealed, or encrypted by TLS: one that was changed,
//! repeated, left out or moved ends the connection. A message is its length in 4 bytes, the seals
//! if there is no TLS, and its content.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};

use crate::credentials::Credentials;
use crate::handshake::{
    Accepted, Answered, CHALLENGE_BYTES, Claims, Dialer, FIRST_BYTES, HandshakeAcceptor,
    HandshakeError, PROOF_BYTES, Service, Statement,
};
use crate::seal::{FrameKeys, FrameOpener, FrameSealer, SEAL_BYTES};
use crate::tls::TlsSession;

/// A message's length comes before it.
const LENGTH_BYTES: usize = 4;
/// Memory for a message is set aside in pieces of at least this length, as the message arrives.
const PIECE_BYTES: usize = 256 << 10;
/// The version of the services that use messages.
const VERSION: u16 = 4;

/// One side of a connection that carries messages. What a call cannot finish, such as a message
/// that has arrived in part when the stream's time is over, is continued by the next one.
pub struct MessageChannel<S> {
    stream: S,
    tls: Option<TlsSession>,
    sealer: Option<FrameSealer>,
    opener: Option<FrameOpener>,
    /// The length and the seals of the message that is being received.
    head: Vec<u8>,
    /// The length of its content, and what there is room for now.
    length: usize,
    content: Vec<u8>,
    /// Bytes of both that have arrived.
    received: usize,
}

impl<S: Read + Write> MessageChannel<S> {
    /// The side that opened the connection. `peer` is the task at the other end, such as
    /// `worker:0`, which its certificate must state if connections are encrypted.
    ///
    /// # Errors
    /// `PermissionDenied` if the other side is of another run, `Unsupported` if it has another
    /// version, `InvalidData` if it is no task; after anything else another attempt may succeed.
    pub fn dial(
        stream: S,
        credentials: &Credentials,
        service: Service,
        peer: &str,
    ) -> io::Result<Self> {
        let tls = credentials.tls().map(|identity| identity.dial(peer)).transpose();
        let mut channel = Self::new(stream, tls.map_err(io::Error::other)?);
        let claims = Claims { role: 0, slot: 0, incarnation: 0 };
        let is_sealed = credentials.tls().is_none();
        let statement = Statement { version: VERSION, service, claims, is_sealed };
        let dialer = Dialer::new(credentials, statement).map_err(refused)?;
        channel.write_all(&[dialer.first()])?;
        let mut challenge = [0; CHALLENGE_BYTES];
        let read = channel.read_exact(&mut challenge);
        read.map_err(|error| doubted(credentials, error))?;
        let Answered { proof, keys } = match dialer.answer(&challenge) {
            Err(error) if credentials.is_doubtful(false) => {
                return Err(aborted(&format!("{error} (or it was changed on the way)")));
            }
            answered => answered.map_err(refused)?,
        };
        credentials.is_doubtful(true);
        channel.write_all(&[&proof])?;
        channel.protect(keys.as_ref());
        Ok(channel)
    }

    /// The side that accepted the connection.
    ///
    /// # Errors
    /// `PermissionDenied` if the other side does not prove that it belongs to the run.
    pub fn accept(stream: S, credentials: &Credentials, service: Service) -> io::Result<Self> {
        let tls = credentials.tls().map(|identity| identity.accept()).transpose()?;
        let mut channel = Self::new(stream, tls);
        let mut first = [0; FIRST_BYTES];
        channel.read_exact(&mut first)?;
        let requires_seals = credentials.tls().is_none();
        let challenged =
            HandshakeAcceptor::challenge(credentials, service, VERSION, requires_seals, &first);
        let (acceptor, challenge) = match challenged {
            Ok(challenged) => challenged,
            Err(error) => {
                if let Some(refusal) = error.refusal(VERSION) {
                    // If the dialer is gone, nothing is lost.
                    let _ = channel.write_all(&[&refusal]);
                }
                return Err(refused(error));
            }
        };
        channel.write_all(&[&challenge])?;
        let mut proof = [0; PROOF_BYTES];
        channel.read_exact(&mut proof).map_err(|error| match error.kind() {
            // A dialer that finds this side's proof wrong leaves.
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => other_secret(),
            _ => error,
        })?;
        let Accepted { keys, .. } = acceptor.finish(&proof).map_err(refused)?;
        channel.protect(keys.as_ref());
        Ok(channel)
    }

    fn new(stream: S, tls: Option<TlsSession>) -> Self {
        let (head, content) = (Vec::new(), Vec::new());
        Self { stream, tls, sealer: None, opener: None, head, length: 0, content, received: 0 }
    }

    fn protect(&mut self, keys: Option<&FrameKeys>) {
        (self.sealer, self.opener) = (keys.map(FrameKeys::sealer), keys.map(FrameKeys::opener));
    }

    /// The stream below.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Whether the other end may be this task: its certificate says so, or none is needed.
    pub fn may_be(&self, task: &str) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.is_peer(task))
    }

    /// Sends a message that consists of these pieces.
    ///
    /// # Errors
    /// If the stream fails, or its time is over before it has taken the message.
    pub fn send(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let length = u32::try_from(length)
            .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "the message is too long"))?;
        let length = length.to_le_bytes();
        let seals = self.sealer.as_mut().map(|sealer| sealer.seal(&length, pieces));
        let seals = seals.as_ref().map_or(&[][..], |seals| seals);
        self.write_all(&[&[&length[..], seals], pieces].concat())
    }

    /// Receives a message of at most `most` bytes. Returns `None` if the stream's time is over
    /// before it is complete.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other side has closed, `ConnectionAborted` if the message was
    /// changed on the way, `InvalidData` if it is too long.
    pub fn receive(&mut self, most: usize) -> io::Result<Option<&[u8]>> {
        let head_bytes = LENGTH_BYTES + if self.opener.is_some() { SEAL_BYTES } else { 0 };
        self.head.resize(head_bytes, 0);
        while self.received < head_bytes {
            let mut head = std::mem::take(&mut self.head);
            let read = self.read_some(&mut head[self.received..]);
            self.head = head;
            match read? {
                None => return Ok(None),
                Some(more) => self.received += more,
            }
            if self.received == head_bytes {
                self.begin_content(most)?;
            }
        }
        while self.received < head_bytes + self.length {
            let mut content = std::mem::take(&mut self.content);
            let arrived = self.received - head_bytes;
            if arrived == content.len() {
                content.resize(self.length.min((2 * arrived).max(PIECE_BYTES)), 0);
            }
            let read = self.read_some(&mut content[arrived..]);
            self.content = content;
            match read? {
                None => return Ok(None),
                Some(more) => self.received += more,
            }
        }
        self.received = 0;
        if let Some(opener) = &mut self.opener {
            opener.check_payload(&self.content).map_err(|error| aborted(&error.to_string()))?;
        }
        Ok(Some(&self.content))
    }

    /// Checks the head, which is complete.
    fn begin_content(&mut self, most: usize) -> io::Result<()> {
        let Some((length, seals)) = self.head.split_first_chunk::<LENGTH_BYTES>() else {
            unreachable!("it has that size")
        };
        if let (Some(opener), Some(seals)) = (&mut self.opener, seals.first_chunk()) {
            opener.check_head(length, seals).map_err(|error| aborted(&error.to_string()))?;
        }
        let length = u32::from_le_bytes(*length) as usize;
        if length > most {
            return Err(io::Error::new(ErrorKind::InvalidData, "the message is too long"));
        }
        self.length = length;
        self.content.truncate(length);
        Ok(())
    }

    /// Reads some bytes; `None` if the stream's time is over.
    fn read_some(&mut self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let read = match &mut self.tls {
                None => self.stream.read(bytes),
                Some(tls) => tls.read(&mut self.stream, &mut [IoSliceMut::new(bytes)]),
            };
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(more) => return Ok(Some(more)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Ok(None),
                // Only TLS finds data invalid.
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Err(aborted(&error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut received = 0;
        while received < bytes.len() {
            match self.read_some(&mut bytes[received..])? {
                None => return Err(ErrorKind::TimedOut.into()),
                Some(more) => received += more,
            }
        }
        Ok(())
    }

    fn write_all(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.stream.write_all(&pieces.concat()) };
        for mut piece in pieces.iter().copied() {
            while !piece.is_empty() {
                let taken = tls.write(&mut self.stream, &[IoSlice::new(piece)])?;
                piece = &piece[taken..];
            }
        }
        tls.flush(&mut self.stream)?;
        // What waits for the handshake is sent by a read.
        let is_late = tls.is_open() && tls.unsent_bytes() > 0;
        if is_late { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A connection that another attempt may replace.
fn aborted(why: &str) -> io::Error {
    io::Error::new(ErrorKind::ConnectionAborted, why)
}

fn other_secret() -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, "it has another secret")
}

/// A failed read of the first answer. TLS that fails again and again was not changed on the way.
fn doubted(credentials: &Credentials, error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::ConnectionAborted && !credentials.is_doubtful(false) {
        return io::Error::new(ErrorKind::PermissionDenied, error.to_string());
    }
    error
}

fn refused(error: HandshakeError) -> io::Error {
    let kind = match error {
        HandshakeError::Token => return other_secret(),
        HandshakeError::Random(error) => return error,
        HandshakeError::Seals | HandshakeError::Service => ErrorKind::PermissionDenied,
        HandshakeError::Version { .. } => ErrorKind::Unsupported,
        HandshakeError::Magic => ErrorKind::InvalidData,
    };
    io::Error::new(kind, error.to_string())
}

#[cfg(test)]
mod tests;
