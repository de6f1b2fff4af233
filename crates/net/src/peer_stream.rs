//! The stream of bytes between two tasks: a socket, or TLS over one.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mio::net::TcpStream;
use paceline_trust::{Credentials, TlsSession};

/// The stream of bytes between two tasks. Several threads may use it at once.
pub(crate) struct PeerStream {
    socket: TcpStream,
    peer: SocketAddr,
    tls: Option<Mutex<TlsSession>>,
}

impl PeerStream {
    /// The stream of a socket that this task has connected to the task `peer`, such as `ps:0`.
    pub(crate) fn dial(
        socket: TcpStream,
        credentials: &Credentials,
        peer: &str,
    ) -> io::Result<Self> {
        let tls = credentials.tls().map(|identity| identity.dial(peer)).transpose();
        let address = socket.peer_addr()?;
        Ok(Self::new(socket, address, tls.map_err(io::Error::other)?))
    }

    /// The stream of a socket that another task has connected to this one from an address.
    pub(crate) fn accept(
        socket: TcpStream,
        peer: SocketAddr,
        credentials: &Credentials,
    ) -> io::Result<Self> {
        let tls = credentials.tls().map(|identity| identity.accept()).transpose()?;
        Ok(Self::new(socket, peer, tls))
    }

    fn new(socket: TcpStream, peer: SocketAddr, tls: Option<TlsSession>) -> Self {
        Self { socket, peer, tls: tls.map(Mutex::new) }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// The address of the other end.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    fn tls(&self) -> Option<MutexGuard<'_, TlsSession>> {
        let tls = self.tls.as_ref()?;
        Some(tls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether the other end may be this task: its certificate says so, or none is needed.
    pub(crate) fn may_be(&self, task: &str) -> bool {
        self.tls().is_none_or(|tls| tls.is_peer(task))
    }

    /// Bytes that were written and that the socket has not taken.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.tls().map_or(0, |tls| tls.unsent_bytes())
    }
}

impl Read for &PeerStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.tls() {
            None => (&self.socket).read(bytes),
            Some(mut tls) => tls.read(&mut &self.socket, &mut [IoSliceMut::new(bytes)]),
        }
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.tls() {
            None => (&self.socket).read_vectored(slices),
            Some(mut tls) => tls.read(&mut &self.socket, slices),
        }
    }
}

impl Write for &PeerStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.tls() {
            None => (&self.socket).write(bytes),
            Some(mut tls) => tls.write(&mut &self.socket, &[IoSlice::new(bytes)]),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.tls() {
            None => (&self.socket).write_vectored(slices),
            Some(mut tls) => tls.write(&mut &self.socket, slices),
        }
    }

    /// Writes what the socket has not taken, as far as it takes that now.
    fn flush(&mut self) -> io::Result<()> {
        self.tls().map_or(Ok(()), |mut tls| tls.flush(&mut &self.socket))
    }
}
