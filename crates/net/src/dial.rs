//! Connects to another task: by host name, at every address that the name has.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use mio::{Registry, Token};
use paceline_exchange::ControlFrame;
use paceline_trust::Credentials;

use crate::framed::FramedConnection;
use crate::peer_state::PeerState;
use crate::peer_stream::PeerStream;
use crate::socket::{BOTH_WAYS, set_options};

/// The pause before a second attempt to connect to a task that did not answer.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The same for a task that had admitted this one when the connection broke: it is running.
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_millis(5);
/// How long one attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Connects to `host:port`, registers the connection with a poll, and begins the handshake, after
/// which `hello` is sent. `peer` is the name of the task there. The error is the state
/// that the other task seems to be in.
pub(crate) fn dial<O, T>(
    peer: &str,
    address: &str,
    registry: &Registry,
    token: Token,
    credentials: &Credentials,
    hello: ControlFrame,
) -> Result<FramedConnection<O, T>, PeerState> {
    let refused = |error: io::Error| PeerState::Refused(error.to_string());
    let stream = connect(address)?;
    set_options(&stream).and_then(|()| stream.set_nonblocking(true)).map_err(refused)?;
    let mut stream = mio::net::TcpStream::from_std(stream);
    registry.register(&mut stream, token, BOTH_WAYS).map_err(refused)?;
    let stream = PeerStream::dial(stream, credentials, peer).map_err(refused)?;
    let dialled = FramedConnection::dial(stream, credentials, hello);
    dialled.map_err(|error| PeerState::Refused(error.to_string()))
}

/// Connects to `host:port`, with the options of the system. The error is the state that the other
/// task seems to be in.
pub(crate) fn connect(address: &str) -> Result<TcpStream, PeerState> {
    let found = address.to_socket_addrs().map_err(|e| PeerState::NoAddress(e.to_string()))?;
    let mut last = PeerState::NoAddress("the host name has no address".into());
    for address in found {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = PeerState::Refused(error.to_string()),
        }
    }
    Err(last)
}
