//! What server 0 tells the processes that fill slots, case by case.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use paceline_exchange::{
    Client, ClientConfig, ConnId, Enrolment, FrameBody, FrameKind, Generation, Header, Host, Level,
    ModeConfig, OnLoss, Outcome, Payload, PeerRole, ProcessName, Refusal, RefuseCode, RosterConfig,
    RosterEvent, Server, ServerConfig, ServerPhase, Stats, Store, request_join_info, worker_names,
};
use paceline_model::{Group, Layout, OptimizerState, Sgd};

/// What a server did.
#[derive(Default)]
struct Log {
    sent: Vec<(u64, Header, Vec<u8>)>,
}

impl Host for Log {
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>) {
        self.sent.push((to.0, header, body.bytes().to_vec()));
    }
    fn close(&mut self, _conn: ConnId, _reason: &str) {}
    fn note(&mut self, _level: Level, _text: &str) {}
    fn report(&mut self, _stats: &Stats) -> Vec<u8> {
        Vec::new()
    }
    fn phase(&mut self, _phase: ServerPhase) {}
}

/// Server 0 of a run with 4 slots, and whoever speaks to it.
struct Room {
    server: Server,
    log: Log,
    now_ms: u64,
    /// The last incarnation that was used.
    incarnation: u64,
}

/// The connection of a process beside those of its slots.
fn control(process: u64) -> u64 {
    1_000 + process
}

impl Room {
    /// The run begins with so many processes, numbered from 1, which fill all slots.
    fn with(processes: u64) -> Self {
        let mut room = Self::empty(processes);
        for process in 1..=processes {
            room.enrol(process, Some(process - 1));
            for slot in room.offers(process) {
                room.fill(process, slot);
            }
        }
        assert!(room.server.is_started());
        room
    }

    /// A run for so many processes, and nobody is here yet.
    fn empty(processes: u64) -> Self {
        let mut layout = Layout::new();
        layout.push("weight", &[4], Group::Weights);
        let config = ServerConfig {
            index: 0,
            servers: 1,
            workers: 4,
            names: worker_names(4),
            mode: ModeConfig::Async,
            stop_steps: None,
            on_loss: OnLoss::Fail,
            rejoin_ms: 60_000,
            stall_ms: 600_000,
            token: b"secret".to_vec(),
            job_digest: [1; 32],
            layout_digest: [2; 32],
            total_params: 4,
            chunk_floats: 4,
            roster: RosterConfig { processes: processes as usize, join_info: b"terms".to_vec() },
        };
        let optimizer = OptimizerState::new(Sgd::new(1.0), &layout, 0..4);
        let server = Server::new(config, Store::dense(vec![0.0; 4], optimizer));
        Self { server, log: Log::default(), now_ms: 0, incarnation: 0 }
    }

    fn say(&mut self, conn: u64, (header, bytes): (Header, Vec<u8>)) {
        let payload = Payload::Bytes(&bytes);
        self.server.frame_arrived(ConnId(conn), &header, payload, self.now_ms, &mut self.log);
    }

    /// A process comes; what it is called, or why it is refused.
    fn enrol(&mut self, process: u64, home: Option<u64>) -> RosterEvent {
        self.enrol_who(process, home, false)
    }

    /// A process comes that may have been here before.
    fn enrol_who(&mut self, process: u64, home: Option<u64>, was_enrolled: bool) -> RosterEvent {
        let name = home.map_or(String::new(), |home| format!("worker:{home}"));
        let mut enrolment = Enrolment {
            process: ProcessName { id: process, name },
            home: home.map(|home| home as usize),
            job_digest: [1; 32],
            layout_digest: [2; 32],
            token: b"secret".to_vec(),
            servers: 1,
            was_enrolled,
        };
        self.server.connection_opened(ConnId(control(process)), self.now_ms);
        self.say(control(process), enrolment.hello());
        let answer = |(to, header, _): &&(u64, Header, Vec<u8>)| {
            *to == control(process)
                && matches!(header.kind, FrameKind::Enrolled | FrameKind::Refuse)
        };
        let (_, header, bytes) = self.log.sent.iter().rev().find(answer).unwrap();
        enrolment.frame_arrived(header, bytes).unwrap()
    }

    /// A process fills a slot, by a connection of the slot's number and its own.
    fn fill(&mut self, process: u64, slot: usize) {
        self.incarnation += 1;
        let client = Client::new(ClientConfig {
            role: PeerRole::Worker,
            slot: slot as u32,
            incarnation: self.incarnation,
            job_digest: [1; 32],
            layout_digest: [2; 32],
            token: b"secret".to_vec(),
            servers: 1,
            total_params: 4,
            is_sparse: false,
            process: ProcessName { id: process, name: format!("p{process}") },
        });
        let conn = ConnId(10 * process + slot as u64);
        self.server.connection_opened(conn, self.now_ms);
        self.say(conn.0, client.hello(0));
    }

    fn release(&mut self, process: u64, slot: usize) {
        self.say(10 * process + slot as u64, Client::release(b"report".to_vec()));
    }

    /// A process dies with all its connections.
    fn die(&mut self, process: u64) {
        let slots = (0..4).map(|slot| 10 * process + slot);
        for conn in slots.chain([control(process)]).collect::<Vec<_>>() {
            self.server.connection_closed(ConnId(conn), "gone", self.now_ms, &mut self.log);
        }
    }

    fn after(&mut self, ms: u64) {
        self.now_ms += ms;
        self.server.tick(self.now_ms, &mut self.log);
    }

    /// The slots that a process has been offered since the last look.
    fn offers(&mut self, process: u64) -> Vec<usize> {
        let of = |kind: FrameKind| move |sent: &(u64, Header, Vec<u8>)| sent.1.kind == kind;
        let is_its = |sent: &&(u64, Header, Vec<u8>)| sent.0 == control(process);
        let sent = self.log.sent.iter().filter(is_its).filter(|sent| of(FrameKind::Offer)(sent));
        let slots = sent.map(|(_, header, _)| header.chunk as usize).collect();
        self.log.sent.retain(|sent| sent.0 != control(process) || !of(FrameKind::Offer)(sent));
        slots
    }

    /// How often a process has been asked to give a slot back.
    fn yields(&self, process: u64) -> usize {
        let is_one = |sent: &&(u64, Header, Vec<u8>)| {
            sent.0 == control(process) && sent.1.kind == FrameKind::Yield
        };
        self.log.sent.iter().filter(is_one).count()
    }
}

#[test]
fn slots_are_first_for_the_processes_that_a_run_begins_with_in_turn() {
    let mut room = Room::with(2);
    let holders: Vec<_> = (0..4).map(|slot| room.server.process_name(slot).to_owned()).collect();
    assert_eq!(holders, ["p1", "p2", "p1", "p2"]);
    assert_eq!((room.offers(1), room.offers(2)), (vec![], vec![]));
}

#[test]
fn a_run_that_goes_on_waits_for_who_may_come_back_with_slots_and_for_nobody_else() {
    for (was_enrolled, at_once) in [(false, [vec![0, 2], vec![1, 3]]), (true, [vec![0], vec![1]])] {
        let mut room = Room::empty(2);
        room.server.enter_generation(Generation { number: 2, base: Some(10) });
        for process in 1..=2 {
            room.enrol_who(process, Some(process - 1), was_enrolled);
        }
        assert_eq!([1, 2].map(|process| room.offers(process)), at_once, "{was_enrolled}");
    }
}

#[test]
fn who_joins_gets_a_slot_of_whoever_has_the_most_and_a_name_nobody_had() {
    let mut room = Room::with(1);
    assert_eq!(room.enrol(7, None), RosterEvent::Enrolled("worker:1".into()));
    assert_eq!((room.yields(1), room.offers(7)), (1, vec![]));
    room.release(1, 3);
    assert_eq!(room.offers(7), [3]);
    assert_eq!(room.yields(1), 1, "one at a time");
    room.fill(7, 3);
    assert_eq!(room.yields(1), 2, "3 and 1 become 2 and 2");
    room.release(1, 2);
    room.fill(7, 2);
    assert_eq!(room.enrol(8, None), RosterEvent::Enrolled("worker:2".into()));
    assert_eq!(room.yields(1) + room.yields(7), 3);
}

#[test]
fn a_released_slot_goes_to_who_has_the_fewest_and_rather_not_to_the_chief() {
    let mut room = Room::with(4);
    room.server.connection_closed(ConnId(control(3)), "leaves", 0, &mut room.log);
    room.release(3, 2);
    assert_eq!((room.offers(1), room.offers(2), room.offers(4)), (vec![], vec![2], vec![]));
    // Who does not take it in time is passed over.
    room.after(10_000);
    assert_eq!((room.offers(1), room.offers(2), room.offers(4)), (vec![], vec![], vec![2]));
    room.fill(4, 2);
    assert_eq!(room.server.name(2), "slot 2 (p4)");
    assert!(room.server.is_live(2));
}

#[test]
fn a_spare_waits_and_takes_over_from_the_dead_at_once() {
    let mut room = Room::with(4);
    room.enrol(9, None);
    assert_eq!((room.offers(9), room.yields(1)), (vec![], 0), "nobody has two");
    room.die(2);
    room.after(100);
    assert_eq!(room.offers(9), [1]);
    room.fill(9, 1);
    // The task comes back, finds its slot filled, and is a spare.
    room.enrol(12, Some(1));
    assert_eq!(room.offers(12), [] as [usize; 0]);
    room.die(9);
    room.after(100);
    assert_eq!(room.offers(12), [1]);
}

#[test]
fn a_lost_slot_is_kept_for_its_task_for_half_of_the_time_and_then_goes_to_the_others() {
    let mut room = Room::with(4);
    room.die(2);
    room.after(29_000);
    assert_eq!([1, 3, 4].map(|process| room.offers(process).len()), [0, 0, 0]);
    room.after(2_000);
    assert_eq!(room.offers(3), [1]);
}

#[test]
fn a_task_that_is_started_again_gets_the_slots_that_it_had_even_if_the_old_looks_alive() {
    let mut room = Room::with(2);
    // As worker:1, by the name of its place.
    for slot in [1, 3] {
        room.incarnation += 1;
        let client = Client::new(ClientConfig {
            role: PeerRole::Worker,
            slot,
            incarnation: room.incarnation,
            job_digest: [1; 32],
            layout_digest: [2; 32],
            token: b"secret".to_vec(),
            servers: 1,
            total_params: 4,
            is_sparse: false,
            process: ProcessName { id: 2, name: "worker:1".into() },
        });
        room.server.connection_opened(ConnId(500 + u64::from(slot)), 0);
        room.say(500 + u64::from(slot), client.hello(0));
    }
    room.enrol(5, Some(1));
    assert_eq!(room.offers(5), [1, 3]);
    let RosterEvent::Refused(Refusal { code, .. }) = room.enrol(2, Some(1)) else {
        panic!("let in")
    };
    assert_eq!(code, RefuseCode::SlotTaken, "the old one is not wanted any more");
}

#[test]
fn the_chiefs_slot_is_for_the_chief_alone() {
    let mut room = Room::with(4);
    room.enrol(9, None);
    room.die(1);
    room.after(50_000);
    assert_eq!(room.offers(9), [] as [usize; 0]);
    room.enrol(11, Some(0));
    assert_eq!(room.offers(11), [0]);
    let before = room.log.sent.len();
    room.fill(11, 0);
    room.release(11, 0);
    assert!(room.log.sent[before..].iter().all(|(_, header, _)| header.kind != FrameKind::Bye));
}

#[test]
fn a_slot_that_nobody_takes_ends_the_run_in_time() {
    let mut room = Room::with(4);
    for process in 1..=4 {
        room.server.connection_closed(ConnId(control(process)), "gone", 0, &mut room.log);
    }
    room.release(3, 2);
    room.after(599_000);
    assert_eq!(room.server.outcome(), None);
    room.after(2_000);
    let Some(Outcome::Failed(why)) = room.server.outcome() else { panic!("it goes on") };
    assert_eq!(why, "slot 2 was given back, and nobody has taken it");
}

#[test]
fn anybody_with_the_token_is_told_the_terms_and_nobody_else() {
    let mut room = Room::with(1);
    for (token, kind) in [("secret", FrameKind::JoinInfo), ("guess", FrameKind::Refuse)] {
        let conn = 90 + token.len() as u64;
        room.server.connection_opened(ConnId(conn), 0);
        room.say(conn, request_join_info(token.as_bytes().to_vec()));
        let (to, header, bytes) = room.log.sent.last().unwrap();
        assert_eq!((*to, header.kind), (conn, kind));
        assert_eq!(bytes == b"terms", kind == FrameKind::JoinInfo);
    }
}
