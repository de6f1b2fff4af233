//! Runs that survive: any worker may be killed at any moment, also the chief, also all of them,
//! also one that has just come back; connections are cut. Each time a new process comes into the
//! slot. The run must end, and with the bits of a plain loop.
//!
//! What a process does here is what `paceline-net` does over real sockets: whoever loses a peer
//! closes all its connections and finds everybody again.

use std::collections::{BTreeMap, VecDeque};

use paceline_exchange::{Header, PeerTarget, Replica, ReplicaConfig, ReplicaEvent, as_bytes};

use crate::plain::{
    Random, Terms, config, examples, gradient, initial, layout, plain, spec, terms,
};

type Frame = (Header, Vec<u8>);

/// A connection between two slots, of which the higher has called the lower.
struct Wire {
    slots: [usize; 2],
    /// Frames on their way to each end.
    to: [VecDeque<Frame>; 2],
    is_open: [bool; 2],
    is_cut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Gathering,
    CatchingUp,
    Working,
    Leaving,
    Done,
}

struct Process {
    replica: Replica,
    phase: Phase,
    grad: Vec<f32>,
    /// By slot: the connection, and whether it has been answered.
    wires: Vec<Option<usize>>,
    has_said_leave: bool,
}

struct World {
    terms: Terms,
    random: Random,
    processes: Vec<Option<Process>>,
    wires: BTreeMap<usize, Wire>,
    next_wire: usize,
    /// Connections that nobody has accepted yet, by the slot that was called. They outlive the
    /// process, as a listening socket that the launcher holds does.
    backlogs: Vec<VecDeque<usize>>,
    incarnations: u64,
    /// When which slot dies, and when it comes back.
    deaths: Vec<(usize, usize)>,
    returns: Vec<(usize, usize)>,
    /// When a connection is cut.
    cuts: Vec<usize>,
    moves: usize,
    /// How often somebody was sent the state, or a mean.
    helped: usize,
}

impl World {
    fn new(terms: Terms, seed: u64) -> Self {
        let n = terms.workers;
        let mut random = Random(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1);
        for _ in 0..5 {
            random.next();
        }
        let within = 40 + 60 * terms.steps[0] as usize * n;
        let mut deaths: Vec<_> =
            (0..random.below(6)).map(|_| (random.below(within), random.below(n))).collect();
        if random.below(5) == 0 {
            // Everybody at once.
            let when = random.below(within);
            deaths.extend((0..n).map(|slot| (when, slot)));
        }
        let cuts = (0..random.below(3)).map(|_| random.below(within)).collect();
        let mut world = World {
            random,
            processes: (0..n).map(|_| None).collect(),
            wires: BTreeMap::new(),
            next_wire: 0,
            backlogs: vec![VecDeque::new(); n],
            incarnations: 0,
            deaths,
            returns: Vec::new(),
            cuts,
            moves: 0,
            helped: 0,
            terms,
        };
        (0..n).for_each(|slot| world.spawn(slot));
        world
    }

    fn spawn(&mut self, slot: usize) {
        self.incarnations += 1;
        let config = ReplicaConfig { incarnation: self.incarnations, ..config(&self.terms, slot) };
        let total = self.terms.total;
        let replica = Replica::new(config, initial(total), spec(), &layout(total));
        self.processes[slot] = Some(Process {
            replica,
            phase: Phase::Gathering,
            grad: Vec::new(),
            wires: vec![None; self.terms.workers],
            has_said_leave: false,
        });
    }

    fn kill(&mut self, slot: usize) {
        if self.processes[slot].as_ref().is_none_or(|process| process.phase == Phase::Done) {
            return;
        }
        self.processes[slot] = None;
        let is_its = |(id, wire): &(&usize, &Wire)| {
            wire.slots.contains(&slot) && !self.backlogs[slot].contains(id)
        };
        let its: Vec<_> = self.wires.iter().filter(is_its).map(|(id, _)| *id).collect();
        its.into_iter().for_each(|id| self.close(id, slot, true));
        let when = self.moves + self.random.below(80);
        self.returns.push((when, slot));
    }

    /// Closes one end; of what was on its way some may be lost.
    fn close(&mut self, id: usize, slot: usize, may_lose: bool) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let side = usize::from(wire.slots[1] == slot);
        wire.is_open[side] = false;
        wire.to[side].clear();
        if may_lose {
            let keep = self.random.below(wire.to[1 - side].len() + 1);
            wire.to[1 - side].truncate(keep);
        }
        if wire.is_open == [false; 2] {
            self.wires.remove(&id);
        }
    }

    /// A process that has lost somebody begins anew.
    fn disband(&mut self, slot: usize) {
        let Some(process) = &mut self.processes[slot] else { return };
        process.replica.disconnect_all();
        (process.phase, process.has_said_leave) = (Phase::Gathering, false);
        for id in std::mem::take(&mut process.wires).into_iter().flatten() {
            self.close(id, slot, false);
        }
        if let Some(process) = &mut self.processes[slot] {
            process.wires = vec![None; self.terms.workers];
        }
    }

    fn drop_peer(&mut self, slot: usize, peer: usize) {
        let Some(process) = &mut self.processes[slot] else { return };
        process.replica.connection_lost(peer);
        if let Some(id) = process.wires[peer].take() {
            self.close(id, slot, false);
        }
    }

    /// Whether this process lets others in: while it gathers, and a chief at the end.
    fn has_open_door(&self, slot: usize) -> bool {
        self.processes[slot].as_ref().is_some_and(|process| {
            process.phase == Phase::Gathering || slot == 0 && process.phase == Phase::Leaving
        })
    }

    fn dial(&mut self, slot: usize, peer: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        if process.phase != Phase::Gathering || peer >= slot || process.wires[peer].is_some() {
            return false;
        }
        let id = self.next_wire;
        self.next_wire += 1;
        let hello = VecDeque::from([process.replica.hello(peer)]);
        let to = [hello, VecDeque::new()];
        self.wires.insert(id, Wire { slots: [peer, slot], to, is_open: [true; 2], is_cut: false });
        process.wires[peer] = Some(id);
        self.backlogs[peer].push_back(id);
        true
    }

    fn accept(&mut self, slot: usize) -> bool {
        if !self.has_open_door(slot) {
            return false;
        }
        let Some(id) = self.backlogs[slot].pop_front() else { return false };
        let Some((header, hello)) = self.wires.get_mut(&id).and_then(|w| w.to[0].pop_front())
        else {
            self.close(id, slot, false);
            return true;
        };
        let Some(process) = &mut self.processes[slot] else { unreachable!() };
        // An old process may have called before it died.
        let Ok(peer) = process.replica.accept_hello(&header, &hello) else {
            self.close(id, slot, false);
            return true;
        };
        let welcome = process.replica.welcome();
        let old = process.wires[peer].replace(id);
        old.into_iter().for_each(|old| self.close(old, slot, false));
        if let Some(wire) = self.wires.get_mut(&id).filter(|wire| wire.is_open[1]) {
            wire.to[1].push_back(welcome);
        }
        true
    }

    /// Goes on as far as it can without hearing anything.
    fn go_on(&mut self, slot: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        let replica = &mut process.replica;
        match process.phase {
            Phase::Gathering if replica.is_started() => {
                replica.plan_catch_up().unwrap();
                self.helped += usize::from(replica.is_sending_state());
                process.phase = Phase::CatchingUp;
            }
            Phase::CatchingUp if !replica.is_behind() && !replica.is_sending_state() => {
                process.phase = Phase::Working;
                if slot == 0 && replica.is_over() {
                    // Everybody is to know.
                    (1..self.terms.workers).for_each(|peer| self.drop_peer(slot, peer));
                }
                self.begin(slot);
            }
            Phase::Working => {
                let made = replica.reduce_chunk(&process.grad);
                if made || !replica.is_complete() {
                    return made;
                }
                replica.finish_step().unwrap();
                self.begin(slot);
            }
            _ => return false,
        }
        true
    }

    fn begin(&mut self, slot: usize) {
        let Some(Process { replica, grad, phase, .. }) = &mut self.processes[slot] else { return };
        let step = replica.global_step();
        if slot == 0 && self.terms.stop_asked.is_some_and(|asked| step >= asked) {
            replica.request_stop();
        }
        if replica.is_over() {
            *phase = Phase::Leaving;
            return;
        }
        *grad = gradient(replica.params(), slot, step);
        replica.begin_step((step < self.terms.steps[slot]).then(|| examples(slot, step)));
    }

    fn send(&mut self, slot: usize, peer: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        if matches!(process.phase, Phase::Gathering | Phase::Done) {
            return false;
        }
        let Some(wire) = process.wires[peer].and_then(|id| self.wires.get_mut(&id)) else {
            return false;
        };
        let side = usize::from(wire.slots[1] == peer);
        if wire.to[side].len() >= self.terms.room || !wire.is_open[side] || wire.is_cut {
            return false;
        }
        let frame = if let Some(next) = process.replica.next_frame(peer) {
            let payload = as_bytes(process.replica.payload(&next.source, &process.grad));
            (next.header, payload.to_vec())
        } else if process.phase == Phase::Leaving
            && slot > 0
            && peer == 0
            && !process.has_said_leave
        {
            process.has_said_leave = true;
            process.replica.leave(format!("report of {slot}").as_bytes())
        } else {
            return false;
        };
        wire.to[side].push_back(frame);
        true
    }

    fn receive(&mut self, slot: usize, peer: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        let Some(id) = process.wires[peer].filter(|_| process.phase != Phase::Done) else {
            let is_missed = peer != slot
                && !matches!(process.phase, Phase::Gathering | Phase::Done)
                && process.replica.is_connected(peer)
                && process.replica.needs(peer);
            return is_missed && self.lose(slot, peer);
        };
        let replica = &mut process.replica;
        let wire = self.wires.get_mut(&id).unwrap();
        let side = usize::from(wire.slots[1] == slot);
        let has_ended = !wire.is_open[1 - side] || wire.is_cut;
        let Some((header, payload)) = wire.to[side].front() else {
            if !has_ended {
                return false;
            }
            return self.lose(slot, peer);
        };
        if !replica.is_connected(peer) {
            let (header, payload) = wire.to[side].pop_front().unwrap();
            if replica.hello_answered(peer, &header, &payload) != Ok(None) {
                self.drop_peer(slot, peer);
            }
            return true;
        }
        let Ok(place) = replica.read_target(peer, header) else {
            // It believes what is no longer so. Then it is needed no more, or lost.
            if let Some(process) = &mut self.processes[slot]
                && !process.replica.needs(peer)
            {
                process.wires[peer] = None;
                self.close(id, slot, false);
                return true;
            }
            return self.lose(slot, peer);
        };
        match &place {
            PeerTarget::Later => {
                return has_ended && replica.is_lost_before(header) && self.lose(slot, peer);
            }
            PeerTarget::Bytes(len) => assert_eq!(*len, payload.len()),
            _ => {
                let into = replica.target_bytes(peer, &place);
                if has_ended && self.random.below(8) == 0 {
                    // Only a piece of the payload has come.
                    let cut = payload.len() / 2;
                    into[..cut].copy_from_slice(&payload[..cut]);
                    return self.lose(slot, peer);
                }
                into.copy_from_slice(payload);
            }
        }
        let (header, payload) = wire.to[side].pop_front().unwrap();
        match replica.frame_arrived(peer, &header, &payload) {
            Ok(ReplicaEvent::Bye) => process.phase = Phase::Done,
            Ok(ReplicaEvent::Progress | ReplicaEvent::Left) => {}
            other => panic!("{other:?}"),
        }
        true
    }

    /// The connection to a peer is gone.
    fn lose(&mut self, slot: usize, peer: usize) -> bool {
        let Some(process) = &mut self.processes[slot] else { return false };
        match process.phase {
            Phase::Gathering => self.drop_peer(slot, peer),
            // A chief at the end stays where it is.
            Phase::Leaving if slot == 0 => self.drop_peer(slot, peer),
            _ if process.replica.needs(peer) || process.replica.may_be_awaited() => {
                self.disband(slot);
            }
            // It may be needed later.
            _ => return false,
        }
        true
    }

    /// Where everybody stands, for whoever looks for a fault.
    fn describe(&self) -> String {
        let mut text = format!("{:?}\n", self.terms);
        for (slot, process) in self.processes.iter().enumerate() {
            let Some(Process { replica, phase, wires, .. }) = process else { continue };
            let here: Vec<_> =
                replica.others().filter(|&peer| replica.is_connected(peer)).collect();
            let (step, awaited) = (replica.global_step(), replica.awaited());
            text +=
                &format!("{slot}: {phase:?} {step} here {here:?} awaits {awaited:?} {wires:?}\n");
        }
        for (id, wire) in &self.wires {
            let kinds = wire.to.clone().map(|to| to.iter().map(|f| f.0.kind).collect::<Vec<_>>());
            text +=
                &format!("{id}: {:?} {:?} {} {kinds:?}\n", wire.slots, wire.is_open, wire.is_cut);
        }
        text + &format!("{:?}", self.backlogs)
    }

    /// Plays until the chief has everybody's report.
    fn play(mut self) -> Self {
        let n = self.terms.workers;
        loop {
            self.moves += 1;
            assert!(self.moves < 200_000, "it does not end: {}", self.describe());
            let now = self.moves;
            let take = |list: &mut Vec<(usize, usize)>| {
                let due: Vec<_> = list.iter().filter(|(when, _)| *when <= now).copied().collect();
                list.retain(|(when, _)| *when > now);
                due
            };
            for (_, slot) in take(&mut self.deaths) {
                self.kill(slot);
            }
            for (_, slot) in take(&mut self.returns) {
                self.spawn(slot);
            }
            if self.cuts.contains(&now) && !self.wires.is_empty() {
                let nth = self.random.below(self.wires.len());
                let (id, slots) = self.wires.iter().nth(nth).map(|(id, w)| (*id, w.slots)).unwrap();
                let is_accepted = !self.backlogs[slots[0]].contains(&id);
                if let Some(wire) = self.wires.get_mut(&id).filter(|_| is_accepted) {
                    wire.is_cut = true;
                }
            }
            let chief = self.processes[0].as_ref();
            let is_over = chief.is_some_and(|chief| {
                chief.phase == Phase::Leaving && chief.replica.reports().is_some()
            });
            if is_over {
                return self;
            }
            let start = self.random.below(5 * n * n);
            let moved = (0..5 * n * n).any(|nth| {
                let which = (start + nth * 7919) % (5 * n * n);
                let (slot, peer) = (which / 5 / n, which / 5 % n);
                match which % 5 {
                    0 => self.send(slot, peer),
                    1 => self.receive(slot, peer),
                    2 => self.dial(slot, peer),
                    3 => self.accept(slot),
                    _ => self.go_on(slot),
                }
            });
            let is_quiet = self.returns.is_empty() && self.deaths.is_empty();
            assert!(moved || !is_quiet, "nobody can go on: {}", self.describe());
        }
    }
}

#[test]
fn a_run_ends_with_the_bits_of_a_plain_loop_whoever_dies_and_comes_back() {
    let (mut helped, mut died) = (0, 0);
    for seed in 0..seeds() {
        let terms = Terms { recovers: true, ..terms(seed) };
        let (params, steps) = plain(&terms);
        let world = World::new(terms.clone(), seed);
        let planned = world.deaths.len();
        let world = world.play();
        died += planned - world.deaths.len();
        helped += world.helped;
        let chief = world.processes[0].as_ref().unwrap();
        assert_eq!(chief.replica.reports().unwrap().len(), terms.workers - 1, "{seed}: {terms:?}");
        for process in world.processes.iter().flatten() {
            if process.phase != Phase::Leaving {
                continue;
            }
            assert_eq!(process.replica.global_step(), steps, "{seed}: {terms:?}");
            assert!(as_bytes(process.replica.params()) == as_bytes(&params), "{seed}: {terms:?}");
        }
    }
    assert!(died > 1000 && helped > 500, "{died} deaths, {helped} times somebody was helped");
}

/// How many runs are played: `PACELINE_SEEDS`, or enough for every day.
fn seeds() -> u64 {
    std::env::var("PACELINE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4000)
}
