//! A checkpoint is consistent, and a server that is restored from it resumes there.

use super::harness::{TestServer, worker_config};
use crate::*;

const PARAMS: usize = 6;
const CHUNKS: usize = 3;

/// A server with two workers and three chunks; restored, if there is a state to resume from.
fn server(mode: ModeConfig, resume: Option<&ResumeState>) -> TestServer {
    let chunk_floats = PARAMS / CHUNKS;
    let config = ServerConfig { chunk_floats, ..ServerConfig::new(mode, 2, PARAMS) };
    let mut test = TestServer::dense(config);
    resume.into_iter().for_each(|resume| test.server.resume(resume));
    (0..2).for_each(|slot| test.join(slot as u64, worker_config(slot, PARAMS)));
    test
}

fn push(test: &mut TestServer, slot: u64, chunk: u32, sequence: u64) {
    let header = Header::new(FrameKind::Push, 8);
    let header = Header { chunk, count: 1, sequence, step: sequence - 1, ..header };
    test.send(slot, header, as_bytes(&[1.0; 2]));
}

fn request(test: &mut TestServer, slot: u64, step: u64) {
    test.send(slot, Client::checkpoint(step), &[]);
}

/// The step of each checkpoint taken, and the versions of its chunks.
fn taken(test: &TestServer) -> Vec<(u64, Vec<u64>)> {
    let versions = |marks: &[ChunkMarks]| marks.iter().map(|chunk| chunk.version).collect();
    test.host.checkpoints.iter().map(|(step, copy)| (*step, versions(&copy.marks))).collect()
}

#[test]
fn in_sync_it_is_taken_when_all_chunks_have_made_the_step() {
    let mut test = server(ModeConfig::Sync { quorum: 2 }, None);
    request(&mut test, 0, 2);
    for sequence in 1..=3 {
        for (slot, chunk) in [(1, 2), (0, 0), (0, 1), (1, 0), (0, 2), (1, 1)] {
            push(&mut test, slot, chunk, sequence);
        }
    }
    let slots = vec![SlotMark { last_sequence: 2, step: 1 }; 2];
    assert_eq!(taken(&test), [(2, vec![2; CHUNKS])]);
    let copy = &test.host.checkpoints[0].1;
    assert_eq!(copy.params, [-2.0; PARAMS]);
    assert_eq!(copy.marks, vec![ChunkMarks { version: 2, slots }; CHUNKS]);
    assert!(test.host.closed.is_empty(), "{:?}", test.host.closed);
}

#[test]
fn in_async_it_is_taken_at_once_with_what_is_in_each_chunk() {
    let mut test = server(ModeConfig::Async, None);
    push(&mut test, 1, 0, 1);
    push(&mut test, 0, 0, 1);
    push(&mut test, 1, 1, 1);
    request(&mut test, 0, 2);
    let chunk = |version, zero, one| ChunkMarks {
        version,
        slots: [zero, one].map(|last_sequence| SlotMark { last_sequence, step: 0 }).to_vec(),
    };
    let marks = vec![chunk(2, 1, 1), chunk(1, 0, 1), chunk(0, 0, 0)];
    let (step, copy) = &test.host.checkpoints[0];
    assert_eq!((*step, &copy.params), (2, &vec![-2.0, -2.0, -1.0, -1.0, 0.0, 0.0]));
    assert_eq!(copy.marks, marks);

    // A chunk that has the push does not apply it again; one that lacks it does.
    let mut test = server(ModeConfig::Async, Some(&copy.resume_state()));
    for chunk in 0..CHUNKS as u32 {
        push(&mut test, 1, chunk, 1);
    }
    assert_eq!(test.server.store().params(), [0.0, 0.0, 0.0, 0.0, -1.0, -1.0]);
    assert!(test.host.closed.is_empty(), "{:?}", test.host.closed);
}

#[test]
fn a_step_is_taken_again_only_if_it_is_the_last_and_all_have_left() {
    let mut test = server(ModeConfig::Async, None);
    push(&mut test, 0, 0, 1);
    request(&mut test, 0, 1);
    push(&mut test, 0, 1, 1);
    // The coordinator lost its connection and repeats the request.
    request(&mut test, 0, 1);
    push(&mut test, 0, 2, 1);
    for slot in 0..2 {
        let ControlFrame { header, body: report } = Client::leave(Vec::new());
        test.send(slot, header, &report);
    }
    request(&mut test, 0, 1);
    assert_eq!(taken(&test), [(1, vec![1, 0, 0]), (1, vec![1, 1, 1])]);
    assert_eq!(test.host.checkpoints[1].1.params, [-1.0; PARAMS]);
}

#[test]
fn in_sync_a_step_that_the_others_have_passed_is_not_taken_for_it() {
    let mut test = server(ModeConfig::Sync { quorum: 1 }, None);
    request(&mut test, 0, 1);
    for sequence in 1..=2 {
        (0..CHUNKS as u32).for_each(|chunk| push(&mut test, 1, chunk, sequence));
    }
    assert_eq!(test.server.global_step(), 2);
    // The coordinator lost its connection and repeats the request.
    request(&mut test, 0, 1);
    assert_eq!(taken(&test), [(1, vec![1; CHUNKS])]);
}

#[test]
fn only_the_coordinator_requests_checkpoints_and_each_is_taken_once() {
    let mut test = server(ModeConfig::Async, None);
    test.host.refuses_checkpoints = true;
    request(&mut test, 0, 5);
    test.host.refuses_checkpoints = false;
    [5, 5, 4, 6].into_iter().for_each(|step| request(&mut test, 0, step));
    assert_eq!(taken(&test).iter().map(|(step, _)| *step).collect::<Vec<_>>(), [5, 6]);
    request(&mut test, 1, 7);
    assert_eq!((taken(&test).len(), test.host.closed.len()), (2, 1));
}
