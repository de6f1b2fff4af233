//! Which process fills which slot: server 0 keeps the roster and offers slots.
//!
//! A slot is a place in the plan and not a process, so processes may come and go while the plan
//! stays as it is. Every process that can fill slots has a connection to server 0 besides those of
//! its slots. Over it the server offers slots that no process fills, and asks for one back when
//! another process has two fewer. A process accepts an offer by its `Hello` for the slot. Offers
//! are only advice: the rules of incarnations decide, here and on the other servers, which know
//! nothing of rosters.
//!
//! A slot goes first to its home, the process that the run began with in its place. Later a
//! released slot goes to the process that has the fewest. A lost slot goes to a process without
//! slots, such as a spare or the same task started again; the others get it only when half of the
//! time to return is over, or at once if lost processes are not started again. Slot 0 is the
//! coordinator's and is only ever offered to its home.
//!
//! When the run has gone back to a checkpoint the roster is empty, and the processes return with
//! their slots by themselves. Slots whose process has left or died since are then treated as lost,
//! although the run has not started again yet. A resumed run has gone back too, but none of its
//! processes has been on a roster before.

use std::collections::HashMap;

use super::connections::ConnectedPeer;
use super::host::{Host, Level};
use super::roster::{EnrolledProcess, YieldRequest};
use super::state::Server;
use super::violation::Checked;
use crate::members::{MemberState, SlotOffer};
use crate::{ConnId, FrameBody, FrameKind, Header, Hello};

/// How long a process may take to connect for a slot that it was offered.
const OFFER_MS: u64 = 5_000;
/// How long a process may take to give back a slot; it does so between two steps.
const YIELD_MS: u64 = 30_000;
/// How long a slot whose connection broke is kept for its process while that is on the roster.
const RECONNECT_MS: u64 = 1_000;
/// After the run has gone back: how long a slot is kept for a process that may return, if
/// `rejoin_ms` is 0.
const RETURN_MS: u64 = 5_000;

impl Server {
    /// Puts a process on the roster. It replaces an earlier connection of itself, and an earlier
    /// process of the same task, whose slots it takes over.
    pub(super) fn enrol(&mut self, conn: ConnId, hello: &Hello, host: &mut impl Host) {
        let id = hello.process.id;
        let home = (hello.slot != Hello::NO_SLOT).then_some(hello.slot as usize);
        let name = self.roster.name_for(hello, self.config.processes());
        let is_same = |other: &EnrolledProcess| other.id == id || other.name == name;
        let old: Vec<_> = self.roster.processes.extract_if(.., |other| is_same(other)).collect();
        for old in old {
            host.close(old.conn, "replaced by a newer connection");
            self.connections.remove(old.conn);
        }
        for slot in 0..self.members.len() {
            let member = &mut self.members[slot];
            if member.process_name == name && member.process < id {
                member.superseded_by = Some(id);
            }
        }
        self.connections.set(conn, ConnectedPeer::Process(id));
        self.send_control(conn, FrameKind::Enrolled, name.as_bytes(), host);
        if home.is_none() && self.started {
            host.note(Level::Info, &format!("{name} has joined"));
        }
        let was_enrolled = hello.generation.number > 0;
        let process = EnrolledProcess { id, name, home, conn, passed: false, was_enrolled };
        self.roster.processes.push(process);
        self.assign_slots(self.now_ms, host);
    }

    /// Takes a process off the roster, because its connection is gone. It gets no more offers.
    pub(super) fn remove_process(&mut self, id: u64, now_ms: u64, host: &mut impl Host) {
        self.roster.processes.retain(|process| process.id != id);
        self.roster.clear_yield(id);
        for slot in 0..self.members.len() {
            let member = &mut self.members[slot];
            member.offer = member.offer.filter(|offer| offer.process != id);
            member.superseded_by = member.superseded_by.filter(|by| *by != id);
        }
        self.assign_slots(now_ms, host);
    }

    /// Handles a `Release`: a process gives back its slot. The slot stays in the run
    /// and waits for another process. A second `Release`, after a lost connection, changes
    /// nothing.
    pub(super) fn release(
        &mut self,
        slot: usize,
        conn: ConnId,
        report: &[u8],
        host: &mut impl Host,
    ) -> Checked {
        if !self.started || slot == 0 {
            return Err("a release before the start, or of the coordinator's slot".into());
        }
        self.send_control(conn, FrameKind::Bye, &[], host);
        host.close(conn, "released");
        self.connections.remove(conn);
        self.stats.forget(slot);
        for chunk in &mut self.chunks {
            chunk.slots[slot].awaiting_reply = None;
            chunk.slots[slot].pending_keys.clear();
        }
        let member = &mut self.members[slot];
        member.conn = None;
        self.reports.put(member.process, slot, report);
        if member.state == MemberState::Active {
            member.vacant_since_ms = Some(self.now_ms);
            host.note(Level::Info, &format!("{} gives its slot back", member.name));
            self.roster.clear_yield(member.process);
            self.assign_slots(self.now_ms, host);
        }
        Ok(())
    }

    /// Offers the slots that no process fills, and evens out the load.
    pub(super) fn assign_slots(&mut self, now_ms: u64, host: &mut impl Host) {
        if self.config.index != 0 || self.outcome.is_some() || self.roster.processes.is_empty() {
            return;
        }
        self.roster.opened_ms.get_or_insert(now_ms);
        self.expire_offers(now_ms);
        for slot in 0..self.members.len() {
            if self.members[slot].offer.is_none()
                && self.is_open(slot)
                && let Some(to) = self.candidate(slot, now_ms)
            {
                self.offer(slot, to, now_ms, host);
            }
        }
        self.even_out(now_ms, host);
    }

    /// Withdraws offers that were not accepted in time, and marks the processes that let them
    /// expire.
    fn expire_offers(&mut self, now_ms: u64) {
        for slot in 0..self.members.len() {
            let Some(offer) = self.members[slot].offer else { continue };
            if now_ms.saturating_sub(offer.since_ms) >= OFFER_MS {
                self.members[slot].offer = None;
                let mut processes = self.roster.processes.iter_mut();
                if let Some(late) = processes.find(|process| process.id == offer.process) {
                    late.passed = true;
                }
            }
        }
        if self.roster.processes.iter().all(|process| process.passed) {
            self.roster.processes.iter_mut().for_each(|process| process.passed = false);
        }
    }

    /// Whether a slot needs a process. A coordinator that has left still has to end the run.
    fn is_open(&self, slot: usize) -> bool {
        let member = &self.members[slot];
        let counts = self.members.is_live(slot) || slot == 0 && member.state == MemberState::Left;
        counts && (member.conn.is_none() || member.superseded_by.is_some())
    }

    /// The position on the roster of the process that a slot goes to now.
    fn candidate(&self, slot: usize, now_ms: u64) -> Option<usize> {
        let member = &self.members[slot];
        let (processes, rejoin_ms) = (&self.roster.processes, self.config.rejoin_ms);
        if let Some(by) = member.superseded_by {
            return processes.iter().position(|process| process.id == by);
        }
        let home = Some(slot % self.config.processes());
        let at_home = || processes.iter().position(|process| process.home == home);
        let is_here = || self.started && self.roster.has(member.process);
        let away_ms = self.away_ms(slot, now_ms);
        if slot == 0 || !self.started && !self.may_return() {
            return at_home().filter(|_| !is_here() || away_ms >= RECONNECT_MS);
        }
        let loads = self.loads();
        let load = |at: &usize| loads.get(&processes[*at].id).copied().unwrap_or(0);
        let rank = |at: &usize| {
            let EnrolledProcess { passed, home, .. } = processes[*at];
            (passed, load(at), home == Some(0))
        };
        if member.vacant_since_ms.is_some() {
            return (0..processes.len()).min_by_key(rank);
        }
        let is_idle = |at: &usize| load(at) == 0 && !processes[*at].passed;
        let idle_at_home = at_home().filter(is_idle);
        let may_reconnect = is_here() || !self.started && idle_at_home.is_none();
        if may_reconnect && away_ms < RECONNECT_MS {
            return None;
        }
        let idle = (0..processes.len()).filter(is_idle).min_by_key(rank);
        let is_kept = |at: &usize| !self.started && !processes[*at].passed;
        let kept_ms = if rejoin_ms == 0 { RETURN_MS } else { rejoin_ms / 2 };
        let is_late = self.config.roster.reassigns_at_once || away_ms >= kept_ms;
        let any = || (0..processes.len()).filter(|_| is_late).min_by_key(rank);
        idle_at_home.or(idle).or_else(|| at_home().filter(is_kept)).or_else(any)
    }

    /// How long a slot has been without the process that may return for it.
    fn away_ms(&self, slot: usize, now_ms: u64) -> u64 {
        let since_ms = match &self.members[slot].absence {
            Some(absence) => Some(absence.since_ms),
            None => self.roster.opened_ms.filter(|_| !self.started),
        };
        now_ms.saturating_sub(since_ms.unwrap_or(now_ms))
    }

    /// Whether processes may return with slots: the run has begun before (servers that start
    /// together begin in its first generation), and new processes have not enrolled in all places.
    fn may_return(&self) -> bool {
        let is_new = |home| {
            let mut processes = self.roster.processes.iter();
            processes.any(|process| process.home == Some(home) && !process.was_enrolled)
        };
        self.generation.number > 1 && !(0..self.config.processes()).all(is_new)
    }

    /// The number of slots that each process fills or has been offered.
    fn loads(&self) -> HashMap<u64, usize> {
        let mut loads = HashMap::new();
        for slot in self.members.live() {
            let member = &self.members[slot];
            let process = match member.offer {
                Some(offer) => Some(offer.process),
                None => Some(member.process).filter(|_| member.vacant_since_ms.is_none()),
            };
            if let Some(id) = process {
                *loads.entry(id).or_default() += 1;
            }
        }
        loads
    }

    fn offer(&mut self, slot: usize, to: usize, now_ms: u64, host: &mut impl Host) {
        let EnrolledProcess { id, conn, ref name, .. } = self.roster.processes[to];
        let member = &mut self.members[slot];
        member.offer = Some(SlotOffer { process: id, since_ms: now_ms });
        let mut header = Header::new(FrameKind::Offer, 0);
        header.chunk = slot as u32;
        header.version = member.incarnation.unwrap_or(0);
        if self.started {
            host.note(Level::Info, &format!("slot {slot} is offered to {name}"));
        }
        host.send(conn, header, FrameBody::Bytes(&[]));
    }

    /// Asks the process with the most slots for one if another process has two fewer; one at a
    /// time, and only when every slot is filled.
    fn even_out(&mut self, now_ms: u64, host: &mut impl Host) {
        let is_unfilled = |slot: usize| self.members[slot].offer.is_some() || self.is_open(slot);
        let is_yielding =
            |request: YieldRequest| now_ms.saturating_sub(request.since_ms) < YIELD_MS;
        if !self.started
            || self.stopping
            || self.roster.yielding.is_some_and(is_yielding)
            || (0..self.members.len()).any(is_unfilled)
        {
            return;
        }
        let filled = self.loads();
        let load = |process: &EnrolledProcess| filled.get(&process.id).copied().unwrap_or(0);
        let loads = || self.roster.processes.iter().map(load);
        let (Some(least), Some(most)) = (loads().min(), loads().max()) else { return };
        if most < least + 2 {
            return;
        }
        let Some(at) = loads().position(|load| load == most) else { return };
        let EnrolledProcess { id, conn, .. } = self.roster.processes[at];
        self.roster.yielding = Some(YieldRequest { process: id, since_ms: now_ms });
        self.send_control(conn, FrameKind::Yield, &[], host);
    }
}
