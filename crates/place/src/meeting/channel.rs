//! A connection between the process that holds a meeting and one that joins it: messages in JSON
//! over a [`MessageChannel`], on which both sides have proved that they belong to the run.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use paceline_trust::{Credentials, MessageChannel, Service, TlsIdentity};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long the other side may take for each message of the handshake.
const PROOF_LIMIT: Duration = Duration::from_secs(2);
/// How long a message may take to be sent.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// How long a read waits before the caller may stop it.
const READ_SLICE: Duration = Duration::from_millis(50);
/// The longest message: the table of the largest run, with room to spare.
const MAX_MESSAGE: usize = 1 << 20;
/// The task whose certificate the holder of a meeting has.
const HOLDER: &str = "worker:0";

/// One side of a meeting's connection.
pub(super) struct MeetingChannel(MessageChannel<TcpStream>);

impl MeetingChannel {
    /// The holder's side of a new connection. Fails if the other side does not belong to the run.
    pub(super) fn accept(stream: TcpStream, credentials: &Credentials) -> io::Result<Self> {
        prepare(&stream)?;
        MessageChannel::accept(stream, credentials, Service::Meeting).and_then(Self::new)
    }

    /// The joining side of a new connection. Fails if the other side does not belong to the run.
    pub(super) fn join(stream: TcpStream, credentials: &Credentials) -> io::Result<Self> {
        prepare(&stream)?;
        MessageChannel::dial(stream, credentials, Service::Meeting, HOLDER).and_then(Self::new)
    }

    fn new(channel: MessageChannel<TcpStream>) -> io::Result<Self> {
        channel.stream().set_read_timeout(Some(READ_SLICE))?;
        Ok(Self(channel))
    }

    /// Whether the other side may be this task: its certificate says so, or none is needed.
    pub(super) fn may_be(&self, task: &str) -> bool {
        self.0.may_be(task)
    }

    /// Sends a message.
    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let content = serde_json::to_vec(message).map_err(io::Error::other)?;
        if content.len() > MAX_MESSAGE {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the message is too long"));
        }
        self.0.send(&[&content])
    }

    /// Receives a message. Returns `None` if none is complete by the deadline, or as soon as
    /// `stops` says so.
    pub(super) fn receive<M: DeserializeOwned>(
        &mut self,
        deadline: Instant,
        stops: &dyn Fn() -> bool,
    ) -> io::Result<Option<M>> {
        loop {
            if let Some(content) = self.0.receive(MAX_MESSAGE)? {
                return serde_json::from_slice(content).map(Some).map_err(io::Error::other);
            }
            if Instant::now() >= deadline || stops() {
                return Ok(None);
            }
        }
    }

    /// Whether the other side has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        let (stream, mut byte) = (self.0.stream(), [0]);
        let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut byte));
        let is_open = match peeked {
            Ok(len) => len > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        !is_open || stream.set_nonblocking(false).is_err()
    }
}

/// What processes show at a meeting with this secret.
pub(super) fn meeting_credentials(secret: &str, tls: Option<&TlsIdentity>) -> Credentials {
    let credentials = Credentials::with_token(secret.as_bytes());
    match tls {
        None => credentials,
        Some(identity) => credentials.with_tls(identity.clone()),
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PROOF_LIMIT))?;
    stream.set_write_timeout(Some(SEND_LIMIT))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn messages_travel_both_ways_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let credentials = &Credentials::with_token(b"secret");
        let (mut held, mut joined) = thread::scope(|scope| {
            let accept = || MeetingChannel::accept(listener.accept().unwrap().0, credentials);
            let held = scope.spawn(accept);
            let joined = MeetingChannel::join(TcpStream::connect(address).unwrap(), credentials);
            (held.join().unwrap().unwrap(), joined.unwrap())
        });
        let soon = || Instant::now() + Duration::from_secs(5);
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
}
