//! An authenticated connection between the process that holds a meeting and one that joins it.
//!
//! Both sides prove that they know the run's secret, without sending it: each sends a random number
//! and answers with a keyed hash of both. Only then does either side read a message. Every message
//! carries a keyed hash of its direction, its number and its content, so none can be changed,
//! repeated or left out unnoticed. Messages are not encrypted.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::keyed_hash::{HASH, hmac};

/// Begins every meeting, with the version of its protocol as the last byte.
const GREETING: &[u8; 8] = b"pacemet1";
/// How long the other side may take to prove that it knows the secret.
const PROOF_LIMIT: Duration = Duration::from_secs(2);
/// How long a message may take to be sent.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// How long a read waits before the caller may stop it.
const READ_SLICE: Duration = Duration::from_millis(50);
/// The longest message: the table of the largest run, with room to spare.
const MAX_MESSAGE: usize = 1 << 20;
/// A message's length and keyed hash.
const HEADER: usize = 4 + HASH;

/// One side of a meeting's connection.
pub(super) struct MeetingChannel {
    stream: TcpStream,
    key: [u8; HASH],
    is_holder: bool,
    sent: u64,
    received: u64,
    unread: Vec<u8>,
}

impl MeetingChannel {
    /// The holder's side of a new connection. Fails if the other side does not know the secret.
    pub(super) fn accept(mut stream: TcpStream, secret: &[u8]) -> io::Result<Self> {
        prepare(&stream)?;
        let own = random()?;
        stream.write_all(&[&GREETING[..], &own].concat())?;
        let mut answer = [0; 2 * HASH];
        stream.read_exact(&mut answer)?;
        let (other, proof) = answer.split_at(HASH);
        if !equal(proof, &keyed_hash(secret, &[b"joins", &own, other])) {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "it has another secret"));
        }
        stream.write_all(&keyed_hash(secret, &[b"holds", &own, other]))?;
        Ok(Self::new(stream, keyed_hash(secret, &[b"key", &own, other]), true))
    }

    /// The joining side of a new connection. Fails if the other side does not know the secret.
    pub(super) fn join(mut stream: TcpStream, secret: &[u8]) -> io::Result<Self> {
        prepare(&stream)?;
        let mut greeting = [0; GREETING.len() + HASH];
        stream.read_exact(&mut greeting)?;
        let (version, other) = greeting.split_at(GREETING.len());
        let (name, number) = version.split_at(GREETING.len() - 1);
        if name != &GREETING[..GREETING.len() - 1] {
            let why = "it holds no meeting of Paceline";
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        if version != GREETING {
            let [own, other] = [&GREETING[GREETING.len() - 1..], number].map(<[u8]>::escape_ascii);
            let why = format!("their meetings have versions {own} and {other}");
            return Err(io::Error::new(ErrorKind::Unsupported, why));
        }
        let own = random()?;
        let proof = keyed_hash(secret, &[b"joins", other, &own]);
        stream.write_all(&[own, proof].concat())?;
        let mut answer = [0; HASH];
        stream.read_exact(&mut answer).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                io::Error::new(ErrorKind::PermissionDenied, "it has another secret")
            }
            _ => error,
        })?;
        if !equal(&answer, &keyed_hash(secret, &[b"holds", other, &own])) {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "it has another secret"));
        }
        Ok(Self::new(stream, keyed_hash(secret, &[b"key", other, &own]), false))
    }

    fn new(stream: TcpStream, key: [u8; HASH], is_holder: bool) -> Self {
        Self { stream, key, is_holder, sent: 0, received: 0, unread: Vec::new() }
    }

    /// Sends a message.
    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let content = serde_json::to_vec(message).map_err(io::Error::other)?;
        if content.len() > MAX_MESSAGE {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the message is too long"));
        }
        let hash = self.message_hash(self.is_holder, self.sent, &content);
        self.sent += 1;
        let length = (content.len() as u32).to_le_bytes();
        self.stream.write_all(&[&length[..], &hash, &content].concat())
    }

    /// Receives a message. Returns `None` if none is complete by the deadline, or as soon as
    /// `stops` says so.
    pub(super) fn receive<M: DeserializeOwned>(
        &mut self,
        deadline: Instant,
        stops: &dyn Fn() -> bool,
    ) -> io::Result<Option<M>> {
        self.stream.set_read_timeout(Some(READ_SLICE))?;
        let mut bytes = [0; 16 << 10];
        loop {
            if let Some(content) = self.take_message()? {
                return serde_json::from_slice(&content).map(Some).map_err(io::Error::other);
            }
            if Instant::now() >= deadline || stops() {
                return Ok(None);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.unread.extend(&bytes[..len]),
                Err(error) if is_timeout(&error) || error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The first unread message, once it is complete.
    fn take_message(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((length, _)) = self.unread.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_MESSAGE {
            return Err(io::Error::new(ErrorKind::InvalidData, "the message is too long"));
        }
        if self.unread.len() < HEADER + length {
            return Ok(None);
        }
        let message: Vec<u8> = self.unread.drain(..HEADER + length).collect();
        let content = &message[HEADER..];
        let hash = self.message_hash(!self.is_holder, self.received, content);
        self.received += 1;
        if !equal(&message[4..HEADER], &hash) {
            return Err(io::Error::new(ErrorKind::InvalidData, "the message was changed"));
        }
        Ok(Some(content.to_vec()))
    }

    fn message_hash(&self, from_holder: bool, number: u64, content: &[u8]) -> [u8; HASH] {
        keyed_hash(&self.key, &[&[u8::from(from_holder)], &number.to_le_bytes(), content])
    }

    /// Whether the other side has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        let mut byte = [0];
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut byte));
        let is_open = match peeked {
            Ok(len) => len > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        !is_open || self.stream.set_nonblocking(false).is_err()
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PROOF_LIMIT))?;
    stream.set_write_timeout(Some(SEND_LIMIT))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn random() -> io::Result<[u8; HASH]> {
    let mut bytes = [0; HASH];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// HMAC-SHA-256 of the parts, each with its length before it.
fn keyed_hash(key: &[u8], parts: &[&[u8]]) -> [u8; HASH] {
    let mut message = Vec::new();
    for part in parts {
        message.extend((part.len() as u64).to_le_bytes());
        message.extend(*part);
    }
    hmac(key, &message)
}

/// Compares two hashes in a time that does not depend on where they differ.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Both sides of a connection whose sides have these secrets.
    fn connect(holder: &[u8], joiner: &[u8]) -> [io::Result<MeetingChannel>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::scope(|scope| {
            let held = scope.spawn(|| MeetingChannel::accept(listener.accept().unwrap().0, holder));
            let joined = MeetingChannel::join(TcpStream::connect(address).unwrap(), joiner);
            [held.join().unwrap(), joined]
        })
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[test]
    fn messages_travel_both_ways_in_order() {
        let [held, joined] = connect(b"secret", b"secret").map(Result::unwrap);
        let (mut held, mut joined) = (held, joined);
        (0..3).for_each(|number| held.send(&number).unwrap());
        joined.send(&"x".repeat(100_000)).unwrap();
        for number in 0..3 {
            assert_eq!(joined.receive(soon(), &|| false).unwrap(), Some(number));
        }
        let text: Option<String> = held.receive(soon(), &|| false).unwrap();
        assert_eq!(text.unwrap().len(), 100_000);
        let nothing: Option<u32> = joined.receive(soon(), &|| true).unwrap();
        assert_eq!(nothing, None);
        drop(held);
        assert!(joined.is_closed());
    }

    #[test]
    fn sides_with_different_secrets_do_not_talk() {
        let errors = connect(b"one", b"other").map(|side| side.err().unwrap().kind());
        assert_eq!(errors, [ErrorKind::PermissionDenied; 2]);
    }

    #[test]
    fn a_changed_message_is_noticed() {
        let [held, joined] = connect(b"secret", b"secret").map(Result::unwrap);
        let (mut held, mut joined) = (held, joined);
        held.key[0] ^= 1;
        held.send(&5).unwrap();
        let read: io::Result<Option<u32>> = joined.receive(soon(), &|| false);
        assert_eq!(read.unwrap_err().kind(), ErrorKind::InvalidData);
        joined.stream.write_all(&[0xff; 40]).unwrap();
        let read: io::Result<Option<u32>> = held.receive(soon(), &|| false);
        assert!(read.unwrap_err().to_string().contains("too long"));
    }
}
