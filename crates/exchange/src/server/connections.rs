//! Who is at the other end of each connection.
//!
//! The table is small and looked up for every frame, so it is a sorted vector. Somebody who has
//! not said `Hello` in time is shown out, and so are strangers beyond a limit: an open port
//! must not cost a server its memory.

use crate::{ConnId, MAX_WORKERS};

/// How long a connection may stay without a `Hello`.
const HELLO_MS: u64 = 10_000;
/// How many connections may be open; the rest are closed at the next tick.
const MAX_CONNECTIONS: usize = 3 * MAX_WORKERS;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// Somebody who has not said `Hello`.
    Stranger {
        /// When to close the connection if it stays like this.
        until_ms: u64,
    },
    /// The process that fills this slot.
    Worker(usize),
    /// An evaluator.
    Evaluator,
    /// A process on the roster.
    Process(u64),
}

/// All open connections.
#[derive(Debug, Default)]
pub(super) struct Connections(Vec<(ConnId, Peer)>);

impl Connections {
    pub(super) fn add(&mut self, conn: ConnId, now_ms: u64) {
        let is_full = self.0.len() >= MAX_CONNECTIONS;
        let until_ms = if is_full { now_ms } else { now_ms.saturating_add(HELLO_MS) };
        match self.find(conn) {
            Ok(_) => panic!("{conn:?} is open already"),
            Err(at) => self.0.insert(at, (conn, Peer::Stranger { until_ms })),
        }
    }

    pub(super) fn get(&self, conn: ConnId) -> Option<Peer> {
        self.find(conn).ok().map(|at| self.0[at].1)
    }

    pub(super) fn set(&mut self, conn: ConnId, peer: Peer) {
        if let Ok(at) = self.find(conn) {
            self.0[at].1 = peer;
        }
    }

    pub(super) fn remove(&mut self, conn: ConnId) -> Option<Peer> {
        self.find(conn).ok().map(|at| self.0.remove(at).1)
    }

    /// Strangers whose time is up.
    pub(super) fn overdue(&self, now_ms: u64) -> Vec<ConnId> {
        let is_overdue = |peer: &Peer| match *peer {
            Peer::Stranger { until_ms } => now_ms >= until_ms,
            _ => false,
        };
        self.0.iter().filter(|(_, peer)| is_overdue(peer)).map(|(conn, _)| *conn).collect()
    }

    /// All who have been let in.
    pub(super) fn known(&self) -> impl Iterator<Item = ConnId> {
        let is_known = |peer: &Peer| !matches!(peer, Peer::Stranger { .. });
        self.0.iter().filter(move |(_, peer)| is_known(peer)).map(|(conn, _)| *conn)
    }

    /// All who are told when the run starts.
    pub(super) fn clients(&self) -> impl Iterator<Item = ConnId> {
        let is_client = |peer: &Peer| matches!(peer, Peer::Worker(_) | Peer::Evaluator);
        self.0.iter().filter(move |(_, peer)| is_client(peer)).map(|(conn, _)| *conn)
    }

    /// How many evaluators there are.
    pub(super) fn evaluators(&self) -> usize {
        self.0.iter().filter(|(_, peer)| *peer == Peer::Evaluator).count()
    }

    fn find(&self, conn: ConnId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&conn, |(id, _)| *id)
    }
}
