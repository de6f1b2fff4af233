//! Limits on waits, lost workers, and which clients a server accepts.

use super::harness::{TestServer, worker_config};
use crate::*;

const PARAMS: usize = 4;

fn server(on_loss: OnLoss) -> TestServer {
    let mode = ModeConfig::Sync { quorum: 3 };
    let config = ServerConfig { on_loss, stall_ms: 5_000, ..ServerConfig::new(mode, 3, PARAMS) };
    TestServer::dense(config)
}

/// Three workers have joined, by connections with the numbers of their slots.
fn started(on_loss: OnLoss) -> TestServer {
    let mut test = server(on_loss);
    for slot in 0..3 {
        assert_eq!(test.server.missing().matches("worker:").count(), 3 - slot);
        test.join(slot as u64, worker_config(slot, PARAMS));
    }
    assert!(test.server.is_started() && test.server.missing().is_empty());
    test
}

fn push(test: &mut TestServer, conn: u64, step: u64, now_ms: u64) {
    test.now_ms = now_ms;
    let header = Header { count: 1, sequence: 1, step, ..Header::new(FrameKind::Push, 16) };
    test.send(conn, header, as_bytes(&[1.0; PARAMS]));
}

#[test]
fn a_wait_names_the_missing_worker_and_ends() {
    let mut test = started(OnLoss::Fail);
    push(&mut test, 0, 0, 100);
    push(&mut test, 1, 0, 200);
    (0..5_000).step_by(250).for_each(|now_ms| test.tick(now_ms));
    let notices = test.host.texts(FrameKind::Notice);
    assert_eq!(notices.len(), 3, "{notices:?}");
    assert_eq!(notices[1], (0, "step 0 waits for worker:2 (2 s)".into()));
    test.tick(5_200);
    let why = "step 0 waits for worker:2 (5 s)";
    assert_eq!(test.server.outcome(), Some(&Outcome::Failed(why.into())));
    assert_eq!(test.host.texts(FrameKind::Abort).len(), 3);
}

#[test]
fn the_coordinator_is_not_told_that_it_waits_for_itself() {
    let mut test = started(OnLoss::Fail);
    push(&mut test, 1, 0, 100);
    test.tick(1_500);
    assert_eq!(test.host.texts(FrameKind::Notice), [(0, "step 0 waits for worker:2 (1 s)".into())]);
    push(&mut test, 2, 0, 1_600);
    test.tick(3_000);
    assert_eq!(test.host.texts(FrameKind::Notice).len(), 1, "only worker:0 is missing");
}

#[test]
fn a_gradient_in_pieces_is_timed_from_the_last_answer_to_its_first_chunk() {
    let config = ServerConfig { chunk_floats: 2, ..ServerConfig::new(ModeConfig::Async, 1, 4) };
    let mut test = TestServer::dense(config);
    test.join(0, worker_config(0, PARAMS));
    // The last chunk is final first, and is answered before the first one arrives.
    for (chunk, sequence, now_ms) in [(1, 1, 100), (0, 1, 150), (1, 2, 300), (0, 2, 350)] {
        test.now_ms = now_ms;
        let step = sequence - 1;
        let header = Header { chunk, sequence, step, ..Header::new(FrameKind::Push, 8) };
        test.send(0, header, as_bytes(&[1.0; 2]));
    }
    let slot = &test.server.stats().slots[0];
    assert_eq!((slot.timed, slot.gradient_ms), (1, 200));
}

#[test]
fn a_lost_worker_fails_the_run_or_is_left_behind() {
    let mut test = started(OnLoss::Fail);
    test.close(2, "connection reset");
    let why = "worker:2 was lost: connection reset";
    assert_eq!(test.server.outcome(), Some(&Outcome::Failed(why.into())));

    let mut test = started(OnLoss::Continue);
    push(&mut test, 0, 0, 100);
    push(&mut test, 1, 0, 100);
    assert_eq!(test.server.global_step(), 0);
    test.close(2, "connection reset");
    assert_eq!((test.server.global_step(), test.server.store().params()), (1, &[-1.0f32; 4][..]));
    test.close(0, "connection reset");
    let outcome = test.server.outcome();
    assert!(matches!(outcome, Some(Outcome::Failed(why)) if why.contains("worker:0")));
}

#[test]
fn only_clients_that_agree_on_everything_are_accepted() {
    let check = |change: fn(&mut ClientConfig), slot, code| {
        let mut test = server(OnLoss::Fail);
        let mut config = worker_config(slot, PARAMS);
        change(&mut config);
        test.join(9, config);
        let (_, header, bytes) = &test.host.sent[0];
        assert_eq!(header.kind, FrameKind::Refuse);
        assert_eq!(Refusal::decode(bytes).map(|refusal| refusal.code), Ok(code));
        assert_eq!(test.host.closed.len(), 1);
    };
    check(|config| config.job.digest[3] ^= 1, 0, RefuseCode::WrongJob);
    check(|config| config.layout_digest[3] ^= 1, 0, RefuseCode::WrongLayout);
    check(|config| config.servers = 2, 0, RefuseCode::WrongServer);
    check(|config| config.wire = WireFormat::Bf16, 0, RefuseCode::WrongWire);
    check(|_| {}, 3, RefuseCode::BadSlot);
}

#[test]
fn a_start_names_the_worker_that_was_refused_and_why() {
    let mut test = server(OnLoss::Fail);
    let mut other = worker_config(1, PARAMS);
    other.job.digest[0] ^= 1;
    test.join(9, other);
    let named = "worker:0, worker:1 (refused: it works for another job), worker:2";
    assert_eq!(test.server.missing(), named);
    test.join(1, worker_config(1, PARAMS));
    assert_eq!(test.server.missing(), "worker:0, worker:2");
}

#[test]
fn a_worker_that_ends_because_of_another_server_is_not_taken_for_the_cause() {
    let mut test = started(OnLoss::Fail);
    let why = "worker:2 was lost: connection reset";
    let ControlFrame { header, body } = Client::pass_on_abort(why);
    test.send(1, header, &body);
    test.close(1, "the other end closed it");
    assert_eq!(test.server.outcome(), Some(&Outcome::Failed(why.into())));
    let aborts = test.host.texts(FrameKind::Abort);
    assert!(aborts.contains(&(0, why.into())), "{aborts:?}");
}

#[test]
fn an_older_process_cannot_take_back_a_slot() {
    let mut test = server(OnLoss::Fail);
    let worker = |slot, incarnation| ClientConfig { incarnation, ..worker_config(slot, PARAMS) };
    (0..3).for_each(|slot| test.join(slot as u64, worker(slot, 5)));
    test.join(7, worker(1, 4));
    let (_, _, bytes) = &test.host.sent[test.host.sent.len() - 1];
    let code = Refusal::decode(bytes).map(|refusal| refusal.code);
    assert_eq!(code, Ok(RefuseCode::SlotTaken));
    test.join(8, worker(1, 6));
    assert_eq!(test.host.closed[test.host.closed.len() - 1].0, 1);
    assert_eq!(test.server.outcome(), None);
}

#[test]
fn a_client_that_breaks_the_protocol_is_shut_out_alone() {
    let mut test = started(OnLoss::Continue);
    test.server.connection_opened(crate::ConnId(20), 0);
    push(&mut test, 20, 0, 1);
    test.server.connection_opened(crate::ConnId(21), 1);
    test.tick(10_001);
    push(&mut test, 2, 7, 10_001);
    let expected = [
        (20, "a frame before Hello".to_owned()),
        (21, "no Hello in time".to_owned()),
        (2, "a step ahead of the parameters".to_owned()),
    ];
    assert_eq!(test.host.closed, expected);
    assert_eq!(test.server.outcome(), None);
}
