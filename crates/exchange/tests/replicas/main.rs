//! Whole runs without servers, played from a seed: frames are delayed and reordered across
//! connections, connections hold little, and workers die. [`recovery`] plays those in which they
//! come back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod plain;
mod recovery;
mod states;

use std::collections::VecDeque;

use paceline_exchange::{
    FrameKind, GreetError, Header, PeerTarget, RefuseCode, Replica, ReplicaConfig, ReplicaEvent,
    as_bytes, worker_names,
};

use plain::{
    Random, Terms, config, examples, gradient, initial, layout, plain, replica, spec, terms,
};

struct Worker {
    replica: Replica,
    grad: Vec<f32>,
    has_said_leave: bool,
    failed: Option<String>,
}

type Frame = (Header, Vec<u8>);

struct World {
    terms: Terms,
    workers: Vec<Worker>,
    /// Frames on their way, by sender and receiver.
    wires: Vec<Vec<VecDeque<Frame>>>,
    dead: Option<usize>,
    /// In whose replica a bit falls over, and after which step.
    fault: Option<(usize, u64)>,
    random: Random,
}

/// Has everybody greet everybody.
fn introduce(replicas: &mut [Replica]) {
    for above in 1..replicas.len() {
        for below in 0..above {
            let (header, hello) = replicas[above].hello(below);
            assert_eq!(replicas[below].accept_hello(&header, &hello), Ok(above));
            let (header, welcome) = replicas[below].welcome();
            assert_eq!(replicas[above].hello_answered(below, &header, &welcome), Ok(None));
        }
    }
    for replica in replicas {
        assert!(replica.is_started());
        replica.plan_catch_up().unwrap();
    }
}

impl World {
    fn new(terms: Terms, seed: u64) -> Self {
        let n = terms.workers;
        let mut replicas: Vec<_> = (0..n).map(|slot| replica(&terms, slot)).collect();
        introduce(&mut replicas);
        let worker =
            |replica| Worker { replica, grad: Vec::new(), has_said_leave: false, failed: None };
        let mut world = World {
            workers: replicas.into_iter().map(worker).collect(),
            wires: vec![vec![VecDeque::new(); n]; n],
            dead: None,
            fault: None,
            random: Random(seed | 1),
            terms,
        };
        (0..n).for_each(|slot| world.begin(slot));
        world
    }

    fn begin(&mut self, slot: usize) {
        let Worker { replica, grad, .. } = &mut self.workers[slot];
        let step = replica.global_step();
        if self.fault == Some((slot, step)) {
            replica.target_bytes(0, &PeerTarget::Params(1..2))[0] ^= 1;
        }
        let has_batch = step < self.terms.steps[slot];
        *grad = gradient(replica.params(), slot, step);
        replica.begin_step(has_batch.then(|| examples(slot, step)));
        self.go_on(slot);
    }

    /// Makes what can be made, and ends what is complete.
    fn go_on(&mut self, slot: usize) {
        let Worker { replica, grad, failed, .. } = &mut self.workers[slot];
        while replica.reduce_chunk(grad) {}
        if failed.is_some() || !replica.is_complete() {
            return;
        }
        if let Err(error) = replica.finish_step() {
            return self.fail(slot, &error.to_string());
        }
        if slot == 0 && self.terms.stop_asked == Some(replica.global_step()) {
            replica.request_stop();
        }
        if !replica.is_over() {
            self.begin(slot);
        }
    }

    fn fail(&mut self, slot: usize, why: &str) {
        self.workers[slot].failed = Some(why.into());
        let (header, body) = Replica::abort(why);
        for other in 0..self.terms.workers {
            self.wires[slot][other].push_back((header, body.clone()));
        }
    }

    /// One frame from a worker onto a wire, if there is one and room.
    fn send(&mut self, from: usize, to: usize) -> bool {
        let worker = &mut self.workers[from];
        if self.wires[from][to].len() >= self.terms.room || worker.failed.is_some() {
            return false;
        }
        let frame = if let Some(next) = worker.replica.next_frame(to) {
            let payload = as_bytes(worker.replica.payload(&next.source, &worker.grad));
            Some((next.header, payload.to_vec()))
        } else if worker.replica.is_over() && from > 0 && to == 0 && !worker.has_said_leave {
            worker.has_said_leave = true;
            Some(worker.replica.leave(format!("report of {from}").as_bytes()))
        } else {
            None
        };
        let sent = frame.is_some();
        self.wires[from][to].extend(frame);
        // Handing out the last frame may be all that the step waited for.
        self.go_on_after_send(from);
        sent
    }

    fn go_on_after_send(&mut self, slot: usize) {
        if !self.workers[slot].replica.is_over() && self.workers[slot].failed.is_none() {
            self.go_on(slot);
        }
    }

    /// One frame off a wire to a worker, if its turn has come.
    fn receive(&mut self, from: usize, to: usize) -> bool {
        if self.dead == Some(to) || self.workers[to].failed.is_some() {
            return false;
        }
        let replica = &mut self.workers[to].replica;
        let Some((header, payload)) = self.wires[from][to].front() else {
            let needs = replica.needs(from);
            // Who is done goes, too.
            if needs && (self.dead == Some(from) || self.is_done(from)) {
                self.fail(to, &format!("lost worker:{from}"));
                return true;
            }
            return false;
        };
        let place = replica.read_target(from, header).unwrap();
        if let Some(likely) = replica.likely_target(from) {
            // What was foretold would have been read there already.
            let is_right = place == likely || payload.is_empty() || header.kind == FrameKind::Abort;
            assert!(is_right, "{header:?} instead of {likely:?}");
        }
        match &place {
            PeerTarget::Later => {
                let has_ended = self.dead == Some(from) || self.workers[from].failed.is_some();
                if !has_ended || !self.workers[to].replica.is_lost_before(header) {
                    return false;
                }
                // Its last word is behind what cannot be read in turn any more.
                let last = self.wires[from][to].back().unwrap();
                let why = match last.0.kind {
                    FrameKind::Abort => String::from_utf8(last.1.clone()).unwrap(),
                    _ => format!("lost worker:{from}"),
                };
                self.fail(to, &why);
                return true;
            }
            PeerTarget::Bytes(len) => assert_eq!(*len, payload.len()),
            _ => replica.target_bytes(from, &place).copy_from_slice(payload),
        }
        let (header, payload) = self.wires[from][to].pop_front().unwrap();
        match replica.frame_arrived(from, &header, &payload) {
            // Said again, so that nobody takes whoever ends next for the cause.
            Ok(ReplicaEvent::Abort(why)) => self.fail(to, &why),
            Ok(ReplicaEvent::Left) => {
                self.wires[to][from].push_back((Replica::bye(), Vec::new()));
            }
            Ok(ReplicaEvent::Progress) => self.go_on(to),
            Ok(ReplicaEvent::Bye) => {}
            Err(error) => self.fail(to, &error.to_string()),
        }
        true
    }

    fn is_done(&self, slot: usize) -> bool {
        let worker = &self.workers[slot];
        let is_let_go = match slot {
            0 => worker.replica.reports().is_some(),
            _ => worker.replica.is_dismissed(),
        };
        self.dead == Some(slot) || worker.failed.is_some() || worker.replica.is_over() && is_let_go
    }

    /// Plays to the end, which must come.
    fn play(mut self) -> Self {
        let n = self.terms.workers;
        for moves in 0.. {
            if let Some((who, when)) = self.terms.death
                && moves == when
                && !self.is_done(who)
            {
                self.dead = Some(who);
                // Some of what it has sent is lost with it.
                for to in 0..n {
                    let keep = self.random.below(self.wires[who][to].len() + 1);
                    self.wires[who][to].truncate(keep);
                }
            }
            if (0..n).all(|slot| self.is_done(slot)) {
                return self;
            }
            let start = self.random.below(2 * n * n);
            let moved = (0..2 * n * n).any(|nth| {
                let which = (start + nth * 7919) % (2 * n * n);
                let (from, to) = (which / 2 / n, which / 2 % n);
                let may_send = from != to && self.dead != Some(from);
                match which % 2 {
                    0 => may_send && self.send(from, to),
                    _ => from != to && self.receive(from, to),
                }
            });
            let is_late = self.terms.death.is_some_and(|(_, when)| moves < when);
            assert!(moved || is_late, "nobody can go on: {:?}", self.terms);
        }
        self
    }
}

#[test]
fn all_replicas_end_with_the_bits_of_a_plain_loop() {
    for seed in 0..3000 {
        let terms = terms(seed);
        let (params, steps) = plain(&terms);
        let world = World::new(terms.clone(), seed).play();
        for worker in &world.workers {
            assert_eq!(worker.failed, None, "{seed}: {terms:?}");
            assert_eq!(worker.replica.global_step(), steps, "{seed}: {terms:?}");
            assert!(as_bytes(worker.replica.params()) == as_bytes(&params), "{seed}: {terms:?}");
        }
        let reports = world.workers[0].replica.reports().unwrap();
        let slots: Vec<_> = reports.iter().filter_map(|report| report.slot).collect();
        assert_eq!(slots, (1..terms.workers as u32).collect::<Vec<_>>(), "{seed}");
    }
}

#[test]
fn a_worker_that_dies_ends_the_run_for_all_and_is_named_by_all() {
    let mut failures = 0;
    for seed in 0..3000 {
        let mut terms = terms(seed);
        let mut random = Random(seed + 77);
        let who = random.below(terms.workers);
        terms.death = Some((who, random.below(120)));
        let (params, _) = plain(&terms);
        let world = World::new(terms.clone(), seed).play();
        let Some(dead) = world.dead else { continue };
        for (slot, worker) in world.workers.iter().enumerate().filter(|(slot, _)| *slot != dead) {
            match &worker.failed {
                Some(why) => {
                    failures += 1;
                    assert_eq!(why, &format!("lost worker:{dead}"), "{seed}: {terms:?}");
                }
                // It died so late that nobody needed it any more.
                None => assert_eq!(worker.replica.params(), params, "{seed} slot {slot}"),
            }
        }
    }
    assert!(failures > 1000, "only {failures} runs failed");
}

#[test]
fn replicas_that_differ_are_found_at_the_next_comparison_and_named() {
    let terms = Terms {
        workers: 3,
        total: 20,
        chunk_floats: 3,
        steps: vec![6; 3],
        stop_steps: None,
        stop_asked: None,
        room: 2,
        death: None,
        recovers: false,
    };
    let mut world = World::new(terms, 5);
    world.fault = Some((2, 4));
    let world = world.play();
    let said: Vec<_> = world.workers.iter().map(|worker| worker.failed.clone().unwrap()).collect();
    assert!(said.iter().all(|why| why.contains("worker:2") && why.contains("differ")), "{said:?}");
}

#[test]
fn strangers_are_told_why_they_are_not_let_in() {
    let terms = terms(3);
    let terms = Terms { workers: 3, ..terms };
    let mut here = replica(&terms, 1);
    let base = config(&terms, 2);
    let refused = |here: &mut Replica, other: ReplicaConfig| {
        let other = Replica::new(other, initial(terms.total), spec(), &layout(terms.total));
        let (header, hello) = other.hello(1);
        match here.accept_hello(&header, &hello) {
            Err(GreetError::Refused { refusal, slot }) => (refusal.code, slot),
            other => panic!("{other:?}"),
        }
    };
    let other = |change: &dyn Fn(&mut ReplicaConfig)| {
        let mut config = base.clone();
        change(&mut config);
        config
    };
    for (config, expected) in [
        (other(&|c| c.token = b"Secret".to_vec()), (RefuseCode::WrongToken, None)),
        (other(&|c| c.job_digest = [9; 32]), (RefuseCode::WrongJob, Some(2))),
        (other(&|c| c.layout_digest = [9; 32]), (RefuseCode::WrongLayout, Some(2))),
        (other(&|c| c.names = worker_names(4)), (RefuseCode::WrongServer, Some(2))),
        (other(&|c| c.slot = 0), (RefuseCode::BadSlot, Some(0))),
    ] {
        assert_eq!(refused(&mut here, config), expected);
    }
    let newer = Replica::new(
        other(&|c| c.incarnation = 5),
        initial(terms.total),
        spec(),
        &layout(terms.total),
    );
    let (header, hello) = newer.hello(1);
    assert_eq!(here.accept_hello(&header, &hello), Ok(2));
    assert_eq!(refused(&mut here, base.clone()), (RefuseCode::SlotTaken, Some(2)));
    let mut broken = hello.clone();
    broken[0] = b'X';
    assert!(matches!(here.accept_hello(&header, &broken), Err(GreetError::Stranger(_))));
}
