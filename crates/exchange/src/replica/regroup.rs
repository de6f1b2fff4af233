//! How workers connect, at the start and again after a loss.
//!
//! A worker that loses a peer in a run that recovers closes all its connections, and so every
//! worker hears of the loss. Frames on their way are gone, and nothing stale can be believed. Then
//! all workers connect as at the start, and each states how far its replica is. Replicas are at
//! most one step apart, because a step takes every worker's gradient; only newcomers are at the
//! beginning. Of the replicas that are furthest, the one in the lowest slot sends the others what
//! they miss (`catch_up.rs`). Then the step is made again. The contents of a frame depend on its
//! step alone, so it does not matter which attempt a frame comes from.
//!
//! A coordinator that has made the last step stays until all workers have left, and serves those
//! that connect late. These need no other peer, as the coordinator's greeting says. So a
//! coordinator that learns of the end from others closes its connections once more.

use super::event::ReplicaError;
use super::peer::{COORDINATOR, CatchUp, PeerProgress, ReplicaPeer, ReplicaPosition};
use super::state::Replica;
use crate::Flags;

impl Replica {
    /// How far this replica is; `None` if its state is incomplete.
    pub(super) fn position(&self) -> Option<ReplicaPosition> {
        let position = ReplicaPosition { step: self.global_step, is_over: self.is_over };
        (!self.is_incomplete).then_some(position)
    }

    /// How a greeting encodes the position, besides the step.
    pub(super) fn position_flags(&self) -> Flags {
        let flags = match self.position() {
            None => Flags::PARTIAL,
            Some(ReplicaPosition { is_over: true, .. }) => Flags::LEFT,
            Some(_) => Flags::NONE,
        };
        if self.is_rounded() && self.is_fresh { flags | Flags::RESUME } else { flags }
    }

    /// A peer is lost: gives up the step in progress and all connections.
    pub fn disconnect_all(&mut self) {
        self.step = None;
        self.catch_up = None;
        self.restore_kept_state();
        self.is_gathering = true;
        for peer in &mut self.peers {
            let (incarnation, report) = (peer.incarnation, peer.report.take());
            let gradient = std::mem::take(&mut peer.gradient);
            *peer = ReplicaPeer { incarnation, report, gradient, ..ReplicaPeer::default() };
        }
    }

    /// The connection to a peer was lost.
    pub fn connection_lost(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        (peer.is_connected, peer.has_gradient) = (false, false);
        (peer.position, peer.transfer) = (None, None);
        (peer.known_to_send, peer.known_awaited) = (None, None);
        peer.progress = PeerProgress::default();
    }

    /// Whether a peer is connected.
    pub fn is_connected(&self, peer: usize) -> bool {
        self.peers[peer].is_connected
    }

    /// Whether all peers that this worker needs are connected.
    pub fn is_started(&self) -> bool {
        self.knows_end() || self.others().all(|peer| self.peers[peer].is_connected)
    }

    /// Whether the coordinator is connected and has made the last step.
    pub(super) fn knows_end(&self) -> bool {
        let coordinator = &self.peers[COORDINATOR];
        self.config.slot != COORDINATOR
            && coordinator.is_connected
            && coordinator.position.is_some_and(|position| position.is_over)
    }

    /// Finds out which replicas are behind, and which one sends them what they miss.
    ///
    /// # Panics
    /// If a peer is missing.
    pub fn plan_catch_up(&mut self) -> Result<(), ReplicaError> {
        assert!(self.is_started(), "a peer is missing");
        self.is_gathering = false;
        if self.is_dismissed() {
            return Ok(());
        }
        let own = self.config.slot;
        let position =
            |slot: usize| if slot == own { self.position() } else { self.peers[slot].position };
        let slots = 0..self.peers.len();
        let furthest = slots.clone().filter_map(position).max();
        let Some(furthest) = furthest else { return Err(ReplicaError::NoReplicaLeft) };
        let mut donors = slots.filter(|&slot| position(slot) == Some(furthest));
        let donor = donors.next().unwrap_or_else(|| unreachable!("some replica is furthest"));
        self.plan_known(furthest)?;
        if donor == own {
            self.others().for_each(|other| self.plan_transfer(other));
        } else if self.position().is_none_or(|mine| mine.step < furthest.step) {
            self.catch_up = Some(CatchUp { donor, position: furthest, next: None });
        } else {
            self.is_over = furthest.is_over;
        }
        Ok(())
    }

    /// Whether this replica still receives the state that it misses.
    pub fn is_behind(&self) -> bool {
        self.catch_up.is_some() || self.awaits_known()
    }

    /// Whether this replica still sends its state to a peer.
    pub fn is_sending_state(&self) -> bool {
        self.peers.iter().any(|peer| peer.transfer.is_some() || peer.known_to_send.is_some())
    }
}
