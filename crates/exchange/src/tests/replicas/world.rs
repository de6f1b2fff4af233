//! A run of replicas, played one random move at a time.
//!
//! What a process does here is what `paceline-net` does over sockets. In a run that recovers, a
//! process that loses a peer closes all its connections and connects to all peers again; in other
//! runs it fails and tells the others why.

use std::collections::{BTreeMap, VecDeque};

use super::pieces::SimMemory;
use super::plan::{ReplicaPlan, examples};
use super::wires::Wire;
use crate::tests::harness::{SeededRandom, TestFrame, mix};
use crate::{FrameKind, PeerTarget, Replica, ReplicaConfig, ReplicaEvent, WholeGradient};

/// Why a run that recovers may fail, if gradients travel as changes.
pub(crate) const LOST_AT_ONCE: &str = "were lost at the same time";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaPhase {
    Gathering,
    CatchingUp,
    Working,
    Leaving,
    Done,
}

pub(crate) struct ReplicaProcess {
    pub(crate) replica: Replica,
    pub(crate) phase: ReplicaPhase,
    memory: SimMemory,
    pub(crate) wires: Vec<Option<usize>>,
    has_said_leave: bool,
    pub(crate) failed: Option<String>,
}

pub(crate) struct ReplicaWorld {
    pub(crate) plan: ReplicaPlan,
    pub(crate) random: SeededRandom,
    pub(crate) processes: Vec<Option<ReplicaProcess>>,
    pub(crate) wires: BTreeMap<usize, Wire>,
    pub(crate) next_wire: usize,
    /// Connections that are not accepted yet, by the slot that was called. They outlive the
    /// process, as a listening socket that the launcher holds does.
    pub(crate) backlogs: Vec<VecDeque<usize>>,
    incarnations: u64,
    /// The moves at which slots die, and those at which they are restarted.
    pub(crate) deaths: Vec<(usize, usize)>,
    restarts: Vec<(usize, usize)>,
    pub(crate) cuts: Vec<usize>,
    /// The slot and the step at which a bit of a replica flips.
    pub(crate) fault: Option<(usize, u64)>,
    moves: usize,
    /// How often a replica sent its state, or a mean.
    pub(crate) transfers: usize,
}

impl ReplicaWorld {
    pub(crate) fn new(plan: ReplicaPlan, seed: u64) -> Self {
        let n = plan.workers;
        let mut world = Self {
            random: SeededRandom::new(mix(!seed)),
            processes: (0..n).map(|_| None).collect(),
            wires: BTreeMap::new(),
            next_wire: 0,
            backlogs: vec![VecDeque::new(); n],
            incarnations: 0,
            deaths: Vec::new(),
            restarts: Vec::new(),
            cuts: Vec::new(),
            fault: None,
            moves: 0,
            transfers: 0,
            plan,
        };
        (0..n).for_each(|slot| world.spawn(slot));
        if !world.plan.recovers {
            // Without recovery, a death before all are connected would be the launcher's matter.
            for above in 1..n {
                for below in 0..above {
                    let connected = world.dial(above, below) && world.accept(below);
                    assert!(connected && world.receive(above, below));
                }
            }
        }
        world
    }

    fn spawn(&mut self, slot: usize) {
        self.incarnations += 1;
        let config = ReplicaConfig { incarnation: self.incarnations, ..self.plan.config(slot) };
        self.processes[slot] = Some(ReplicaProcess {
            replica: self.plan.replica(config),
            phase: ReplicaPhase::Gathering,
            memory: SimMemory::default(),
            wires: vec![None; self.plan.workers],
            has_said_leave: false,
            failed: None,
        });
    }

    fn kill(&mut self, slot: usize) {
        let Some(process) = &self.processes[slot] else { return };
        if process.phase == ReplicaPhase::Done {
            return;
        }
        self.processes[slot] = None;
        let is_its = |(id, wire): &(&usize, &Wire)| {
            wire.slots.contains(&slot) && !self.backlogs[slot].contains(id)
        };
        let its: Vec<_> = self.wires.iter().filter(is_its).map(|(id, _)| *id).collect();
        its.into_iter().for_each(|id| self.close(id, slot, true));
        if self.plan.recovers {
            let when = self.moves + self.random.index(80);
            self.restarts.push((when, slot));
        }
    }

    /// A process fails, and tells the others why before it closes its connections.
    fn fail(&mut self, slot: usize, why: &str) -> bool {
        let may_fail = !self.plan.recovers || why.contains(LOST_AT_ONCE);
        assert!(may_fail, "worker:{slot} fails: {why}");
        let Some(process) = &mut self.processes[slot] else { return false };
        (process.failed, process.phase) = (Some(why.to_owned()), ReplicaPhase::Done);
        for id in process.wires.iter().flatten() {
            if let Some(wire) = self.wires.get_mut(id) {
                let other = 1 - wire.side(slot);
                wire.to[other].push_back(Replica::abort(why).into());
            }
        }
        self.close_all(slot);
        true
    }

    /// The connection to a peer has ended.
    fn lose(&mut self, slot: usize, peer: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        let is_needed = process.replica.needs(peer);
        if !self.plan.recovers {
            return is_needed && self.fail(slot, &format!("lost worker:{peer}"));
        }
        let stays = process.phase == ReplicaPhase::Gathering
            || slot == 0 && process.phase == ReplicaPhase::Leaving;
        if stays {
            self.drop_peer(slot, peer);
        } else if is_needed || process.replica.may_be_awaited() {
            process.memory.end(&mut process.replica, None);
            process.replica.disconnect_all();
            (process.phase, process.has_said_leave) = (ReplicaPhase::Gathering, false);
            self.close_all(slot);
        } else {
            // The process may need the peer later.
            return false;
        }
        true
    }

    /// Does what a process can do without another frame.
    fn advance(&mut self, slot: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        let replica = &mut process.replica;
        match process.phase {
            ReplicaPhase::Gathering if replica.is_started() => {
                if let Err(error) = replica.plan_catch_up() {
                    return self.fail(slot, &error.to_string());
                }
                self.transfers += usize::from(replica.is_sending_state());
                process.phase = ReplicaPhase::CatchingUp;
            }
            ReplicaPhase::CatchingUp if !replica.is_behind() && !replica.is_sending_state() => {
                process.phase = ReplicaPhase::Working;
                if slot == 0 && replica.is_over() {
                    // The others hear of the end when they connect again.
                    (1..self.plan.workers).for_each(|peer| self.drop_peer(slot, peer));
                }
                self.begin_step(slot);
            }
            ReplicaPhase::Working => {
                let memory = &mut process.memory;
                let has_moved = replica.reduce_chunk(memory)
                    || self.random.index(2) == 0 && memory.hand_in(replica);
                memory.take_completed(replica);
                if has_moved || !replica.is_complete() {
                    return has_moved || memory.hand_in(replica);
                }
                let step = replica.global_step();
                match replica.finish_step() {
                    Ok(()) => {
                        memory.end(replica, Some(step));
                        self.begin_step(slot);
                    }
                    Err(error) => return self.fail(slot, &error.to_string()),
                }
            }
            // The last `Bye` is on its way.
            ReplicaPhase::Leaving if slot == 0 && !self.plan.recovers => {
                if replica.reports().is_none() {
                    return false;
                }
                process.phase = ReplicaPhase::Done;
                self.close_all(slot);
            }
            _ => return false,
        }
        true
    }

    fn begin_step(&mut self, slot: usize) {
        let Some(process) = &mut self.processes[slot] else { return };
        let replica = &mut process.replica;
        let step = replica.global_step();
        if slot == 0 && self.plan.stop_after.is_some_and(|after| step >= after) {
            replica.request_stop();
        }
        if replica.is_over() {
            process.phase = ReplicaPhase::Leaving;
            return;
        }
        if self.fault == Some((slot, step)) {
            let none = &mut WholeGradient::none();
            replica.target_bytes(0, &PeerTarget::Params(1..2), none)[0] ^= 1;
        }
        let examples = (step < self.plan.steps[slot]).then(|| examples(slot, step));
        process.memory = SimMemory::begin(&self.plan, replica, slot, examples);
    }

    fn send(&mut self, slot: usize, peer: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        if matches!(process.phase, ReplicaPhase::Gathering | ReplicaPhase::Done) {
            return false;
        }
        let wire = process.wires[peer].and_then(|id| self.wires.get_mut(&id));
        let Some(wire) = wire else { return false };
        let side = wire.side(peer);
        if wire.to[side].len() >= self.plan.room || !wire.is_open[side] || wire.is_cut {
            return false;
        }
        let is_leaving = process.phase == ReplicaPhase::Leaving && slot > 0 && peer == 0;
        let frame = if let Some(next) = process.replica.next_frame(peer, &process.memory) {
            let (replica, source) = (&process.replica, &next.source);
            let parts = [replica.payload(source, &process.memory), replica.payload_tail(source)];
            TestFrame { header: next.header, payload: parts.concat() }
        } else if is_leaving && !process.has_said_leave {
            process.has_said_leave = true;
            process.replica.leave(format!("report of {slot}").as_bytes()).into()
        } else {
            return false;
        };
        wire.to[side].push_back(frame);
        true
    }

    fn receive(&mut self, slot: usize, peer: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        let replica = &mut process.replica;
        let Some(id) = process.wires[peer].filter(|_| process.phase != ReplicaPhase::Done) else {
            let is_missed = peer != slot
                && !matches!(process.phase, ReplicaPhase::Gathering | ReplicaPhase::Done)
                && replica.is_connected(peer)
                && replica.needs(peer);
            return is_missed && self.lose(slot, peer);
        };
        let wire = self.wires.get_mut(&id).unwrap();
        let side = wire.side(slot);
        let has_ended = wire.has_ended(side);
        let Some(TestFrame { header, payload }) = wire.to[side].front() else {
            return has_ended && self.lose(slot, peer);
        };
        if !replica.is_connected(peer) {
            let TestFrame { header, payload } = wire.to[side].pop_front().unwrap();
            if replica.hello_answered(peer, &header, &payload) != Ok(None) {
                self.drop_peer(slot, peer);
            }
            return true;
        }
        let target = match replica.read_target(peer, header) {
            Ok(target) => target,
            Err(error) => {
                assert!(self.plan.recovers, "{error}");
                return self.outdated_frame(slot, peer, id);
            }
        };
        if let Some(likely) = replica.likely_target(peer).filter(|_| !self.plan.recovers) {
            let is_right =
                target == likely || payload.is_empty() || header.kind == FrameKind::Abort;
            assert!(is_right, "{header:?} instead of {likely:?}");
        }
        match &target {
            PeerTarget::Later => {
                if !has_ended || !replica.is_lost_before(header) {
                    return false;
                }
                // The reason may be behind frames that cannot be read any more.
                let last = wire.to[side].back().filter(|last| last.header.kind == FrameKind::Abort);
                let why = last.map(|last| String::from_utf8(last.payload.clone()).unwrap());
                return match why {
                    Some(why) => self.fail(slot, &why),
                    None => self.lose(slot, peer),
                };
            }
            PeerTarget::Bytes(len) => assert_eq!(*len, payload.len()),
            _ => {
                let into = replica.target_bytes(peer, &target, &mut process.memory);
                if self.plan.recovers && has_ended && self.random.index(8) == 0 {
                    // Only half of the payload has arrived.
                    let half = payload.len() / 2;
                    into[..half].copy_from_slice(&payload[..half]);
                    return self.lose(slot, peer);
                }
                into.copy_from_slice(payload);
            }
        }
        self.handle(slot, peer, id)
    }

    /// Handles the first frame of a connection, whose payload is in its target.
    fn handle(&mut self, slot: usize, peer: usize, id: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        let wire = self.wires.get_mut(&id).unwrap();
        let side = wire.side(slot);
        let TestFrame { header, payload } = wire.to[side].pop_front().unwrap();
        match process.replica.frame_arrived(peer, &header, &payload, &mut process.memory) {
            Ok(ReplicaEvent::Left) if !self.plan.recovers => {
                wire.to[1 - side].push_back(Replica::bye().into());
            }
            Ok(ReplicaEvent::Progress | ReplicaEvent::Left) => {}
            Ok(ReplicaEvent::Bye) => {
                process.phase = ReplicaPhase::Done;
                self.close_all(slot);
            }
            // Said again, so that no peer takes the next process that ends for the cause.
            Ok(ReplicaEvent::Abort(why)) => return self.fail(slot, &why),
            Ok(ReplicaEvent::CutShort) => unreachable!("no run here is cut short"),
            Err(error) => return self.fail(slot, &error.to_string()),
        }
        true
    }

    /// A peer sent a frame that is outdated: it is not needed any more, or it is lost.
    fn outdated_frame(&mut self, slot: usize, peer: usize, id: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        if process.replica.needs(peer) {
            return self.lose(slot, peer);
        }
        process.wires[peer] = None;
        self.close(id, slot, false);
        true
    }

    fn describe(&self) -> String {
        let mut text = format!("{:?}\n", self.plan);
        for (slot, process) in self.processes.iter().enumerate() {
            let Some(ReplicaProcess { replica, phase, wires, .. }) = process else { continue };
            let (step, awaited) = (replica.global_step(), replica.awaited());
            text += &format!("{slot}: {phase:?} {step} awaits {awaited:?} {wires:?}\n");
        }
        for (id, wire) in &self.wires {
            let kinds = wire
                .to
                .each_ref()
                .map(|to| to.iter().map(|frame| frame.header.kind).collect::<Vec<_>>());
            text += &format!("{id}: {:?} {:?} {kinds:?}\n", wire.slots, wire.is_open);
        }
        text + &format!("{:?}", self.backlogs)
    }

    /// Whether the run has ended: in one that recovers, when the coordinator has all reports.
    fn is_over(&self) -> bool {
        let has_failed = |process: &ReplicaProcess| process.failed.is_some();
        if self.plan.recovers && self.processes.iter().flatten().any(has_failed) {
            return true;
        }
        if !self.plan.recovers {
            let is_done = |process: &ReplicaProcess| process.phase == ReplicaPhase::Done;
            return self.processes.iter().flatten().all(is_done);
        }
        self.processes[0].as_ref().is_some_and(|coordinator| {
            coordinator.phase == ReplicaPhase::Leaving && coordinator.replica.reports().is_some()
        })
    }

    /// Plays to the end, which must come.
    pub(crate) fn play(mut self) -> Self {
        let n = self.plan.workers;
        loop {
            self.moves += 1;
            let now = self.moves;
            assert!(now < 200_000, "it does not end: {}", self.describe());
            let due = |list: &mut Vec<(usize, usize)>| {
                list.extract_if(.., |(when, _)| *when <= now).collect::<Vec<_>>()
            };
            due(&mut self.deaths).into_iter().for_each(|(_, slot)| self.kill(slot));
            due(&mut self.restarts).into_iter().for_each(|(_, slot)| self.spawn(slot));
            if self.cuts.contains(&now) {
                self.cut();
            }
            if self.is_over() {
                return self;
            }
            let start = self.random.index(5 * n * n);
            let has_moved = (0..5 * n * n).any(|nth| {
                let which = (start + nth * 7919) % (5 * n * n);
                let (slot, peer) = (which / 5 / n, which / 5 % n);
                match which % 5 {
                    0 => self.send(slot, peer),
                    1 => self.receive(slot, peer),
                    2 => self.dial(slot, peer),
                    3 => self.accept(slot),
                    _ => self.advance(slot),
                }
            });
            let is_quiet = self.restarts.is_empty() && self.deaths.is_empty();
            assert!(has_moved || !is_quiet, "no process can continue: {}", self.describe());
        }
    }
}
