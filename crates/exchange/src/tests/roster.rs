//! What server 0 tells the processes that fill slots, case by case.

use super::harness::{JOB, LAYOUT, TestFrame, TestServer, worker_config};
use crate::*;

/// Server 0 of a run with 4 slots, and the processes that connect to it.
struct RosterRun {
    test: TestServer,
    incarnation: u64,
}

/// The number of a process's roster connection.
fn roster_conn(process: u64) -> u64 {
    1_000 + process
}

/// The number of a process's connection for a slot.
fn slot_conn(process: u64, slot: usize) -> u64 {
    10 * process + slot as u64
}

impl RosterRun {
    /// The run begins with this many processes, numbered from 1, which fill all slots.
    fn with(processes: u64) -> Self {
        Self::filled(RosterConfig::default(), processes)
    }

    /// The same with other settings of the roster.
    fn filled(roster: RosterConfig, processes: u64) -> Self {
        let mut run = Self::new(roster, processes);
        for process in 1..=processes {
            run.enrol(process, Some(process - 1));
            for slot in run.offers(process) {
                run.fill(process, slot);
            }
        }
        assert!(run.test.server.is_started());
        run
    }

    /// A run for this many processes, none of which has connected.
    fn empty(processes: u64) -> Self {
        Self::new(RosterConfig::default(), processes)
    }

    fn new(roster: RosterConfig, processes: u64) -> Self {
        let join_info = b"join info".to_vec();
        let config = ServerConfig {
            rejoin_ms: 60_000,
            stall_ms: 600_000,
            roster: RosterConfig { processes: processes as usize, join_info, ..roster },
            ..ServerConfig::new(ModeConfig::Async, 4, 4)
        };
        Self { test: TestServer::dense(config), incarnation: 0 }
    }

    fn enrol(&mut self, process: u64, home: Option<u64>) -> RosterEvent {
        self.enrol_again(process, home, false)
    }

    /// A process enrols that may have been on the roster before. Returns its name or the refusal.
    fn enrol_again(&mut self, process: u64, home: Option<u64>, was_enrolled: bool) -> RosterEvent {
        let name = home.map_or(String::new(), |home| format!("worker:{home}"));
        self.enrol_by(enrolment(process, home, &name, was_enrolled))
    }

    /// A process enrols under a name that may not be that of its home.
    fn enrol_as(&mut self, process: u64, home: Option<u64>, name: &str) -> RosterEvent {
        self.enrol_by(enrolment(process, home, name, false))
    }

    fn enrol_by(&mut self, mut enrolment: Enrolment) -> RosterEvent {
        let process = enrolment.process.id;
        self.test.open(roster_conn(process), enrolment.hello());
        let answers = [FrameKind::Enrolled, FrameKind::Refuse];
        let mut sent = self.test.host.sent.iter().rev();
        let answer = sent
            .find(|(to, header, _)| *to == roster_conn(process) && answers.contains(&header.kind));
        let (_, header, bytes) = answer.unwrap();
        enrolment.frame_arrived(header, bytes).unwrap()
    }

    fn fill(&mut self, process: u64, slot: usize) {
        let name = format!("worker:{}", process - 1);
        self.fill_as(process, slot, &name, slot_conn(process, slot));
    }

    fn fill_as(&mut self, process: u64, slot: usize, name: &str, conn: u64) {
        self.incarnation += 1;
        let config = ClientConfig {
            incarnation: self.incarnation,
            process: ProcessName { id: process, name: name.into() },
            ..worker_config(slot, 4)
        };
        self.test.join(conn, config);
    }

    fn release(&mut self, process: u64, slot: usize) {
        let ControlFrame { header, body: report } = Client::release(b"report".to_vec());
        self.test.send(slot_conn(process, slot), header, &report);
    }

    /// A process dies with all its connections.
    fn die(&mut self, process: u64) {
        (0..4).for_each(|slot| self.test.close(slot_conn(process, slot), "gone"));
        self.test.close(roster_conn(process), "gone");
    }

    fn after(&mut self, ms: u64) {
        self.test.tick(self.test.now_ms + ms);
    }

    fn take_frames(&mut self, process: u64, kind: FrameKind) -> Vec<TestFrame> {
        let is_wanted =
            |to: u64, header: &Header| to == roster_conn(process) && header.kind == kind;
        let sent = &mut self.test.host.sent;
        let taken = sent.extract_if(.., |(to, header, _)| is_wanted(*to, header));
        taken.map(|(_, header, payload)| TestFrame { header, payload }).collect()
    }

    /// The slots that a process has been offered since the last call.
    fn offers(&mut self, process: u64) -> Vec<usize> {
        let offers = self.take_frames(process, FrameKind::Offer);
        offers.iter().map(|offer| offer.header.chunk as usize).collect()
    }

    /// How often a process has been asked to give back a slot.
    fn yields(&self, process: u64) -> usize {
        let yields = self.test.host.texts(FrameKind::Yield);
        yields.iter().filter(|(to, _)| *to == roster_conn(process)).count()
    }
}

fn enrolment(process: u64, home: Option<u64>, name: &str, was_enrolled: bool) -> Enrolment {
    Enrolment {
        process: ProcessName { id: process, name: name.into() },
        home: home.map(|home| home as usize),
        job: JOB.into(),
        layout_digest: LAYOUT,
        wire: WireFormat::F32,
        servers: 1,
        was_enrolled,
    }
}

#[test]
fn slots_go_first_to_the_processes_that_a_run_begins_with_in_turn() {
    let mut run = RosterRun::with(2);
    let holders: Vec<_> =
        (0..4).map(|slot| run.test.server.process_name(slot).to_owned()).collect();
    assert_eq!(holders, ["worker:0", "worker:1", "worker:0", "worker:1"]);
    assert_eq!((run.offers(1), run.offers(2)), (vec![], vec![]));
}

#[test]
fn a_run_that_resumes_waits_only_for_processes_that_may_return_with_slots() {
    for (was_enrolled, at_once) in [(false, [vec![0, 2], vec![1, 3]]), (true, [vec![0], vec![1]])] {
        let mut run = RosterRun::empty(2);
        run.test.server.enter_generation(Generation { number: 2, base: Some(10) });
        for process in 1..=2 {
            run.enrol_again(process, Some(process - 1), was_enrolled);
        }
        assert_eq!([1, 2].map(|process| run.offers(process)), at_once, "{was_enrolled}");
    }
}

#[test]
fn a_process_that_joins_gets_a_slot_from_the_one_with_the_most_and_a_new_name() {
    let mut run = RosterRun::with(1);
    assert_eq!(run.enrol(7, None), RosterEvent::Enrolled("worker:1".into()));
    assert_eq!((run.yields(1), run.offers(7)), (1, vec![]));
    run.release(1, 3);
    assert_eq!(run.offers(7), [3]);
    assert_eq!(run.yields(1), 1, "one at a time");
    run.fill(7, 3);
    assert_eq!(run.yields(1), 2, "3 and 1 become 2 and 2");
    run.release(1, 2);
    run.fill(7, 2);
    assert_eq!(run.enrol(8, None), RosterEvent::Enrolled("worker:2".into()));
    assert_eq!(run.yields(1) + run.yields(7), 3);
}

#[test]
fn a_released_slot_goes_to_the_process_with_the_fewest_and_rather_not_to_the_coordinator() {
    let mut run = RosterRun::with(4);
    run.test.close(roster_conn(3), "leaves");
    run.release(3, 2);
    assert_eq!((run.offers(1), run.offers(2), run.offers(4)), (vec![], vec![2], vec![]));
    // A process that does not take it in time is passed over.
    run.after(10_000);
    assert_eq!((run.offers(1), run.offers(2), run.offers(4)), (vec![], vec![], vec![2]));
    run.fill(4, 2);
    assert_eq!(run.test.server.name(2), "slot 2 (worker:3)");
    assert!(run.test.server.is_live(2));
}

#[test]
fn a_spare_waits_and_takes_over_from_a_dead_process_at_once() {
    let mut run = RosterRun::with(4);
    run.enrol(9, None);
    assert_eq!((run.offers(9), run.yields(1)), (vec![], 0), "no process has two");
    run.die(2);
    run.after(100);
    assert_eq!(run.offers(9), [1]);
    run.fill(9, 1);
    // The task returns, finds its slot filled, and is a spare.
    run.enrol(12, Some(1));
    assert_eq!(run.offers(12), [] as [usize; 0]);
    run.die(9);
    run.after(100);
    assert_eq!(run.offers(12), [1]);
}

#[test]
fn a_lost_slot_goes_to_another_process_at_once_if_lost_processes_do_not_return() {
    let roster = RosterConfig { reassigns_at_once: true, ..RosterConfig::default() };
    let mut run = RosterRun::filled(roster, 4);
    // A process that is still on the roster may connect again.
    run.test.close(slot_conn(2, 1), "cut");
    run.after(900);
    assert_eq!([1, 3, 4].map(|process| run.offers(process).len()), [0, 0, 0]);
    run.test.close(roster_conn(2), "gone");
    assert_eq!(run.offers(3), [1]);
}

#[test]
fn a_lost_slot_is_kept_for_its_task_for_half_of_the_time_to_return() {
    let mut run = RosterRun::with(4);
    run.die(2);
    run.after(29_000);
    assert_eq!([1, 3, 4].map(|process| run.offers(process).len()), [0, 0, 0]);
    run.after(2_000);
    assert_eq!(run.offers(3), [1]);
}

#[test]
fn a_restarted_task_gets_its_slots_even_if_the_old_process_looks_alive() {
    let mut run = RosterRun::with(2);
    // As worker:1, by the name of its home.
    for slot in [1, 3] {
        run.fill_as(2, slot, "worker:1", 500 + slot as u64);
    }
    run.enrol(5, Some(1));
    assert_eq!(run.offers(5), [1, 3]);
    let RosterEvent::Refused(Refusal { code, .. }) = run.enrol(2, Some(1)) else {
        panic!("accepted")
    };
    assert_eq!(code, RefuseCode::SlotTaken, "the old process is superseded");
}

#[test]
fn a_task_takes_neither_the_slot_of_a_connected_one_nor_the_coordinators() {
    let mut run = RosterRun::with(2);
    run.enrol(9, None);
    let held = |run: &RosterRun, slot| run.test.server.process_name(slot).to_owned();
    for (slot, why) in [(0, "is that of worker:0, the coordinator"), (3, "worker:1 fills slot 3")] {
        run.fill_as(9, slot, "worker:8", 700 + slot as u64);
        let refused = run.test.host.texts(FrameKind::Refuse);
        assert!(refused.last().unwrap().1.contains(why), "{refused:?}");
        assert_ne!(held(&run, slot), "worker:8");
    }
    // One that says no name is not taken for the slot's own task.
    for slot in [0, 3] {
        run.fill_as(9, slot, "", 710 + slot as u64);
        let refused = run.test.host.texts(FrameKind::Refuse);
        assert!(refused.last().unwrap().1.contains("a process without a name"), "{refused:?}");
    }
    for place in [0, 1] {
        let refused = run.enrol_as(10, Some(place), "");
        assert!(matches!(refused, RosterEvent::Refused(_)), "{refused:?}");
    }
    // A place on the roster is that of its task, too.
    let refused = run.enrol_as(10, Some(1), "worker:8");
    assert!(matches!(refused, RosterEvent::Refused(_)), "{refused:?}");
    // Without their processes, the coordinator's slot stays its own, and the other is free.
    run.die(1);
    run.die(2);
    run.fill_as(9, 0, "worker:8", 800);
    run.fill_as(9, 3, "worker:8", 803);
    assert_eq!((held(&run, 0), held(&run, 3)), ("worker:0".into(), "worker:8".into()));
}

#[test]
fn a_name_with_the_greatest_number_leaves_numbers_for_others() {
    let mut run = RosterRun::with(2);
    let greatest = format!("worker:{}", usize::MAX);
    assert_eq!(run.enrol_as(9, None, &greatest), RosterEvent::Enrolled(greatest.clone()));
    let names = [10, 11].map(|process| run.enrol_as(process, None, ""));
    assert_eq!(names, ["worker:2", "worker:3"].map(|name| RosterEvent::Enrolled(name.into())));
}

#[test]
fn processes_that_join_leave_room_for_those_that_the_run_began_with_and_for_themselves() {
    let mut run = RosterRun::with(2);
    let mut answers = (100..100 + MAX_WORKERS as u64).map(|process| run.enrol(process, None));
    let joined = answers.by_ref().take_while(|answer| matches!(answer, RosterEvent::Enrolled(_)));
    assert_eq!(joined.count(), MAX_WORKERS - 2);
    assert!(answers.all(|answer| matches!(answer, RosterEvent::Refused(_))));
    // A task that was started again, and one whose connection was lost.
    assert_eq!(run.enrol(5_000, Some(1)), RosterEvent::Enrolled("worker:1".into()));
    run.test.close(roster_conn(5_000), "gone");
    let refused = run.enrol(6_000, None);
    assert!(matches!(refused, RosterEvent::Refused(_)), "the place is that of worker:1");
    let again = run.enrol_as(6_001, None, "worker:9");
    assert_eq!(again, RosterEvent::Enrolled("worker:9".into()), "it replaces itself");
}

#[test]
fn the_coordinators_slot_is_only_offered_to_its_home() {
    let mut run = RosterRun::with(4);
    run.enrol(9, None);
    run.die(1);
    run.after(50_000);
    assert_eq!(run.offers(9), [] as [usize; 0]);
    run.enrol(11, Some(0));
    assert_eq!(run.offers(11), [0]);
    let before = run.test.host.sent.len();
    run.fill(11, 0);
    run.release(11, 0);
    assert!(
        run.test.host.sent[before..].iter().all(|(_, header, _)| header.kind != FrameKind::Bye)
    );
}

#[test]
fn a_slot_that_no_process_takes_fails_the_run_in_time() {
    let mut run = RosterRun::with(4);
    for process in 1..=4 {
        run.test.close(roster_conn(process), "gone");
    }
    run.release(3, 2);
    run.after(599_000);
    assert_eq!(run.test.server.outcome(), None);
    run.after(2_000);
    let Some(Outcome::Failed(why)) = run.test.server.outcome() else { panic!("it continues") };
    assert_eq!(why, "slot 2 was given back, and no process has taken it");
}

#[test]
fn a_newcomer_gets_the_join_information_if_there_is_any() {
    let mut run = RosterRun::with(1);
    run.test.open(90, request_join_info());
    let (to, header, bytes) = run.test.host.sent.last().unwrap();
    assert_eq!((*to, header.kind, &bytes[..]), (90, FrameKind::JoinInfo, &b"join info"[..]));
    let mut closed = TestServer::dense(ServerConfig::new(ModeConfig::Async, 1, 4));
    closed.open(90, request_join_info());
    assert_eq!(closed.host.sent.last().unwrap().1.kind, FrameKind::Refuse);
}
