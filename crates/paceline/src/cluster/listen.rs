//! Where a task listens: nobody is let in by default.

use std::io;
use std::net::{IpAddr, TcpListener, ToSocketAddrs};
use std::os::fd::AsFd;

use crate::Failure;

/// Tells a task that its standard input is a socket that listens already. The launcher binds
/// it, so that a port that was free cannot be taken in between.
pub(crate) const VARIABLE: &str = "PACELINE_LISTENER";

/// The socket that this process was given, if it was given one.
pub(crate) fn inherited() -> Result<Option<TcpListener>, Failure> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(None);
    }
    let socket = io::stdin().as_fd().try_clone_to_owned();
    let what = || "cannot take over the launcher's socket".into();
    let socket = socket.map_err(|source| Failure::Files { what: what(), source })?;
    Ok(Some(TcpListener::from(socket)))
}

/// The listening socket of a task with this address.
///
/// A loopback address is listened on as it is. Any other name stands for this machine as
/// others see it, so all interfaces are listened on, and that needs a token.
pub(super) fn listen(address: &str, has_token: bool) -> Result<TcpListener, Failure> {
    if let Some(listener) = inherited()? {
        return Ok(listener);
    }
    let cannot = |source| Failure::Files { what: format!("cannot listen on {address}"), source };
    let found: Vec<_> = match address.to_socket_addrs() {
        Ok(found) => found.collect(),
        // A name may become known only later; what counts here is the port.
        Err(_) => Vec::new(),
    };
    if !found.is_empty() && found.iter().all(|at| at.ip().is_loopback()) {
        return TcpListener::bind(&found[..]).map_err(cannot);
    }
    if !has_token {
        return Err(Failure::Usage(format!(
            "this task would listen on {address}, beyond this machine, and let anybody in; \
             name a file with a secret in cluster.token_file, the same for all tasks"
        )));
    }
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let port: u16 = port.ok_or_else(|| Failure::Usage(format!("{address} has no port")))?;
    TcpListener::bind((IpAddr::from([0, 0, 0, 0]), port)).map_err(cannot)
}
