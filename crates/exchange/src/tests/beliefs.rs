//! What a server does not believe a client that knows the run: gradients that are not finite,
//! generations that never were, incarnations of the far future.

use super::harness::{TestServer, read_params, worker_config};
use crate::*;

const PARAMS: usize = 4;

/// A server with two workers, on connections 0 and 1, whose loss it survives.
fn server(mode: ModeConfig) -> TestServer {
    let config = ServerConfig {
        on_loss: OnLoss::Continue,
        rejoin_ms: 1_000,
        ..ServerConfig::new(mode, 2, PARAMS)
    };
    let mut test = TestServer::dense(config);
    (0..2).for_each(|slot| test.join(slot as u64, worker_config(slot, PARAMS)));
    assert!(test.server.is_started());
    test
}

fn push(test: &mut TestServer, conn: u64, gradient: [f32; PARAMS]) {
    let header = Header::new(FrameKind::Push, 4 * PARAMS);
    test.send(conn, Header { sequence: 1, count: 1, ..header }, as_bytes(&gradient));
}

#[test]
fn a_gradient_that_is_not_finite_is_refused_and_changes_nothing() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for mode in [ModeConfig::Async, ModeConfig::Sync { quorum: 2 }] {
            let mut test = server(mode);
            push(&mut test, 1, [1.0, 1.0, bad, 1.0]);
            assert_eq!(read_params(&test.server), [0.0; PARAMS], "{bad} in {mode:?}");
            let [(1, why)] = &test.host.closed[..] else { panic!("{:?}", test.host.closed) };
            assert!(why.contains("its gradient of step 0 is not finite"), "{why}");
            let [(1, text)] = &test.host.texts(FrameKind::Abort)[..] else { panic!("no answer") };
            assert!(text.starts_with("worker:1: its gradient of step 0"), "{text}");
            // The other worker continues, and the first may return.
            test.join(2, ClientConfig { incarnation: 2, ..worker_config(1, PARAMS) });
            push(&mut test, 0, [1.0; PARAMS]);
            push(&mut test, 2, [1.0; PARAMS]);
            assert_ne!(read_params(&test.server), [0.0; PARAMS]);
            assert_eq!(test.server.outcome(), None);
        }
    }
}

#[test]
fn a_generation_that_the_record_does_not_have_rewinds_nothing() {
    let far = Generation { number: 1 << 62, base: None };
    for is_known in [false, true] {
        let mut test = server(ModeConfig::Async);
        test.host.lacks_generations = !is_known;
        let mut frame = Client::new(worker_config(1, PARAMS)).hello(0);
        let mut hello = Hello::decode(&frame.body).unwrap();
        hello.generation = far;
        frame.body = hello.encode();
        test.open(2, frame);
        if is_known {
            assert_eq!(test.server.outcome(), Some(&Outcome::Rewind(far)));
            continue;
        }
        assert_eq!(test.server.outcome(), None);
        assert_eq!(test.host.closed, [(2, "an unknown generation".to_owned())]);
        let note = test.host.notes.last().unwrap();
        assert!(note.contains("the run's record has no generation"), "{note}");
        push(&mut test, 1, [1.0; PARAMS]);
        assert_ne!(read_params(&test.server), [0.0; PARAMS], "the honest worker is still there");
    }
}

#[test]
fn an_incarnation_of_the_far_future_does_not_keep_later_processes_out() {
    let mut test = server(ModeConfig::Async);
    for far in [u64::MAX, 1 << 62] {
        test.join(7, ClientConfig { incarnation: far, ..worker_config(1, PARAMS) });
        let refused = test.host.texts(FrameKind::Refuse);
        assert!(refused.last().unwrap().1.contains("far in the future"), "{refused:?}");
    }
    test.join(8, ClientConfig { incarnation: 2, ..worker_config(1, PARAMS) });
    push(&mut test, 8, [1.0; PARAMS]);
    assert_ne!(read_params(&test.server), [0.0; PARAMS]);
}
