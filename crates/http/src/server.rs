//! The listening socket, and a thread for each connection.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::connection;
use crate::guard::Guard;
use crate::request::Request;
use crate::response::Response;

/// What a server puts up with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; those beyond are answered that it is too busy.
    pub connections: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// How long a request may take to arrive, once it has begun.
    pub head_time: Duration,
    /// How long a connection may be quiet.
    pub idle_time: Duration,
    /// How long an answer that is not a stream, or a piece of one that is, may take to go.
    pub write_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head_bytes: 8 << 10,
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(60),
            write_time: Duration::from_secs(30),
        }
    }
}

/// Who answers.
type Answer = dyn Fn(&Request) -> Response + Send + Sync;

/// What the threads of a server share.
pub(crate) struct Shared {
    pub(crate) guard: Guard,
    pub(crate) limits: Limits,
    pub(crate) answer: Box<Answer>,
    is_stopping: AtomicBool,
    /// Every connection's socket, to end them all with.
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}

/// A server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to answer those who connect to the listener and get by the guard.
    pub fn start(
        listener: TcpListener,
        guard: Guard,
        limits: Limits,
        answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            guard,
            limits,
            answer: Box::new(answer),
            is_stopping: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("http".into());
        let thread = thread.spawn(move || accept_all(&listener, &theirs))?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        // Whoever waits for a connection gets one.
        let mut address = self.address;
        match address.ip() {
            ip if !ip.is_unspecified() => {}
            ip if ip.is_ipv4() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            _ => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        }
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            let _ = self.thread.take().map(JoinHandle::join);
        }
        for stream in self.shared.open().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Takes connections until the server stops.
fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    for number in 0.. {
        let accepted = listener.accept();
        if shared.is_stopping() {
            return;
        }
        match accepted {
            Ok((stream, _)) => take(number, stream, shared),
            // No descriptors left, say: that may pass.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Gives a connection a thread, if there is room.
fn take(number: u64, stream: TcpStream, shared: &Arc<Shared>) {
    let is_full = shared.open().len() >= shared.limits.connections;
    let Ok(handle) = stream.try_clone() else { return };
    if is_full {
        return connection::refuse(stream);
    }
    shared.open().insert(number, handle);
    let seat = Seat { number, shared: shared.clone() };
    let thread = thread::Builder::new().name("http connection".into());
    // If there is no thread to be had, the seat goes with the closure.
    let _ = thread.spawn(move || connection::serve(stream, &seat.shared));
}

/// A connection's place among those that are open.
struct Seat {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.open().remove(&self.number);
    }
}
