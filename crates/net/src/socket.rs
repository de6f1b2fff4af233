//! Options of a socket, and polls.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use mio::{Events, Interest, Poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{SockRef, TcpKeepalive};

/// A connection wakes its poll when it can be read and when it can be written.
pub(crate) const BOTH_WAYS: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Sets the options of a connection: small frames leave at once, and a peer whose machine is gone
/// is noticed within half a minute. A process that is merely stopped is not gone: its kernel still
/// answers.
pub(crate) fn set_options(stream: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(4);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(Duration::from_secs(30)))
}

/// Raises the number of files that the process may open as far as the system allows, and returns
/// it.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, ..limit };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    // No limit at all.
    limit.current.unwrap_or(u64::MAX)
}

/// Polls once. A poll that a signal interrupts returns no events.
pub(crate) fn poll_once(poll: &mut Poll, events: &mut Events, timeout: Duration) -> io::Result<()> {
    match poll.poll(events, Some(timeout)) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        result => result,
    }
}
