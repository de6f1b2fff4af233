//! The listening socket, and one thread per connection.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::connection;
use crate::guard::Guard;
use crate::limits::Limits;
use crate::request::Request;
use crate::response::Response;
use crate::state::{HttpState, OpenConnection};

/// A server that runs until it is dropped.
pub struct HttpServer {
    address: SocketAddr,
    state: Arc<HttpState>,
    accept_thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Starts a thread that accepts connections. The handler answers every request that passes
    /// the guard; it runs on the connection's thread.
    ///
    /// # Errors
    /// If the listener has no local address or the thread cannot be started.
    pub fn start(
        listener: TcpListener,
        guard: Guard,
        limits: Limits,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let state = Arc::new(HttpState::new(guard, limits, Box::new(handler)));
        let accept_state = state.clone();
        let thread = thread::Builder::new().name("http".into());
        let thread = thread.spawn(move || accept_all(&listener, &accept_state))?;
        Ok(Self { address, state, accept_thread: Some(thread) })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.state.set_stopping();
        // A connection wakes the thread that accepts, which then sees that the server stops.
        let mut address = self.address;
        match address.ip() {
            ip if !ip.is_unspecified() => {}
            ip if ip.is_ipv4() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            _ => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        }
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            let _ = self.accept_thread.take().map(JoinHandle::join);
        }
        self.state.shut_down_connections();
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Accepts connections until the server stops.
fn accept_all(listener: &TcpListener, state: &Arc<HttpState>) {
    for number in 0.. {
        let accepted = listener.accept();
        if state.is_stopping() {
            return;
        }
        match accepted {
            Ok((stream, peer)) => start_connection(number, stream, peer, state),
            // The process may be out of file descriptors, which can pass.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Starts a thread for a connection, or refuses it if all places are taken by clients.
fn start_connection(number: u64, stream: TcpStream, peer: SocketAddr, state: &Arc<HttpState>) {
    let Ok(socket) = stream.try_clone() else { return };
    if !state.make_room() {
        return connection::refuse(stream);
    }
    let address = peer.ip().to_canonical();
    let open = OpenConnection::register(number, socket, address, state);
    let thread = thread::Builder::new().name("http connection".into());
    // If no thread can be started, dropping the closure closes the connection.
    let _ = thread.spawn(move || connection::serve(stream, &open));
}
