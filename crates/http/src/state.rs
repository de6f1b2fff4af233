//! What the threads of a server share.

use std::collections::BTreeMap;
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
    /// The open connections by number, the oldest first.
    open: Mutex<BTreeMap<u64, OpenSocket>>,
}

/// The socket of an open connection, so that it can be shut down.
struct OpenSocket {
    socket: TcpStream,
    standing: Standing,
}

/// How soon a connection makes room for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It has made no request that strangers may not make.
    Stranger,
    /// It has made some, and all are answered.
    Idle,
    /// Its request is being answered.
    Busy,
}

impl HttpState {
    pub(crate) fn new(guard: Guard, limits: Limits, handler: Box<Handler>) -> Self {
        let (is_stopping, open) = (AtomicBool::new(false), Mutex::default());
        Self { guard, limits, handler, is_stopping, open }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn set_stopping(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Whether there is room for another connection. If all places are taken, the oldest of those
    /// without a request that passed the guard is shut down: a client sends one at once. If there
    /// are none, the oldest one that waits for its next request is.
    pub(crate) fn make_room(&self) -> bool {
        let mut open = self.open();
        if open.len() < self.limits.connections {
            return true;
        }
        let first = open.iter().min_by_key(|(number, open)| (open.standing, **number));
        let first = first.filter(|(_, open)| open.standing != Standing::Busy);
        let first = first.map(|(&number, _)| number);
        let Some(OpenSocket { socket, .. }) = first.and_then(|number| open.remove(&number)) else {
            return false;
        };
        // A client that is gone has left its place, too.
        let _ = socket.shutdown(Shutdown::Both);
        true
    }

    pub(crate) fn shut_down_connections(&self) {
        for OpenSocket { socket, .. } in self.open().values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, OpenSocket>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a connection as open until it is dropped.
pub(crate) struct OpenConnection {
    number: u64,
    pub(crate) state: Arc<HttpState>,
}

impl OpenConnection {
    pub(crate) fn register(number: u64, socket: TcpStream, state: &Arc<HttpState>) -> Self {
        state.open().insert(number, OpenSocket { socket, standing: Standing::Stranger });
        Self { number, state: state.clone() }
    }

    /// A request has passed the guard and is being answered.
    pub(crate) fn set_busy(&self) {
        if let Some(open) = self.state.open().get_mut(&self.number) {
            open.standing = Standing::Busy;
        }
    }

    /// The request is answered.
    pub(crate) fn set_answered(&self) {
        if let Some(open) = self.state.open().get_mut(&self.number)
            && open.standing == Standing::Busy
        {
            open.standing = Standing::Idle;
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.state.open().remove(&self.number);
    }
}
