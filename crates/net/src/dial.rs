//! How a task calls another: by name, for a short while, at every address that the name has.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use mio::{Interest, Registry, Token};

use crate::peer::PeerState;
use crate::prepare;

/// How long to wait before a task that did not answer is called again.
pub(crate) const TRY_EVERY: Duration = Duration::from_millis(50);
/// The same for one that had let us in when the connection broke: it is there.
pub(crate) const TRY_AGAIN: Duration = Duration::from_millis(5);
/// How long one attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection to `host:port` that the poll knows by this token; or what state the other is in.
pub(crate) fn dial(
    address: &str,
    registry: &Registry,
    token: Token,
) -> Result<mio::net::TcpStream, PeerState> {
    let refused = |error: io::Error| PeerState::Refused(error.to_string());
    let stream = reach(address)?;
    prepare(&stream).and_then(|()| stream.set_nonblocking(true)).map_err(refused)?;
    let mut stream = mio::net::TcpStream::from_std(stream);
    let both = Interest::READABLE | Interest::WRITABLE;
    registry.register(&mut stream, token, both).map_err(refused)?;
    Ok(stream)
}

/// A connection to `host:port`; or what state the other is in.
pub(crate) fn reach(address: &str) -> Result<TcpStream, PeerState> {
    let found = address.to_socket_addrs().map_err(|e| PeerState::NoAddress(e.to_string()))?;
    let mut last = PeerState::NoAddress("the name stands for nothing".into());
    for address in found {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = PeerState::Refused(error.to_string()),
        }
    }
    Err(last)
}
