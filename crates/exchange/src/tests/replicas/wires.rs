//! The connections between replicas.

use std::collections::VecDeque;

use super::world::{ReplicaPhase, ReplicaWorld};
use crate::tests::harness::TestFrame;

/// A connection between two slots, of which the higher has called the lower.
pub(crate) struct Wire {
    pub(crate) slots: [usize; 2],
    pub(crate) to: [VecDeque<TestFrame>; 2],
    pub(crate) is_open: [bool; 2],
    pub(crate) is_cut: bool,
}

impl Wire {
    /// Which end belongs to a slot.
    pub(crate) fn side(&self, slot: usize) -> usize {
        usize::from(self.slots[1] == slot)
    }

    /// Whether the other end sends no more.
    pub(crate) fn has_ended(&self, side: usize) -> bool {
        !self.is_open[1 - side] || self.is_cut
    }
}

impl ReplicaWorld {
    /// Closes one end; some of the frames that it sent may be lost.
    pub(crate) fn close(&mut self, id: usize, slot: usize, may_lose: bool) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let side = wire.side(slot);
        wire.is_open[side] = false;
        wire.to[side].clear();
        if may_lose {
            let keep = self.random.index(wire.to[1 - side].len() + 1);
            wire.to[1 - side].truncate(keep);
        }
        if wire.is_open == [false; 2] {
            self.wires.remove(&id);
        }
    }

    /// Closes all connections of a process, and returns it to the state before any.
    pub(crate) fn close_all(&mut self, slot: usize) {
        let Some(process) = &mut self.processes[slot] else { return };
        let none = vec![None; self.plan.workers];
        for id in std::mem::replace(&mut process.wires, none).into_iter().flatten() {
            self.close(id, slot, false);
        }
    }

    pub(crate) fn drop_peer(&mut self, slot: usize, peer: usize) {
        let Some(process) = &mut self.processes[slot] else { return };
        process.replica.connection_lost(peer);
        if let Some(id) = process.wires[peer].take() {
            self.close(id, slot, false);
        }
    }

    /// Whether this process accepts connections: while it gathers, and a coordinator at the end.
    fn accepts(&self, slot: usize) -> bool {
        self.processes[slot].as_ref().is_some_and(|process| {
            process.phase == ReplicaPhase::Gathering
                || slot == 0 && process.phase == ReplicaPhase::Leaving
        })
    }

    pub(crate) fn dial(&mut self, slot: usize, peer: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        let is_gathering = process.phase == ReplicaPhase::Gathering;
        if !is_gathering || peer >= slot || process.wires[peer].is_some() {
            return false;
        }
        let id = self.next_wire;
        self.next_wire += 1;
        let to = [VecDeque::from([process.replica.hello(peer).into()]), VecDeque::new()];
        self.wires.insert(id, Wire { slots: [peer, slot], to, is_open: [true; 2], is_cut: false });
        process.wires[peer] = Some(id);
        self.backlogs[peer].push_back(id);
        true
    }

    pub(crate) fn accept(&mut self, slot: usize) -> bool {
        if !self.accepts(slot) {
            return false;
        }
        let Some(id) = self.backlogs[slot].pop_front() else { return false };
        let hello = self.wires.get_mut(&id).and_then(|wire| wire.to[0].pop_front());
        let Some(process) = &mut self.processes[slot] else { unreachable!() };
        // The caller may have hung up, or be an old process that called before it died.
        let accept =
            |hello: TestFrame| process.replica.accept_hello(&hello.header, &hello.payload).ok();
        let peer = hello.and_then(accept);
        let Some(peer) = peer else {
            self.close(id, slot, false);
            return true;
        };
        let welcome = process.replica.welcome();
        let old = process.wires[peer].replace(id);
        old.into_iter().for_each(|old| self.close(old, slot, false));
        if let Some(wire) = self.wires.get_mut(&id).filter(|wire| wire.is_open[1]) {
            wire.to[1].push_back(welcome.into());
        }
        true
    }

    /// Breaks a random connection that both ends use.
    pub(crate) fn cut(&mut self) {
        let nth = self.random.index(self.wires.len().max(1));
        let Some((id, wire)) = self.wires.iter_mut().nth(nth) else { return };
        if !self.backlogs[wire.slots[0]].contains(id) {
            wire.is_cut = true;
        }
    }
}
