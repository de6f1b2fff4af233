//! How workers come together, at the start and again after a loss.
//!
//! Whoever loses a peer in a run that recovers closes all its connections, and with that everybody
//! comes to know of it; what was on its way is gone, and nothing stale can be believed. Then all
//! find each other as at the start, and each says how far its replica is. Replicas are at most a
//! step apart, because a step takes everybody's share, but for newcomers, who are at the beginning.
//! Of those that are furthest, the one in the lowest slot sends the others what they miss
//! (`state.rs`); then the step is made anew. What is in a frame follows from its step alone, however
//! often it is made, so it matters to nobody which attempt it comes from.
//!
//! A chief that has made the last step stays until all have left, and serves those that come late;
//! these need nobody else, as its greeting tells them. So one that learns of the end from others
//! closes its connections once more.

use super::{Behind, CHIEF, Peer, PeerProgress, Replica, ReplicaError};
use crate::{Flags, Header};

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// Updates made.
    pub(super) step: u64,
    /// Whether there will be no more.
    pub(super) is_over: bool,
}

impl Position {
    /// Reads it from the header of a greeting.
    pub(super) fn told(header: &Header, step: u64) -> Option<Self> {
        let is_over = header.flags.contains(Flags::LEFT);
        (!header.flags.contains(Flags::PARTIAL)).then_some(Self { step, is_over })
    }
}

impl Replica {
    /// How far this replica is; none if it is of no use.
    pub(super) fn position(&self) -> Option<Position> {
        let position = Position { step: self.global_step, is_over: self.is_over };
        (!self.is_torn).then_some(position)
    }

    /// How a greeting tells of it, beside the step.
    pub(super) fn position_flags(&self) -> Flags {
        match self.position() {
            None => Flags::PARTIAL,
            Some(Position { is_over: true, .. }) => Flags::LEFT,
            Some(_) => Flags::NONE,
        }
    }

    /// A peer is lost: gives up the step in the making and all connections, to begin anew.
    pub fn disconnect_all(&mut self) {
        self.turn = None;
        self.behind = None;
        self.is_gathering = true;
        for peer in &mut self.peers {
            let (incarnation, report) = (peer.incarnation, peer.report.take());
            let held = std::mem::take(&mut peer.held);
            *peer = Peer { incarnation, report, held, ..Peer::default() };
        }
    }

    /// A peer is not here: its connection is gone.
    pub fn connection_lost(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        (peer.is_here, peer.is_held, peer.position, peer.owed) = (false, false, None, None);
        peer.progress = PeerProgress::default();
    }

    /// Whether a peer is here.
    pub fn is_connected(&self, peer: usize) -> bool {
        self.peers[peer].is_here
    }

    /// Whether everybody is here who is needed.
    pub fn is_started(&self) -> bool {
        self.knows_end() || self.others().all(|peer| self.peers[peer].is_here)
    }

    /// Whether the chief is here and has made the last step.
    pub(super) fn knows_end(&self) -> bool {
        let chief = &self.peers[CHIEF];
        self.config.slot != CHIEF
            && chief.is_here
            && chief.position.is_some_and(|position| position.is_over)
    }

    /// Everybody is here: finds out who is behind, and who helps them.
    ///
    /// # Panics
    /// If not everybody is here.
    pub fn plan_catch_up(&mut self) -> Result<(), ReplicaError> {
        assert!(self.is_started(), "somebody is missing");
        self.is_gathering = false;
        if self.is_dismissed() {
            return Ok(());
        }
        let position = |slot: usize| match slot == self.config.slot {
            true => self.position(),
            false => self.peers[slot].position,
        };
        let slots = 0..self.peers.len();
        let Some(best) = slots.clone().filter_map(position).max() else {
            return Err(ReplicaError::NoReplicaLeft);
        };
        let donor = slots.clone().find(|&slot| position(slot) == Some(best));
        let donor = donor.unwrap_or_else(|| unreachable!("somebody is there"));
        if donor == self.config.slot {
            self.others().for_each(|other| self.owe(other));
        } else if self.position().is_none_or(|mine| mine.step < best.step) {
            self.behind = Some(Behind::new(donor, best));
        } else {
            self.is_over = best.is_over;
        }
        Ok(())
    }

    /// Whether somebody still has to send this replica what it misses.
    pub fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Whether this replica still has to send somebody what they miss.
    pub fn is_sending_state(&self) -> bool {
        self.peers.iter().any(|peer| peer.owed.is_some())
    }
}
