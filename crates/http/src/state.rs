//! What the threads of a server share.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::guard::Guard;
use crate::limits::Limits;
use crate::request::Request;
use crate::response::Response;

/// Produces the response to a request.
pub(crate) type Handler = dyn Fn(&Request) -> Response + Send + Sync;

/// What the threads of a server share.
pub(crate) struct HttpState {
    pub(crate) guard: Guard,
    pub(crate) limits: Limits,
    pub(crate) handler: Box<Handler>,
    is_stopping: AtomicBool,
    /// The socket of each open connection, so that stopping can shut them down.
    sockets: Mutex<HashMap<u64, TcpStream>>,
}

impl HttpState {
    pub(crate) fn new(guard: Guard, limits: Limits, handler: Box<Handler>) -> Self {
        let (is_stopping, sockets) = (AtomicBool::new(false), Mutex::default());
        Self { guard, limits, handler, is_stopping, sockets }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn set_stopping(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.sockets().len() >= self.limits.connections
    }

    pub(crate) fn shut_down_connections(&self) {
        for socket in self.sockets().values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn sockets(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a connection as open until it is dropped.
pub(crate) struct OpenConnection {
    number: u64,
    pub(crate) state: Arc<HttpState>,
}

impl OpenConnection {
    pub(crate) fn register(number: u64, socket: TcpStream, state: &Arc<HttpState>) -> Self {
        state.sockets().insert(number, socket);
        Self { number, state: state.clone() }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.state.sockets().remove(&self.number);
    }
}
