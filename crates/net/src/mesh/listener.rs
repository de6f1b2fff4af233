//! Accepts connections from other workers, and keeps them until they have said which one they are.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::time::{Duration, Instant};

use mio::{Interest, Poll, Token};
use paceline_trust::{Credentials, surplus_connection};

use super::connection::MeshConnection;
use crate::framed::FramedConnection;
use crate::peer_stream::PeerStream;
use crate::socket::{BOTH_WAYS, set_options};

/// The token of the listener and of unidentified connections: their events only end a poll.
const UNIDENTIFIED: Token = Token(usize::MAX - 1);
/// The most unidentified connections at a time. A further one replaces the one that has waited
/// longest among those of the most frequent address: a worker says `Hello` at once.
const MAX_UNIDENTIFIED: usize = 256;
/// The most connections that are accepted before the accepted ones are read.
const ACCEPT_AT_ONCE: usize = 64;
/// How long a connection may stay unidentified.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Accepts connections from other workers.
pub(super) struct PeerListener {
    listener: mio::net::TcpListener,
    pub(super) unidentified: Vec<UnidentifiedPeer>,
}

/// A connection whose worker has not said which one it is.
pub(super) struct UnidentifiedPeer {
    pub(super) connection: MeshConnection,
    address: IpAddr,
    accepted: Instant,
}

impl UnidentifiedPeer {
    /// Whether it may stay unidentified any longer.
    pub(super) fn has_time(&self) -> bool {
        self.accepted.elapsed() < HELLO_TIMEOUT
    }
}

impl PeerListener {
    pub(super) fn new(listener: TcpListener, poll: &Poll) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let mut listener = mio::net::TcpListener::from_std(listener);
        poll.registry().register(&mut listener, UNIDENTIFIED, Interest::READABLE)?;
        Ok(Self { listener, unidentified: Vec::new() })
    }

    /// Accepts the connections that are waiting.
    pub(super) fn accept(&mut self, poll: &Poll, credentials: &Credentials) {
        for _ in 0..ACCEPT_AT_ONCE {
            // A connection that failed before it was accepted needs no answer.
            let Ok((mut stream, peer)) = self.listener.accept() else { break };
            let is_ready = set_options(&stream).is_ok()
                && poll.registry().register(&mut stream, UNIDENTIFIED, BOTH_WAYS).is_ok();
            let Some(stream) =
                PeerStream::accept(stream, peer, credentials).ok().filter(|_| is_ready)
            else {
                continue;
            };
            if self.unidentified.len() >= MAX_UNIDENTIFIED {
                self.make_room();
            }
            let connection = FramedConnection::accept(stream, credentials);
            let connection = MeshConnection::new(connection);
            let (address, accepted) = (peer.ip().to_canonical(), Instant::now());
            self.unidentified.push(UnidentifiedPeer { connection, address, accepted });
        }
    }

    /// Closes the connection that has waited longest among those of the most frequent address.
    fn make_room(&mut self) {
        let addresses = self.unidentified.iter().map(|peer| peer.address);
        if let Some(at) = surplus_connection(addresses.zip(0..)) {
            self.unidentified.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use socket2::{Domain, Socket, Type};

    use super::*;

    #[test]
    fn a_flood_from_one_address_closes_no_connection_of_another() {
        let poll = Poll::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut listener = PeerListener::new(listener, &poll).unwrap();
        let credentials = Credentials::with_token(b"the secret of the run");
        let mut connect = |last: u8| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            let from = SocketAddr::from(([127, 0, 0, last], 0));
            socket.bind(&from.into()).unwrap();
            socket.connect(&address.into()).unwrap();
            listener.accept(&poll, &credentials);
            socket
        };
        let _worker = connect(1);
        let _flood: Vec<_> = (0..MAX_UNIDENTIFIED + 20).map(|_| connect(2)).collect();
        assert_eq!(listener.unidentified.len(), MAX_UNIDENTIFIED);
        assert_eq!(listener.unidentified[0].address, IpAddr::from(Ipv4Addr::LOCALHOST));
    }
}
