//! Who fills which slot: server 0 keeps the roster of the processes, and allots.
//!
//! A slot is a place in the plan and not a process, so processes may come and go while the plan
//! stays as it is. Every process that would fill slots has a connection to server 0 beside those
//! of its slots; over it, it is offered slots that nobody fills, and asked to give one back when
//! another has two fewer. Whether it takes an offer is seen by its `Hello` for the slot: offers
//! are advice, and the rules of incarnations decide, here and on the other servers, which know
//! nothing of rosters.
//!
//! Slots are first for the process that the run was begun with in their place. Later a released
//! slot goes to whoever has the fewest. A lost one goes to who has none, such as a spare or the
//! same task started again; the others take it only when half of the time is over in which it
//! may come back. Slot 0 is the chief's, and only ever offered to its own place.
//!
//! When the run has gone back to a checkpoint the roster is empty, and whoever filled a slot comes
//! back with it by itself. Slots that nobody comes back with, because their process has left or
//! died since, are then treated as lost ones, though the run has not started anew yet. A run that
//! is resumed has gone back too, but there nobody has been on a roster before.

use std::collections::HashMap;

use super::Server;
use super::connections::Peer;
use crate::members::{Offer, Standing};
use crate::{ConnId, FrameKind, Header, Hello, Host, Level, MAX_WORKERS};

/// How long a process may take to connect for a slot that it was offered.
const OFFER_MS: u64 = 5_000;
/// How long a process may take to give a slot back; it is asked between two steps.
const YIELD_MS: u64 = 30_000;
/// How long a slot whose connection broke is kept for its process while that is still here.
const RECONNECT_MS: u64 = 1_000;
/// After the run has gone back: how long a slot is kept for who may come back, if workers are not
/// waited for otherwise.
const RETURN_MS: u64 = 5_000;
/// The most processes that are on the roster at a time.
pub(super) const MAX_PROCESSES: usize = MAX_WORKERS;

/// The processes that would fill slots.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// In the order in which they came.
    processes: Vec<Enrolled>,
    /// Who was asked to give a slot back, and when.
    yielding: Option<(u64, u64)>,
    /// The number of the next process that has no name.
    next_index: usize,
    /// When the first process came.
    opened_ms: Option<u64>,
}

/// One process on the roster.
#[derive(Debug)]
struct Enrolled {
    id: u64,
    name: String,
    /// Its place among the processes that the run began with.
    home: Option<usize>,
    conn: ConnId,
    /// It let an offer go by; others are asked first.
    passed: bool,
    /// It has been on the run's roster before, and may come back with slots.
    was_enrolled: bool,
}

impl Roster {
    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }

    fn has(&self, id: u64) -> bool {
        self.processes.iter().any(|process| process.id == id)
    }

    /// Whether a newer process has this place.
    pub(super) fn is_superseded(&self, home: usize, id: u64) -> bool {
        self.processes.iter().any(|process| process.home == Some(home) && process.id > id)
    }

    /// The name of a process that has none, which nobody had before.
    fn name_for(&mut self, hello: &Hello, processes: usize) -> String {
        let told = &hello.process.name;
        let number = told.rsplit_once(':').and_then(|(_, number)| number.parse::<usize>().ok());
        let taken = number.map_or(0, |number| number.saturating_add(1));
        self.next_index = self.next_index.max(processes).max(taken);
        if !told.is_empty() {
            return told.clone();
        }
        self.next_index += 1;
        format!("worker:{}", self.next_index - 1)
    }
}

impl Server {
    /// Puts a process on the roster. It takes the place of an earlier connection of itself, and
    /// of an earlier process of the same task, whose slots it is to take over.
    pub(super) fn enrol(&mut self, conn: ConnId, hello: &Hello, now_ms: u64, host: &mut impl Host) {
        let id = hello.process.id;
        let home = (hello.slot != Hello::NO_SLOT).then_some(hello.slot as usize);
        let name = self.roster.name_for(hello, self.config.processes());
        let is_same = |other: &Enrolled| other.id == id || other.name == name;
        let old: Vec<_> = self.roster.processes.extract_if(.., |other| is_same(other)).collect();
        for old in old {
            host.close(old.conn, "replaced by a newer connection");
            self.connections.remove(old.conn);
        }
        for slot in 0..self.members.len() {
            let member = &mut self.members[slot];
            if member.holder == name && member.process < id {
                member.superseded_by = Some(id);
            }
        }
        self.connections.set(conn, Peer::Process(id));
        self.say(conn, FrameKind::Enrolled, name.as_bytes(), host);
        if home.is_none() && self.started {
            host.note(Level::Info, &format!("{name} has joined"));
        }
        let (passed, was_enrolled) = (false, hello.generation.number > 0);
        self.roster.processes.push(Enrolled { id, name, home, conn, passed, was_enrolled });
        self.allot(now_ms, host);
    }

    /// A process has gone, or lost its connection: nothing is offered to it any more.
    pub(super) fn strike_off(&mut self, id: u64, now_ms: u64, host: &mut impl Host) {
        self.roster.processes.retain(|process| process.id != id);
        self.roster.yielding = self.roster.yielding.filter(|(who, _)| *who != id);
        for slot in 0..self.members.len() {
            let member = &mut self.members[slot];
            member.offer = member.offer.filter(|offer| offer.process != id);
            member.superseded_by = member.superseded_by.filter(|by| *by != id);
        }
        self.allot(now_ms, host);
    }

    /// A process gives its slot back in good order: the slot stays in the run, and waits for
    /// another process. Saying it twice, after a lost connection, is no harm.
    pub(super) fn release(
        &mut self,
        slot: usize,
        conn: ConnId,
        report: &[u8],
        now_ms: u64,
        host: &mut impl Host,
    ) -> Result<(), super::Violation> {
        if !self.started || slot == 0 {
            return Err("a release before the start, or of the chief's slot".into());
        }
        self.say(conn, FrameKind::Bye, &[], host);
        host.close(conn, "released");
        self.connections.remove(conn);
        self.stats.forget(slot);
        for chunk in &mut self.chunks {
            chunk.slots[slot].awaiting_reply = None;
            chunk.slots[slot].pending_keys.forget();
        }
        let member = &mut self.members[slot];
        member.conn = None;
        self.reports.put(member.process, slot, report);
        if member.standing == Standing::In {
            member.vacant_since_ms = Some(now_ms);
            host.note(Level::Info, &format!("{} gives its slot back", member.name));
            let process = member.process;
            self.roster.yielding = self.roster.yielding.filter(|(who, _)| *who != process);
            self.allot(now_ms, host);
        }
        Ok(())
    }

    /// Offers the slots that nobody fills to whom they are for, and evens out.
    pub(super) fn allot(&mut self, now_ms: u64, host: &mut impl Host) {
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

    /// Forgets offers that were not taken in time, and remembers by whom.
    fn expire_offers(&mut self, now_ms: u64) {
        for slot in 0..self.members.len() {
            let Some(offer) = self.members[slot].offer else { continue };
            if now_ms.saturating_sub(offer.since_ms) >= OFFER_MS {
                self.members[slot].offer = None;
                let mut processes = self.roster.processes.iter_mut();
                if let Some(who) = processes.find(|process| process.id == offer.process) {
                    who.passed = true;
                }
            }
        }
        if self.roster.processes.iter().all(|process| process.passed) {
            self.roster.processes.iter_mut().for_each(|process| process.passed = false);
        }
    }

    /// Whether a slot needs a process. A chief that has left still has the run to end.
    fn is_open(&self, slot: usize) -> bool {
        let member = &self.members[slot];
        let counts = self.members.is_live(slot) || slot == 0 && member.standing == Standing::Left;
        counts && (member.conn.is_none() || member.superseded_by.is_some())
    }

    /// Whom a slot is for now, by its place on the roster.
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
        if slot == 0 || !self.started && !self.has_come_back() {
            return at_home().filter(|_| !is_here() || away_ms >= RECONNECT_MS);
        }
        let loads = self.loads();
        let load = |at: &usize| loads.get(&processes[*at].id).copied().unwrap_or(0);
        let rank = |at: &usize| {
            let Enrolled { passed, home, .. } = processes[*at];
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
        let is_late = away_ms >= if rejoin_ms == 0 { RETURN_MS } else { rejoin_ms / 2 };
        let anybody = || (0..processes.len()).filter(|_| is_late).min_by_key(rank);
        idle_at_home.or(idle).or_else(|| at_home().filter(is_kept)).or_else(anybody)
    }

    /// For how long nobody has been here for a slot that somebody may come back for.
    fn away_ms(&self, slot: usize, now_ms: u64) -> u64 {
        let since_ms = match &self.members[slot].away {
            Some(away) => Some(away.since_ms),
            None => self.roster.opened_ms.filter(|_| !self.started),
        };
        now_ms.saturating_sub(since_ms.unwrap_or(now_ms))
    }

    /// Whether somebody may come back with slots: the run has begun before (servers that start
    /// together begin in its first generation), and it is not begun anew by new processes in all
    /// places.
    fn has_come_back(&self) -> bool {
        let is_new = |home| {
            let mut processes = self.roster.processes.iter();
            processes.any(|process| process.home == Some(home) && !process.was_enrolled)
        };
        self.generation.number > 1 && !(0..self.config.processes()).all(is_new)
    }

    /// How many slots each process fills or is about to.
    fn loads(&self) -> HashMap<u64, usize> {
        let mut loads = HashMap::new();
        for slot in self.members.live() {
            let member = &self.members[slot];
            let whose = match member.offer {
                Some(offer) => Some(offer.process),
                None => Some(member.process).filter(|_| member.vacant_since_ms.is_none()),
            };
            if let Some(id) = whose {
                *loads.entry(id).or_default() += 1;
            }
        }
        loads
    }

    fn offer(&mut self, slot: usize, to: usize, now_ms: u64, host: &mut impl Host) {
        let Enrolled { id, conn, ref name, .. } = self.roster.processes[to];
        let member = &mut self.members[slot];
        member.offer = Some(Offer { process: id, since_ms: now_ms });
        let mut header = Header::new(FrameKind::Offer, 0);
        header.chunk = slot as u32;
        header.version = member.incarnation.unwrap_or(0);
        if self.started {
            host.note(Level::Info, &format!("slot {slot} is offered to {name}"));
        }
        host.send(conn, header, crate::FrameBody::Bytes(&[]));
    }

    /// Asks who has the most slots for one if somebody has two fewer; one at a time, and only
    /// when every slot is filled.
    fn even_out(&mut self, now_ms: u64, host: &mut impl Host) {
        let is_pending = |&slot: &usize| self.members[slot].offer.is_some() || self.is_open(slot);
        let asked_ms = self.roster.yielding.map(|(_, since_ms)| now_ms.saturating_sub(since_ms));
        if !self.started
            || self.stopping
            || asked_ms.is_some_and(|ms| ms < YIELD_MS)
            || (0..self.members.len()).any(|slot| is_pending(&slot))
        {
            return;
        }
        let filled = self.loads();
        let load = |process: &Enrolled| filled.get(&process.id).copied().unwrap_or(0);
        let loads = || self.roster.processes.iter().map(load);
        let (Some(least), Some(most)) = (loads().min(), loads().max()) else { return };
        if most < least + 2 {
            return;
        }
        let Some(at) = loads().position(|load| load == most) else { return };
        let Enrolled { id, conn, .. } = self.roster.processes[at];
        self.roster.yielding = Some((id, now_ms));
        self.say(conn, FrameKind::Yield, &[], host);
    }
}
