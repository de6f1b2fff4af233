//! Where a task listens. Without a token it accepts connections from this machine only.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, ToSocketAddrs};
use std::os::fd::AsFd;

use crate::error::PlaceError;

/// Set by the launcher if a task's standard input is its listening socket. The launcher binds the
/// socket, so that no other process can take the port in between.
pub const LISTENER_VARIABLE: &str = "PACELINE_LISTENER";

/// The listening socket that the launcher gave this process, if it did.
pub fn inherited_listener() -> Result<Option<TcpListener>, PlaceError> {
    if std::env::var_os(LISTENER_VARIABLE).is_none() {
        return Ok(None);
    }
    let socket = io::stdin().as_fd().try_clone_to_owned();
    let socket =
        socket.map_err(PlaceError::while_doing("cannot take over the launcher's socket"))?;
    Ok(Some(TcpListener::from(socket)))
}

/// The listening socket of a task with this address.
///
/// A loopback address is bound as it is. Any other name stands for this machine as others see it:
/// the task then listens on all interfaces, which needs a token.
pub fn listen(address: &str, has_token: bool) -> Result<TcpListener, PlaceError> {
    if let Some(listener) = inherited_listener()? {
        return Ok(listener);
    }
    let cannot = PlaceError::while_doing(format!("cannot listen on {address}"));
    // A name may become known only later; then only its port matters here.
    let found: Vec<_> = address.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    if !found.is_empty() && found.iter().all(|at| at.ip().is_loopback()) {
        return TcpListener::bind(&found[..]).map_err(cannot);
    }
    if !has_token {
        return Err(PlaceError::Usage(format!(
            "this task would listen on {address}, beyond this machine, and accept any connection; \
             name a file with a secret in cluster.token_file, the same for all tasks"
        )));
    }
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let port: u16 = port.ok_or_else(|| PlaceError::Usage(format!("{address} has no port")))?;
    listen_on_all(port).map_err(cannot)
}

/// A listening socket on all interfaces: for IPv6 and IPv4 if the system has both.
pub(crate) fn listen_on_all(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}
