//! Runs that are ended in the middle of a step.

use super::harness::{TestServer, worker_config};
use crate::*;

const PARAMS: usize = 4;

/// Two workers of `sync` have joined a server of two chunks.
fn started() -> TestServer {
    let mode = ModeConfig::Sync { quorum: 2 };
    let config = ServerConfig { chunk_floats: 2, ..ServerConfig::new(mode, 2, PARAMS) };
    let mut test = TestServer::dense(config);
    (0..2).for_each(|slot| test.join(slot as u64, worker_config(slot, PARAMS)));
    test
}

fn push(test: &mut TestServer, conn: u64, chunk: u32) {
    let header = Header { chunk, count: 1, sequence: 1, ..Header::new(FrameKind::Push, 8) };
    test.send(conn, header, as_bytes(&[1.0; 2]));
}

/// The answers so far: to which connection, for which chunk, of which version, and whether they
/// drop the gradient and ask to stop.
fn answers(test: &TestServer) -> Vec<(u64, u32, u64, bool)> {
    let params = test.host.sent.iter().filter(|(_, header, _)| header.kind == FrameKind::Params);
    let answer = |(conn, header, _): &(u64, Header, Vec<u8>)| {
        let is_end = header.flags.contains(Flags::STOP | Flags::DROPPED);
        (*conn, header.chunk, header.version, is_end)
    };
    params.map(answer).collect()
}

#[test]
fn a_server_of_a_run_that_is_cut_short_applies_nothing_more_and_answers_at_once() {
    let mut test = started();
    push(&mut test, 0, 1);
    push(&mut test, 1, 1);
    assert_eq!(answers(&test), [(0, 1, 1, false), (1, 1, 1, false)]);
    // The coordinator has pushed the other chunk, and worker 1 gives up its gradient.
    push(&mut test, 0, 0);
    test.send(1, Client::cut_short(), &[]);
    assert_eq!(answers(&test)[2..], [(0, 0, 0, true)]);
    // What was on its way is dropped.
    push(&mut test, 1, 0);
    assert_eq!(answers(&test)[3..], [(1, 0, 0, true)]);
    assert_eq!(test.server.global_step(), 0);
    // One chunk has made the step and the other has not: that is no checkpoint.
    for conn in [0, 1] {
        test.send(conn, Header::new(FrameKind::Leave, 0), &[]);
    }
    test.send(0, Client::checkpoint(0), &[]);
    assert!(test.host.checkpoints.is_empty());
    test.send(0, Client::finish(), &[]);
    assert_eq!(test.server.outcome(), Some(&Outcome::Done));
}

#[test]
fn a_run_that_is_cut_short_between_two_steps_has_a_last_checkpoint() {
    let mut test = started();
    for chunk in [1, 0] {
        push(&mut test, 0, chunk);
        push(&mut test, 1, chunk);
    }
    test.send(0, Client::cut_short(), &[]);
    for conn in [0, 1] {
        test.send(conn, Header::new(FrameKind::Leave, 0), &[]);
    }
    test.send(0, Client::checkpoint(1), &[]);
    let steps: Vec<_> = test.host.checkpoints.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [1]);
}

#[test]
fn a_coordinator_may_end_a_run_that_was_cut_short_before_all_have_left() {
    let mut test = started();
    test.send(0, Client::cut_short(), &[]);
    test.send(0, Header::new(FrameKind::Leave, 0), &[]);
    test.send(0, Client::finish(), &[]);
    assert_eq!(test.server.outcome(), Some(&Outcome::Done));
}
