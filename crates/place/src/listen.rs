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

/// Binds the listening socket of a task with this address.
///
/// The named address is bound and no other, so that the task is not reachable over interfaces that
/// the cluster does not use. Some names are not of this machine as it sees itself: those of
/// services of Kubernetes, of a gateway that translates addresses, or names that become known only
/// later. The task then listens on all interfaces, and `note` says so. Beyond loopback a token is
/// required.
///
/// # Errors
/// If the address is beyond loopback without a token, has no port, or cannot be bound.
pub fn bind_named(
    address: &str,
    has_token: bool,
    note: &mut dyn FnMut(&str),
) -> Result<TcpListener, PlaceError> {
    let cannot = |error| cannot_listen(address, error);
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
    // Peers resolve the same name, and try all of its addresses.
    let outer: Vec<_> = found.into_iter().filter(|at| !at.ip().is_loopback()).collect();
    match TcpListener::bind(&outer[..]) {
        Ok(listener) => Ok(listener),
        Err(error) if outer.is_empty() || error.kind() == io::ErrorKind::AddrNotAvailable => {
            note(&format!(
                "{address} is not an address of this machine's own interfaces, so this task \
                 listens on all of them"
            ));
            listen_on_all(port).map_err(cannot)
        }
        Err(error) => Err(cannot(error)),
    }
}

/// Says why an address cannot be bound, and what to do if another program has it.
fn cannot_listen(address: &str, error: io::Error) -> PlaceError {
    let source = match error.kind() {
        kind @ io::ErrorKind::AddrInUse => io::Error::new(
            kind,
            "another program or an earlier run has this port; end it, or give this task another \
             port",
        ),
        _ => error,
    };
    PlaceError::while_doing(format!("cannot listen on {address}"))(source)
}

/// A listening socket on all interfaces: for IPv6 and IPv4 if the system has both.
pub(crate) fn listen_on_all(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, UdpSocket};

    use super::*;

    fn bound(address: &str) -> (IpAddr, usize) {
        let mut notes = 0;
        let listener = bind_named(address, true, &mut |_| notes += 1).unwrap();
        (listener.local_addr().unwrap().ip(), notes)
    }

    #[test]
    fn the_named_address_is_bound_and_others_only_if_it_is_not_of_this_machine() {
        assert_eq!(bound("127.0.0.1:0"), (Ipv4Addr::LOCALHOST.into(), 0));
        // Connecting a datagram socket sends nothing; it finds this machine's own address.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert_eq!(bound(&format!("{own}:0")), (own, 0));
        }
        for elsewhere in ["192.0.2.1:0", "no-such-name.invalid:0"] {
            let (ip, notes) = bound(elsewhere);
            assert!(ip.is_unspecified() && notes == 1, "{elsewhere}: {ip}, {notes} notes");
        }
    }
}
