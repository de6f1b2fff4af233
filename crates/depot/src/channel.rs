//! A connection between a task and the depot.
//!
//! Each side sends a random number and proves with a keyed hash of both that it knows the run's
//! secret, which is not sent. Only then does either read a message. Until then everything has a
//! fixed size and two seconds' time.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::hmac::{HASH, hmac};

/// Begins every connection, with the version of the protocol.
const GREETING: &[u8; 8] = b"pacedep1";
/// How long the other side may take to prove that it knows the secret.
const PROOF_LIMIT: Duration = Duration::from_secs(2);
/// How long a single read or write may take after that.
const IO_LIMIT: Duration = Duration::from_secs(30);
/// The longest message: a list of a task's files, or how far a thousand slots have come.
const MAX_MESSAGE: u32 = 64 << 20;
/// Bytes of a body that are in memory at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// One side of a connection.
pub(crate) struct Channel {
    stream: TcpStream,
}

/// A message, and the length of the body behind it.
pub(crate) struct Received<M> {
    pub(crate) message: M,
    pub(crate) body: u64,
}

impl Channel {
    /// The depot's side of a new connection. Fails if the other side does not know the secret.
    pub(crate) fn accept(mut stream: TcpStream, secret: &[u8]) -> io::Result<Self> {
        set_limits(&stream, PROOF_LIMIT)?;
        let own = random()?;
        stream.write_all(&[&GREETING[..], &own].concat())?;
        let mut answer = [0; 2 * HASH];
        stream.read_exact(&mut answer)?;
        let (other, proof) = answer.split_at(HASH);
        if !is_equal(proof, &keyed_hash(secret, &[b"asks", &own, other])) {
            return Err(other_secret());
        }
        stream.write_all(&keyed_hash(secret, &[b"keeps", &own, other]))?;
        set_limits(&stream, IO_LIMIT)?;
        Ok(Self { stream })
    }

    /// A task's side of a new connection. Fails if the other side does not know the secret.
    pub(crate) fn join(mut stream: TcpStream, secret: &[u8]) -> io::Result<Self> {
        set_limits(&stream, PROOF_LIMIT)?;
        let mut greeting = [0; GREETING.len() + HASH];
        stream.read_exact(&mut greeting)?;
        let (version, other) = greeting.split_at(GREETING.len());
        if version != GREETING {
            let why = "it keeps no files for this version of Paceline";
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        let own = random()?;
        stream.write_all(&[own, keyed_hash(secret, &[b"asks", other, &own])].concat())?;
        let mut answer = [0; HASH];
        stream.read_exact(&mut answer).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => other_secret(),
            _ => error,
        })?;
        if !is_equal(&answer, &keyed_hash(secret, &[b"keeps", other, &own])) {
            return Err(other_secret());
        }
        set_limits(&stream, IO_LIMIT)?;
        Ok(Self { stream })
    }

    /// Sends a message, and says how long the body is that follows it.
    pub(crate) fn send(&mut self, message: &impl Serialize, body: u64) -> io::Result<()> {
        let text = serde_json::to_vec(message).map_err(io::Error::other)?;
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        if length > MAX_MESSAGE {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the message is too long"));
        }
        let frame = [&length.to_le_bytes()[..], &body.to_le_bytes(), &text].concat();
        self.stream.write_all(&frame)
    }

    /// Receives a message.
    pub(crate) fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Received<M>> {
        let mut head = [0; 12];
        self.stream.read_exact(&mut head)?;
        let (length, body) = head.split_at(4);
        let length = u32::from_le_bytes(length.try_into().map_err(io::Error::other)?);
        let body = u64::from_le_bytes(body.try_into().map_err(io::Error::other)?);
        if length > MAX_MESSAGE {
            return Err(io::Error::new(ErrorKind::InvalidData, "the message is too long"));
        }
        let mut text = Vec::new();
        Read::by_ref(&mut self.stream).take(length.into()).read_to_end(&mut text)?;
        let message = serde_json::from_slice(&text)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(Received { message, body })
    }

    /// Sends a body of this length from a file.
    pub(crate) fn send_body(&mut self, from: &mut impl Read, length: u64) -> io::Result<()> {
        let sent = copy(from, &mut self.stream, length)?;
        // The other side waits for the rest, which does not exist: the connection is of no use.
        if sent < length { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Receives a body of this length.
    pub(crate) fn receive_body(&mut self, to: &mut impl Write, length: u64) -> io::Result<()> {
        let received = copy(&mut self.stream, to, length)?;
        if received < length { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// Copies up to `length` bytes; how many.
fn copy(from: &mut impl Read, to: &mut impl Write, length: u64) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES.min(length as usize)];
    let mut done = 0;
    while done < length {
        let most = buffer.len().min((length - done) as usize);
        match from.read(&mut buffer[..most]) {
            Ok(0) => break,
            Ok(read) => {
                to.write_all(&buffer[..read])?;
                done += read as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn set_limits(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))
}

fn other_secret() -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, "it has another secret")
}

fn random() -> io::Result<[u8; HASH]> {
    let mut bytes = [0; HASH];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A keyed hash of parts, each behind its length.
fn keyed_hash(secret: &[u8], parts: &[&[u8]]) -> [u8; HASH] {
    let lengths = parts.iter().map(|part| (part.len() as u64).to_le_bytes());
    let message: Vec<u8> =
        lengths.zip(parts).flat_map(|(length, part)| [&length[..], part].concat()).collect();
    hmac(secret, &message)
}

/// Compares without a time that depends on the content.
fn is_equal(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
