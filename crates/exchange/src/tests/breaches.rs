//! What a broken client of a sparse model may send: it harms only itself.

use proptest::prelude::*;

use super::harness::{TestServer, read_params, worker_config};
use crate::keys::max_keys_bytes;
use crate::*;

const PARAMS: usize = 10;
const SYNC: ModeConfig = ModeConfig::Sync { quorum: 2 };

/// A server of a sparse model with two workers, on connections 0 and 1.
struct SparseServer {
    test: TestServer,
}

impl SparseServer {
    fn new(mode: ModeConfig) -> Self {
        let config = ServerConfig {
            on_loss: OnLoss::Continue,
            rejoin_ms: 1_000,
            stall_ms: 5_000,
            ..ServerConfig::new(mode, 2, PARAMS)
        };
        let mut server = Self { test: TestServer::sparse(config) };
        server.join(0, PeerRole::Worker, 0, 1);
        server.join(1, PeerRole::Worker, 1, 1);
        server
    }

    fn join(&mut self, conn: u64, role: PeerRole, slot: usize, incarnation: u64) {
        let config = worker_config(slot, PARAMS);
        self.test.join(conn, ClientConfig { role, incarnation, is_sparse: true, ..config });
    }

    /// Pulls keys: with a flag, before the push of that sequence and for that step.
    fn pull(&mut self, conn: u64, flags: Flags, sequence: u64, step: u64, keys: &[u32]) {
        let bytes = encoded(keys);
        let header = Header::new(FrameKind::PullKeys, bytes.len());
        self.test.send(conn, Header { flags, sequence, step, ..header }, &bytes);
    }

    /// Pulls keys, encoded badly, before the first push.
    fn pull_bytes(&mut self, conn: u64, flags: Flags, bytes: &[u8]) {
        let header = Header::new(FrameKind::PullKeys, bytes.len());
        self.test.send(conn, Header { flags, sequence: 1, ..header }, bytes);
    }

    fn push(&mut self, conn: u64, sequence: u64, step: u64, gradient: &[f32], next: &[u32]) {
        let bytes = [as_bytes(gradient), &encoded(next)].concat();
        let header = Header::new(FrameKind::PushKeys, bytes.len());
        self.test.send(conn, Header { sequence, step, count: 1, ..header }, &bytes);
    }

    fn leave(&mut self, conn: u64) {
        let ControlFrame { header, body } = Client::leave(Vec::new());
        self.test.send(conn, header, &body);
    }

    /// Lists of keys that the server keeps for a gradient.
    fn key_lists(&self) -> usize {
        self.test.server.key_lists().in_use
    }

    fn last_values(&self) -> usize {
        let (_, header, bytes) = &self.test.host.sent[self.test.host.sent.len() - 1];
        assert_eq!(header.kind, FrameKind::Values);
        bytes.len() / 4
    }
}

fn encoded(keys: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_keys(0, keys, &mut bytes);
    bytes
}

/// Worker 1 breaks the protocol and is shut out; worker 0 is not.
fn check(mode: ModeConfig, breaks: impl FnOnce(&mut SparseServer), why: &str) {
    let mut server = SparseServer::new(mode);
    breaks(&mut server);
    assert_eq!(server.test.host.closed, [(1, why.to_owned())]);
    assert_eq!(server.test.server.outcome(), None);
    assert_eq!(read_params(&server.test.server), [0.0; PARAMS]);
}

#[test]
fn broken_lists_of_keys_are_refused() {
    let pulled = |bytes: &[u8], why| {
        check(ModeConfig::Async, |server| server.pull_bytes(1, Flags::NONE, bytes), why);
        check(ModeConfig::Async, |server| server.pull_bytes(1, Flags::RESUME, bytes), why);
        let pushes = |server: &mut SparseServer| {
            server.pull(1, Flags::RESUME, 1, 0, &[]);
            let mut header = Header::new(FrameKind::PushKeys, bytes.len());
            header.sequence = 1;
            server.test.send(1, header, bytes);
        };
        check(ModeConfig::Async, pushes, why);
    };
    pulled(&encoded(&[3, 10]), "a key beyond the shard");
    pulled(&[1, 0], "a list of keys is cut off");
    pulled(&[9, 0, 0, 0, 0, 1, 1], "a list of keys is cut off");
    pulled(&[0, 0, 0, 0, 1], "bytes after the last key");
    pulled(&(MAX_KEYS as u32 + 1).to_le_bytes(), "more keys than may be requested at once");
}

#[test]
fn a_gradient_belongs_to_the_keys_that_were_requested() {
    let asked = |server: &mut SparseServer| server.pull(1, Flags::RESUME, 1, 0, &[2, 5, 6]);
    check(
        ModeConfig::Async,
        |server| server.push(1, 1, 0, &[], &[]),
        "a gradient for keys that were not requested",
    );
    let short = |server: &mut SparseServer| {
        asked(server);
        server.push(1, 1, 0, &[1.0], &[]);
    };
    check(ModeConfig::Async, short, "a gradient of the wrong length");
    let long = |server: &mut SparseServer| {
        asked(server);
        server.push(1, 1, 0, &[1.0; 4], &[]);
    };
    check(ModeConfig::Async, long, "more keys than may be requested at once");
    let after_take_over = |server: &mut SparseServer| {
        asked(server);
        server.join(2, PeerRole::Worker, 1, 2);
        assert_eq!(server.key_lists(), 0);
        server.test.host.closed.clear();
        server.join(3, PeerRole::Evaluator, 0, 1);
        server.push(2, 1, 0, &[1.0; 3], &[]);
        server.test.host.closed[0].0 = 1;
    };
    check(ModeConfig::Async, after_take_over, "a gradient for keys that were not requested");
}

#[test]
fn keys_are_requested_at_most_one_batch_ahead() {
    let far = "keys requested too far ahead";
    let ahead = |server: &mut SparseServer, next| server.pull(1, Flags::AHEAD, next, 0, &[1]);
    check(ModeConfig::Async, |server| ahead(server, 1), far);
    let after_a_push = |server: &mut SparseServer| {
        server.pull(1, Flags::RESUME, 1, 0, &[]);
        ahead(server, 1);
        server.push(1, 1, 0, &[], &[1]);
        ahead(server, 2);
    };
    check(ModeConfig::Async, after_a_push, far);
    let of_another_number = |server: &mut SparseServer| {
        server.pull(1, Flags::RESUME, 1, 0, &[]);
        server.push(1, 1, 0, &[], &[1]);
        ahead(server, 1);
    };
    check(ModeConfig::Async, of_another_number, far);
    let both = |server: &mut SparseServer| server.pull(1, Flags::RESUME | Flags::AHEAD, 1, 0, &[]);
    check(ModeConfig::Async, both, far);
    let while_it_waits = |server: &mut SparseServer| {
        server.pull(1, Flags::RESUME, 1, 0, &[]);
        server.push(1, 1, 0, &[], &[1]);
        ahead(server, 2);
    };
    check(SYNC, while_it_waits, "a pull before the last push was answered");
}

#[test]
fn a_slot_resumes_where_it_is() {
    let begin = |mode, sequence, step, why| {
        check(
            mode,
            |server: &mut SparseServer| server.pull(1, Flags::RESUME, sequence, step, &[]),
            why,
        );
    };
    begin(ModeConfig::Async, 0, 0, "a pull for a push that is not the next");
    begin(ModeConfig::Async, 2, 0, "a pull for a push that is not the next");
    begin(ModeConfig::Async, u64::MAX, 0, "a pull for a push that is not the next");
    begin(SYNC, 1, 2, "a pull for a step yet to come");
    begin(SYNC, 1, u64::MAX, "a pull for a step yet to come");
    let after_leaving = |server: &mut SparseServer| {
        server.leave(1);
        server.pull(1, Flags::RESUME, 1, 0, &[]);
    };
    check(ModeConfig::Async, after_leaving, "a pull to resume after leaving");
}

#[test]
fn frames_of_the_other_kind_of_model_are_refused() {
    let mut push = Header::new(FrameKind::Push, 16);
    push.sequence = 1;
    check(
        ModeConfig::Async,
        |server| server.test.send(1, push, &[0; 16]),
        "a push for the other kind of model",
    );
    check(
        ModeConfig::Async,
        |server| server.test.send(1, Header::new(FrameKind::Pull, 0), &[]),
        "a chunk that this shard does not have",
    );
}

#[test]
fn a_repeated_pull_ahead_replaces_the_first() {
    let mut server = SparseServer::new(ModeConfig::Async);
    server.pull(1, Flags::RESUME, 1, 0, &[0, 1]);
    server.pull(1, Flags::AHEAD, 1, 0, &[2, 3, 4]);
    assert_eq!(server.last_values(), 3);
    // The answer was lost with the connection.
    server.join(2, PeerRole::Worker, 1, 1);
    server.pull(2, Flags::AHEAD, 1, 0, &[2, 3, 4]);
    assert_eq!(server.last_values(), 3);
    assert_eq!(server.key_lists(), 2);
    server.push(2, 1, 0, &[1.0; 2], &[9]);
    server.push(2, 2, 1, &[1.0; 3], &[]);
    server.push(2, 3, 2, &[1.0], &[]);
    assert_eq!(server.test.host.closed, [(1, "replaced by a newer connection".to_owned())]);
    assert_eq!(
        read_params(&server.test.server),
        [-1.0, -1.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0, -1.0]
    );
}

#[test]
fn no_keys_are_kept_for_clients_that_only_read_or_have_left() {
    let mut server = SparseServer::new(ModeConfig::Async);
    server.join(2, PeerRole::Evaluator, 0, 1);
    for conn in [1, 2] {
        server.pull(conn, Flags::NONE, 0, 0, &[1, 2]);
        assert_eq!((server.last_values(), server.key_lists()), (2, 0));
    }
    server.pull(1, Flags::RESUME, 1, 0, &[1]);
    server.pull(1, Flags::AHEAD, 1, 0, &[2]);
    assert_eq!(server.key_lists(), 2);
    server.leave(1);
    assert_eq!(server.key_lists(), 0);
    let mut server = SparseServer::new(ModeConfig::Async);
    server.pull(1, Flags::RESUME, 1, 0, &[1]);
    server.test.close(1, "connection reset");
    assert_eq!(server.key_lists(), 1);
    server.test.tick(5_000);
    assert_eq!(server.key_lists(), 0);
}

/// Any frame of a client; many are sound.
fn frames() -> impl Strategy<Value = (FrameKind, u8, [u64; 3], Vec<f32>, Vec<u8>)> {
    let kinds = [
        FrameKind::PushKeys,
        FrameKind::PullKeys,
        FrameKind::PullKeys,
        FrameKind::Pull,
        FrameKind::Leave,
    ];
    let number = || prop_oneof![4 => 0u64..4, 1 => any::<u64>()];
    let lists = prop_oneof![
        4 => proptest::sample::subsequence((0..12u32).collect::<Vec<_>>(), 0..4)
            .prop_map(|keys| encoded(&keys)),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ];
    (
        proptest::sample::select(kinds.to_vec()),
        0u8..4,
        [number(), number(), number()],
        proptest::collection::vec(-1f32..1.0, 0..4),
        lists,
    )
}

proptest! {
    #[test]
    fn no_frame_of_a_worker_brings_a_server_down(
        mode in 0usize..4, frames in proptest::collection::vec(frames(), 1..40),
    ) {
        let bounded = |staleness| ModeConfig::Bounded { staleness };
        let mut server = SparseServer::new([ModeConfig::Async, SYNC, bounded(0), bounded(1)][mode]);
        let mut conn = 1;
        for (kind, flags, [sequence, step, version], gradient, keys) in frames {
            let gradient = if kind == FrameKind::PushKeys { as_bytes(&gradient) } else { &[] };
            let payload = [gradient, &keys].concat();
            let bytes = if kind == FrameKind::Pull { Vec::new() } else { payload };
            let mut header = Header::new(kind, bytes.len());
            if kind == FrameKind::PullKeys {
                let flag = |bit, flag| if flags & bit > 0 { flag } else { Flags::NONE };
                header.flags = flag(1, Flags::RESUME) | flag(2, Flags::AHEAD);
            }
            (header.sequence, header.step, header.version) = (sequence, step, version);
            server.test.send(conn, header, &bytes);
            if server.test.host.closed.last().is_some_and(|(closed, _)| *closed == conn) {
                conn += 1;
                server.join(conn, PeerRole::Worker, 1, 1 + conn / 3);
            }
        }
        prop_assert!(server.test.host.closed.iter().all(|(conn, _)| *conn > 0));
        let lists = server.test.server.key_lists();
        let is_bounded = lists.in_use <= 3 && lists.in_use + lists.spare <= 8;
        prop_assert!(is_bounded, "{:?}", lists);
        server.pull(0, Flags::RESUME, 1, 0, &[0, 9]);
        prop_assert_eq!(server.last_values(), 2);
        prop_assert_eq!(server.test.server.outcome(), None);
    }
}

#[test]
fn the_longest_list_of_keys_is_read() {
    let keys: Vec<u32> = (0..MAX_KEYS as u32).collect();
    let bytes = encoded(&keys);
    let mut back = Vec::new();
    assert_eq!(decode_keys(0..keys.len() as u64, &bytes, &mut back), Ok(()));
    assert_eq!(back.len(), MAX_KEYS);
}

#[test]
fn a_header_is_refused_by_the_size_of_the_shard_before_its_payload_is_read() {
    let sparse = SparseServer::new(SYNC);
    let limits = sparse.test.server.payload_limits();
    let keys = max_keys_bytes(PARAMS);
    for (kind, most) in [(FrameKind::PullKeys, keys), (FrameKind::PushKeys, keys + 4 * PARAMS)] {
        assert_eq!(limits.check(&Header::new(kind, most)), Ok(()));
        let refused = limits.check(&Header::new(kind, most + 4)).unwrap_err();
        assert!(refused.contains("more than this shard has"), "{refused}");
    }
    for kind in [FrameKind::Push, FrameKind::Factors, FrameKind::Values, FrameKind::Hello] {
        assert!(limits.check(&Header::new(kind, 4)).is_err(), "{kind:?} for a sparse server");
    }
    let dense = TestServer::dense(ServerConfig::new(SYNC, 2, PARAMS));
    let limits = dense.server.payload_limits();
    assert_eq!(limits.check(&Header::new(FrameKind::Push, 4 * PARAMS)), Ok(()));
    assert!(limits.check(&Header::new(FrameKind::Push, 4 * PARAMS + 4)).is_err());
    // It has no keys.
    assert!(limits.check(&Header::new(FrameKind::PullKeys, 12)).is_err());
}
