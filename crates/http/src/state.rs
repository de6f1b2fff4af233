//! What the threads of a server share.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
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
    /// Where the client is.
    address: IpAddr,
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

    /// Whether there is room for another connection. If all places are taken, one of those without
    /// a request that passed the guard is shut down: a client sends one at once. If there are none,
    /// one that waits for its next request is. It is the oldest from the address that has most of
    /// them, so that a flood from one address leaves the others their places.
    pub(crate) fn make_room(&self) -> bool {
        let mut open = self.open();
        if open.len() < self.limits.connections {
            return true;
        }
        let least = open.values().map(|open| open.standing).min();
        let Some(least) = least.filter(|least| *least != Standing::Busy) else { return false };
        let of_least = || open.iter().filter(|(_, open)| open.standing == least);
        let crowd = |address| of_least().filter(|(_, open)| open.address == address).count();
        let first =
            of_least().min_by_key(|(number, open)| (Reverse(crowd(open.address)), **number));
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
    pub(crate) fn register(
        number: u64,
        socket: TcpStream,
        address: IpAddr,
        state: &Arc<HttpState>,
    ) -> Self {
        let open = OpenSocket { socket, address, standing: Standing::Stranger };
        state.open().insert(number, open);
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_flood_from_one_address_closes_no_connection_of_another() {
        let limits = Limits { connections: 4, ..Limits::default() };
        let handler = Box::new(|_: &Request| Response::text(200, ""));
        let state = Arc::new(HttpState::new(Guard::without_token(), limits, handler));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let enter = |number: u64, last: u8| {
            assert!(state.make_room(), "{number}");
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let address = IpAddr::from(Ipv4Addr::new(127, 0, 0, last));
            OpenConnection::register(number, socket, address, &state)
        };
        let reader = enter(0, 1);
        let flood: Vec<_> = (1..20).map(|number| enter(number, 2)).collect();
        assert_eq!(state.open().keys().copied().collect::<Vec<_>>(), [0, 17, 18, 19]);
        // One that waits for its next request makes room if all others are being answered.
        reader.set_busy();
        reader.set_answered();
        flood.iter().for_each(OpenConnection::set_busy);
        drop(enter(20, 2));
        assert!(state.open().contains_key(&17) && !state.open().contains_key(&0));
        assert_eq!(state.open().len(), 3);
    }
}
