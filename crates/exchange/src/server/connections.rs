//! The peer at the other end of each connection.
//!
//! The table is small and every frame looks into it, so it is a sorted vector. The server closes
//! connections whose `Hello` is overdue, and those beyond a limit: an open port must not cost a
//! server its memory.

use crate::{ConnId, MAX_WORKERS};

/// How long a connection may stay open without a `Hello`.
const HELLO_MS: u64 = 10_000;
/// Connections that may be open; the next tick closes the rest.
const MAX_CONNECTIONS: usize = 3 * MAX_WORKERS;

/// The peer at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectedPeer {
    /// It has not said `Hello`.
    Stranger {
        /// When the connection is closed unless a `Hello` arrives.
        until_ms: u64,
    },
    /// The process that fills this slot.
    Worker(usize),
    Evaluator,
    /// The process on the roster with this id.
    Process(u64),
}

/// All open connections.
#[derive(Debug, Default)]
pub(super) struct Connections(Vec<(ConnId, ConnectedPeer)>);

impl Connections {
    pub(super) fn add(&mut self, conn: ConnId, now_ms: u64) {
        let is_full = self.0.len() >= MAX_CONNECTIONS;
        let until_ms = if is_full { now_ms } else { now_ms.saturating_add(HELLO_MS) };
        match self.find(conn) {
            Ok(_) => panic!("{conn:?} is open already"),
            Err(at) => self.0.insert(at, (conn, ConnectedPeer::Stranger { until_ms })),
        }
    }

    pub(super) fn get(&self, conn: ConnId) -> Option<ConnectedPeer> {
        self.find(conn).ok().map(|at| self.0[at].1)
    }

    pub(super) fn set(&mut self, conn: ConnId, peer: ConnectedPeer) {
        if let Ok(at) = self.find(conn) {
            self.0[at].1 = peer;
        }
    }

    pub(super) fn remove(&mut self, conn: ConnId) -> Option<ConnectedPeer> {
        self.find(conn).ok().map(|at| self.0.remove(at).1)
    }

    /// Strangers whose time is up.
    pub(super) fn overdue(&self, now_ms: u64) -> Vec<ConnId> {
        let is_overdue = |peer: ConnectedPeer| match peer {
            ConnectedPeer::Stranger { until_ms } => now_ms >= until_ms,
            _ => false,
        };
        self.all(is_overdue).collect()
    }

    /// The connections whose `Hello` was accepted.
    pub(super) fn known(&self) -> impl Iterator<Item = ConnId> {
        self.all(|peer| !matches!(peer, ConnectedPeer::Stranger { .. }))
    }

    /// The connections that receive `Start`.
    pub(super) fn clients(&self) -> impl Iterator<Item = ConnId> {
        self.all(|peer| matches!(peer, ConnectedPeer::Worker(_) | ConnectedPeer::Evaluator))
    }

    pub(super) fn evaluators(&self) -> usize {
        self.all(|peer| peer == ConnectedPeer::Evaluator).count()
    }

    fn all(&self, is_wanted: impl Fn(ConnectedPeer) -> bool) -> impl Iterator<Item = ConnId> {
        self.0.iter().filter(move |(_, peer)| is_wanted(*peer)).map(|(conn, _)| *conn)
    }

    fn find(&self, conn: ConnId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&conn, |(id, _)| *id)
    }
}
