//! The mesh and its peers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Waker};
use paceline_exchange::Replica;
use paceline_model::ParamTable;

use super::config::MeshConfig;
use super::connection::MeshConnection;
use super::fault::MeshFault;
use super::listener::PeerListener;
use crate::error::LinkError;
use crate::peer_state::PeerState;
use crate::socket::poll_once;
use crate::traffic::Traffic;

/// A worker's connections to all other workers, and its replica of the parameters.
pub struct Mesh {
    pub(super) replica: Replica,
    /// By slot; this worker's own is unused.
    pub(super) peers: Vec<MeshPeer>,
    pub(super) poll: Poll,
    pub(super) events: Events,
    /// Ends a poll from another thread.
    pub(super) waker: Arc<Waker>,
    pub(super) config: MeshConfig,
    /// Accepts workers of higher slots: until the start or, in a run that recovers, to the end.
    pub(super) listener: Option<PeerListener>,
    /// How often a worker was lost since the last step was made.
    pub(super) losses: u32,
    /// The traffic of closed connections.
    pub(super) closed_traffic: Traffic,
}

/// Another worker.
pub(super) struct MeshPeer {
    pub(super) state: PeerState,
    pub(super) connection: Option<MeshConnection>,
    /// When to connect again.
    pub(super) next_attempt: Instant,
    pub(super) absence: Absence,
}

/// How long a worker has been missing, and may be.
#[derive(Clone, Copy)]
pub(super) struct Absence {
    pub(super) since: Instant,
    pub(super) limit: Duration,
    /// The worker itself is gone; otherwise it may not have noticed that another one is.
    pub(super) is_lost: bool,
}

impl Mesh {
    /// This worker's replica of the parameters.
    pub fn params(&self) -> &[f32] {
        self.replica.params()
    }

    /// The table of this worker's replica, if the model is sparse.
    pub fn table(&self) -> Option<&ParamTable> {
        self.replica.table()
    }

    /// Bytes of the keys of this worker's steps so far, as each peer gets them.
    pub fn key_bytes(&self) -> u64 {
        self.replica.key_bytes()
    }

    /// Updates made.
    pub fn global_step(&self) -> u64 {
        self.replica.global_step()
    }

    /// Whether the last step has been made.
    pub fn is_over(&self) -> bool {
        self.replica.is_over()
    }

    /// Whether the coordinator has dismissed this worker, which may then exit.
    pub fn is_dismissed(&self) -> bool {
        self.replica.is_dismissed()
    }

    /// Coordinator only: asks all workers to stop after the next step.
    pub fn request_stop(&mut self) {
        self.replica.request_stop();
    }

    /// Coordinator only: asks all workers to take a checkpoint after the next step.
    pub fn request_checkpoint(&mut self) {
        self.replica.request_checkpoint();
    }

    /// Whether this worker must take a checkpoint of the parameters as they are now.
    pub fn is_checkpoint_due(&self) -> bool {
        self.replica.is_checkpoint_due()
    }

    /// This worker's shard as a checkpoint holds it: the parameters, then the optimizer's state.
    pub fn shard_columns(&self) -> impl Iterator<Item = &[f32]> {
        self.replica.shard_columns()
    }

    /// Whether this worker has everything that its part of a checkpoint holds.
    pub fn has_whole_state(&self) -> bool {
        self.replica.has_whole_state()
    }

    /// A column of a checkpoint with a gradient as it is known, where gradients travel as changes.
    pub fn copy_known(&self, slot: usize, out: &mut [f32]) {
        self.replica.copy_known(slot, out);
    }

    /// Bytes sent to and received from all other workers.
    pub fn traffic(&self) -> Traffic {
        let mut total = self.closed_traffic;
        self.open().for_each(|connection| total += connection.traffic());
        total
    }

    /// Bytes sent to and received from each worker through its current connection, by slot; zero
    /// for this worker itself.
    pub fn traffic_by_slot(&self) -> impl Iterator<Item = Traffic> {
        let traffic = |peer: &MeshPeer| peer.connection.as_ref().map(MeshConnection::traffic);
        self.peers.iter().map(move |peer| traffic(peer).unwrap_or_default())
    }

    /// All open connections.
    fn open(&self) -> impl Iterator<Item = &MeshConnection> {
        self.peers.iter().filter_map(|peer| peer.connection.as_ref())
    }

    /// Whether all sockets have taken everything that was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.open().all(MeshConnection::is_sent)
    }

    /// Whether nothing more can arrive from a peer.
    pub(super) fn is_gone(&self, slot: usize) -> bool {
        let connection = self.peers[slot].connection.as_ref();
        connection.is_none_or(|connection| connection.is_closed)
    }

    /// Closes the connection to a peer, if there is one.
    pub(super) fn close(&mut self, slot: usize) {
        if let Some(connection) = self.peers[slot].connection.take() {
            self.closed_traffic += connection.traffic();
        }
    }

    /// Polls all connections once. Returns whether anything happened.
    pub(super) fn poll(&mut self, timeout: Duration) -> Result<bool, MeshFault> {
        poll_once(&mut self.poll, &mut self.events, timeout).map_err(LinkError::Io)?;
        for event in &self.events {
            let peer = self.peers.get_mut(event.token().0);
            if let Some(connection) = peer.and_then(|peer| peer.connection.as_mut()) {
                connection.wake_by(event);
            }
        }
        Ok(!self.events.is_empty())
    }

    pub(super) fn wake_all(&mut self) {
        let open = self.peers.iter_mut().filter_map(|peer| peer.connection.as_mut());
        open.for_each(MeshConnection::wake);
    }

    /// The names of the workers that this one waits for.
    pub(super) fn awaited(&self) -> String {
        let slots = self.replica.awaited().into_iter();
        let names = slots.map(|slot| self.replica.name(slot)).collect::<Vec<_>>().join(", ");
        // An owner knows which gradients are missing. Other workers know only that they wait for
        // the owner.
        if self.replica.is_owner() {
            names
        } else {
            format!("{names}, which may wait for another worker")
        }
    }
}
