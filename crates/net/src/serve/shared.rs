//! What all threads of a server share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mio::Waker;
use paceline_exchange::{ConnId, PayloadLimits, Server};
use paceline_trust::FrameSealer;

use super::connection::ClientConnection;
use super::observer::ServerObserver;
use super::totals::ServerTotals;
use crate::peer_stream::PeerStream;
use crate::traffic::Traffic;

/// The most connections of clients at a time; further ones are closed at once. Strangers have a
/// room of their own.
const MAX_CONNECTIONS: usize = 2_400;

/// What the lock protects: the server and its observer.
pub(super) struct ServerCore<'a> {
    pub(super) server: &'a mut Server,
    pub(super) observer: &'a mut dyn ServerObserver,
    /// Totals of closed connections.
    pub(super) closed: ServerTotals,
    /// Traffic of closed connections by slot; the last entry is for connections without one.
    pub(super) closed_by_slot: Vec<Traffic>,
}

/// What all threads of a server share.
pub(super) struct ServerShared<'a> {
    core: Mutex<ServerCore<'a>>,
    /// By the index in a connection's id; free places are used again.
    connections: Mutex<Vec<Option<Arc<ClientConnection>>>>,
    started: Instant,
    /// How long the frames of clients may be.
    pub(super) limits: PayloadLimits,
    /// Threads must end.
    is_over: AtomicBool,
    /// Wakes the thread that accepts, when the run is over.
    waker: Waker,
}

impl<'a> ServerShared<'a> {
    pub(super) fn new(
        server: &'a mut Server,
        observer: &'a mut dyn ServerObserver,
        waker: Waker,
    ) -> Self {
        let closed_by_slot = vec![Traffic::default(); server.stats().slots.len() + 1];
        let (closed, limits) = (ServerTotals::default(), server.payload_limits());
        Self {
            core: Mutex::new(ServerCore { server, observer, closed, closed_by_slot }),
            connections: Mutex::default(),
            started: Instant::now(),
            limits,
            is_over: AtomicBool::new(false),
            waker,
        }
    }

    /// Milliseconds since the server started, the time that its state machine knows.
    pub(super) fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Takes the lock, even if a thread has panicked while it held the lock: that panic ends the
    /// server anyway, at the end of the thread scope.
    pub(super) fn core(&self) -> MutexGuard<'_, ServerCore<'a>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn connections(&self) -> MutexGuard<'_, Vec<Option<Arc<ClientConnection>>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Wakes the thread that accepts. If that fails, the thread notices the end at its next tick.
    pub(super) fn wake_acceptor(&self) {
        let _ = self.waker.wake();
    }

    /// Whether no further connection may be opened.
    pub(super) fn is_full(&self) -> bool {
        let places = self.connections();
        places.len() >= MAX_CONNECTIONS && places.iter().all(Option::is_some)
    }

    /// Gives a new connection an id and a place.
    pub(super) fn add(
        &self,
        stream: PeerStream,
        sealer: Option<FrameSealer>,
        number: u64,
    ) -> Arc<ClientConnection> {
        let mut places = self.connections();
        let index = places.iter().position(Option::is_none).unwrap_or(places.len());
        if index == places.len() {
            places.push(None);
        }
        let id = connection_id(index, number);
        let connection = Arc::new(ClientConnection::new(id, stream, sealer));
        places[index] = Some(connection.clone());
        connection
    }

    /// The connection of this id, if it is still open.
    pub(super) fn find(&self, id: ConnId) -> Option<Arc<ClientConnection>> {
        let places = self.connections();
        places.get(place(id))?.as_ref().filter(|connection| connection.id() == id).cloned()
    }

    /// Frees the place of a connection that has ended, and keeps its totals.
    pub(super) fn remove(&self, connection: &ClientConnection, totals: &ServerTotals) {
        // Under the lock, so that a report counts it once.
        let mut core = self.core();
        core.closed.add(totals);
        add_to_slot(&mut core.closed_by_slot, connection);
        self.connections()[place(connection.id())] = None;
    }

    /// The traffic of each slot, through open connections and closed ones.
    pub(super) fn traffic_by_slot(&self, closed: &[Traffic], by_slot: &mut Vec<Traffic>) {
        by_slot.clear();
        by_slot.extend_from_slice(closed);
        for connection in self.connections().iter().flatten() {
            add_to_slot(by_slot, connection);
        }
    }

    /// What the threads of open connections and closed ones have done.
    pub(super) fn totals(&self, closed: &ServerTotals) -> ServerTotals {
        let mut all = *closed;
        self.connections().iter().flatten().for_each(|connection| all.add(&connection.totals()));
        all
    }

    /// Makes all threads end: each after it has written what is queued or, if that is of no use
    /// any more, `at_once`.
    pub(super) fn end_threads(&self, at_once: bool) {
        self.is_over.store(true, Ordering::Relaxed);
        for connection in self.connections().iter().flatten() {
            if at_once {
                connection.hang_up();
            } else {
                connection.stop_reading();
            }
        }
    }
}

fn add_to_slot(by_slot: &mut [Traffic], connection: &ClientConnection) {
    let last = by_slot.len() - 1;
    by_slot[connection.slot().unwrap_or(last).min(last)] += connection.traffic();
}

/// An id is made of a connection's place and its number, so that no id is used twice.
fn connection_id(index: usize, number: u64) -> ConnId {
    ConnId(number << 16 | index as u64)
}

fn place(id: ConnId) -> usize {
    (id.0 & 0xffff) as usize
}
