//! Connections to a listener, on which both sides have proved that they know the secret.
//!
//! Listeners look for connections some times a second. So several are made at once.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use paceline_trust::{Credentials, MessageChannel, Service};

/// Connections that are made at once.
const AT_ONCE: usize = 100;
/// How long one side waits for the other. A target that waits longer has failed.
const LIMIT: Duration = Duration::from_secs(15);

pub(crate) const SECRET: &str = "the secret of the run";

pub(crate) type Peer = MessageChannel<TcpStream>;

pub(crate) fn credentials() -> Credentials {
    Credentials::with_token(SECRET.as_bytes())
}

/// Connections to one listener.
pub(crate) struct PeerPool {
    address: SocketAddr,
    service: Service,
    ready: VecDeque<Peer>,
}

impl PeerPool {
    pub(crate) fn new(address: SocketAddr, service: Service) -> Self {
        Self { address, service, ready: VecDeque::new() }
    }

    /// A connection on which nothing was sent.
    pub(crate) fn take(&mut self) -> io::Result<Peer> {
        if self.ready.is_empty() {
            let streams: Vec<_> = (0..AT_ONCE).map(|_| TcpStream::connect(self.address)).collect();
            let dialled = streams.into_iter().map(|stream| dial(stream?, self.service));
            // On a busy machine the last ones wait longer than the listener does for its strangers.
            let mut last = None;
            self.ready.extend(dialled.filter_map(|peer| peer.map_err(|e| last = Some(e)).ok()));
            if let (true, Some(error)) = (self.ready.is_empty(), last) {
                return Err(error);
            }
        }
        self.ready.pop_front().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

fn dial(stream: TcpStream, service: Service) -> io::Result<Peer> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    MessageChannel::dial(stream, &credentials(), service, "worker:0")
}

/// Lets the other side read what was sent and then the end of the stream, and waits until it has
/// closed the connection.
pub(crate) fn finish(mut peer: Peer, most_bytes: usize) {
    let _ = peer.stream().shutdown(Shutdown::Write);
    loop {
        match peer.receive(most_bytes) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the other side neither answers nor closes the connection"),
            Err(_) => return,
        }
    }
}

/// What is done about a message.
pub(crate) enum PeerReply {
    Send(Vec<u8>),
    /// More is to come.
    Wait,
    Close,
}

/// Accepts this many connections, one after the other, and does with each message what `answer`
/// says. Ends at the first connection that does not prove that it knows the secret.
pub(crate) fn answer_peers(
    listener: &TcpListener,
    service: Service,
    connections: usize,
    mut answer: impl FnMut(&[u8]) -> PeerReply,
) {
    for _ in 0..connections {
        let Ok((stream, _)) = listener.accept() else { return };
        let _ = stream.set_read_timeout(Some(LIMIT));
        let Ok(mut peer) = MessageChannel::accept(stream, &credentials(), service) else {
            return;
        };
        while let Ok(Some(message)) = peer.receive(1 << 24) {
            let sent = match answer(message) {
                PeerReply::Send(reply) => peer.send(&[&reply]),
                PeerReply::Wait => Ok(()),
                PeerReply::Close => break,
            };
            if sent.is_err() {
                break;
            }
        }
    }
}
