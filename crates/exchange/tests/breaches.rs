//! What a broken client of a sparse model may send, and that it harms nobody but itself.

use paceline_exchange::{
    Client, ClientConfig, ConnId, Flags, FrameBody, FrameKind, Header, Host, Level, MAX_KEYS,
    ModeConfig, OnLoss, Payload, PeerRole, ProcessName, RosterConfig, Server, ServerConfig,
    ServerPhase, Stats, Store, as_bytes, as_bytes_mut, decode_keys, encode_keys, worker_names,
};
use paceline_model::{Group, Layout, Sgd, Table};
use proptest::prelude::*;

const PARAMS: usize = 10;
const SYNC: ModeConfig = ModeConfig::Sync { quorum: 2 };

#[derive(Default)]
struct Log {
    sent: Vec<(u64, Header, Vec<u8>)>,
    closed: Vec<(u64, String)>,
}

impl Host for Log {
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>) {
        self.sent.push((to.0, header, body.bytes().to_vec()));
    }
    fn close(&mut self, conn: ConnId, reason: &str) {
        self.closed.push((conn.0, reason.to_owned()));
    }
    fn note(&mut self, _level: Level, _text: &str) {}
    fn report(&mut self, _stats: &Stats) -> Vec<u8> {
        Vec::new()
    }
    fn phase(&mut self, _phase: ServerPhase) {}
}

/// A server of a sparse model with two workers, on connections 0 and 1.
struct Stage {
    server: Server,
    log: Log,
}

impl Stage {
    fn new(mode: ModeConfig) -> Self {
        let mut layout = Layout::new();
        layout.push("weight", &[PARAMS], Group::Weights);
        let config = ServerConfig {
            index: 0,
            servers: 1,
            workers: 2,
            names: worker_names(2),
            mode,
            stop_steps: None,
            on_loss: OnLoss::Continue,
            rejoin_ms: 1_000,
            stall_ms: 5_000,
            token: Vec::new(),
            job_digest: [1; 32],
            layout_digest: [2; 32],
            total_params: PARAMS,
            chunk_floats: 4,
            roster: RosterConfig::default(),
        };
        let table = Table::new(Sgd::new(1.0), &layout, 0..PARAMS);
        let server = Server::new(config, Store::sparse(table));
        let mut stage = Self { server, log: Log::default() };
        stage.join(0, PeerRole::Worker, 0, 1);
        stage.join(1, PeerRole::Worker, 1, 1);
        stage
    }

    fn join(&mut self, conn: u64, role: PeerRole, slot: u32, incarnation: u64) {
        let client = Client::new(ClientConfig {
            role,
            slot,
            incarnation,
            job_digest: [1; 32],
            layout_digest: [2; 32],
            token: Vec::new(),
            servers: 1,
            total_params: PARAMS,
            is_sparse: true,
            process: ProcessName::default(),
        });
        let (header, bytes) = client.hello(0);
        self.server.connection_opened(ConnId(conn), 0);
        self.send(conn, header, &bytes);
    }

    fn send(&mut self, conn: u64, header: Header, bytes: &[u8]) {
        let mut floats = vec![0.0; bytes.len().div_ceil(4)];
        as_bytes_mut(&mut floats)[..bytes.len()].copy_from_slice(bytes);
        let payload = match header.kind.carries_gradient() {
            true => Payload::Floats(&mut floats),
            false => Payload::Bytes(bytes),
        };
        self.server.frame_arrived(ConnId(conn), &header, payload, 0, &mut self.log);
    }

    /// Pulls keys: with a flag before the push of that number, and for that step.
    fn pull(&mut self, conn: u64, flags: Flags, sequence: u64, step: u64, keys: &[u32]) {
        self.pull_bytes(conn, flags, (sequence, step), &encoded(keys));
    }

    fn pull_bytes(&mut self, conn: u64, flags: Flags, numbers: (u64, u64), bytes: &[u8]) {
        let mut header = Header::new(FrameKind::PullKeys, bytes.len());
        (header.flags, (header.sequence, header.step)) = (flags, numbers);
        self.send(conn, header, bytes);
    }

    fn push(&mut self, conn: u64, sequence: u64, step: u64, gradient: &[f32], next: &[u32]) {
        let bytes = [as_bytes(gradient), &encoded(next)].concat();
        let mut header = Header::new(FrameKind::PushKeys, bytes.len());
        (header.sequence, header.step, header.count) = (sequence, step, 1);
        self.send(conn, header, &bytes);
    }

    fn params(&self) -> Vec<f32> {
        let Store::Sparse(sparse) = self.server.store() else { panic!("it is sparse") };
        let mut params = vec![0.0; PARAMS];
        sparse.table().read_range(0..PARAMS, &mut params);
        params
    }

    /// The length of the last answer, in values.
    fn last_values(&self) -> usize {
        let (_, header, bytes) = &self.log.sent[self.log.sent.len() - 1];
        assert_eq!(header.kind, FrameKind::Values);
        bytes.len() / 4
    }
}

fn encoded(keys: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_keys(0, keys, &mut bytes);
    bytes
}

/// Worker 1 does something and is shut out for it; worker 0 is not.
fn check(mode: ModeConfig, breaks: impl FnOnce(&mut Stage), why: &str) {
    let mut stage = Stage::new(mode);
    breaks(&mut stage);
    assert_eq!(stage.log.closed, [(1, why.to_owned())]);
    assert_eq!(stage.server.outcome(), None);
    assert_eq!(stage.params(), [0.0; PARAMS]);
}

#[test]
fn keys_must_be_sound() {
    let pulled = |bytes: &[u8], why| {
        check(ModeConfig::Async, |stage| stage.pull_bytes(1, Flags::NONE, (1, 0), bytes), why);
        check(ModeConfig::Async, |stage| stage.pull_bytes(1, Flags::RESUME, (1, 0), bytes), why);
        let pushes = |stage: &mut Stage| {
            stage.pull(1, Flags::RESUME, 1, 0, &[]);
            let mut header = Header::new(FrameKind::PushKeys, bytes.len());
            header.sequence = 1;
            stage.send(1, header, bytes);
        };
        check(ModeConfig::Async, pushes, why);
    };
    pulled(&encoded(&[3, 10]), "a key beyond the shard");
    pulled(&[1, 0], "a list of keys is cut off");
    pulled(&[9, 0, 0, 0, 0, 1, 1], "a list of keys is cut off");
    pulled(&[0, 0, 0, 0, 1], "bytes after the last key");
    pulled(&(MAX_KEYS as u32 + 1).to_le_bytes(), "more keys than one may ask for");
}

#[test]
fn a_gradient_is_of_the_keys_that_were_asked_for() {
    let asked = |stage: &mut Stage| stage.pull(1, Flags::RESUME, 1, 0, &[2, 5, 6]);
    check(
        ModeConfig::Async,
        |stage| stage.push(1, 1, 0, &[], &[]),
        "a gradient of keys that were not asked for",
    );
    let short = |stage: &mut Stage| {
        asked(stage);
        stage.push(1, 1, 0, &[1.0], &[]);
    };
    check(ModeConfig::Async, short, "a gradient of the wrong length");
    let long = |stage: &mut Stage| {
        asked(stage);
        stage.push(1, 1, 0, &[1.0; 4], &[]);
    };
    check(ModeConfig::Async, long, "more keys than one may ask for");
    let after_take_over = |stage: &mut Stage| {
        asked(stage);
        stage.join(2, PeerRole::Worker, 1, 2);
        assert_eq!(stage.server.key_lists().0, 0);
        stage.log.closed.clear();
        stage.join(3, PeerRole::Evaluator, 0, 1);
        stage.push(2, 1, 0, &[1.0; 3], &[]);
        stage.log.closed[0].0 = 1;
    };
    check(ModeConfig::Async, after_take_over, "a gradient of keys that were not asked for");
}

#[test]
fn keys_are_asked_for_one_batch_ahead_and_no_further() {
    let far = "keys asked for too far ahead";
    let ahead = |stage: &mut Stage, next| stage.pull(1, Flags::AHEAD, next, 0, &[1]);
    check(ModeConfig::Async, |stage| ahead(stage, 1), far);
    let after_a_push = |stage: &mut Stage| {
        stage.pull(1, Flags::RESUME, 1, 0, &[]);
        ahead(stage, 1);
        stage.push(1, 1, 0, &[], &[1]);
        ahead(stage, 2);
    };
    check(ModeConfig::Async, after_a_push, far);
    let of_another_number = |stage: &mut Stage| {
        stage.pull(1, Flags::RESUME, 1, 0, &[]);
        stage.push(1, 1, 0, &[], &[1]);
        ahead(stage, 1);
    };
    check(ModeConfig::Async, of_another_number, far);
    let both = |stage: &mut Stage| stage.pull(1, Flags::RESUME | Flags::AHEAD, 1, 0, &[]);
    check(ModeConfig::Async, both, far);
    let while_it_waits = |stage: &mut Stage| {
        stage.pull(1, Flags::RESUME, 1, 0, &[]);
        stage.push(1, 1, 0, &[], &[1]);
        ahead(stage, 2);
    };
    check(SYNC, while_it_waits, "a pull before the last push was answered");
}

#[test]
fn a_slot_goes_on_where_it_stands() {
    let begin = |mode, sequence, step, why| {
        check(mode, |stage: &mut Stage| stage.pull(1, Flags::RESUME, sequence, step, &[]), why);
    };
    begin(ModeConfig::Async, 0, 0, "a pull before a push that is not the next");
    begin(ModeConfig::Async, 2, 0, "a pull before a push that is not the next");
    begin(ModeConfig::Async, u64::MAX, 0, "a pull before a push that is not the next");
    begin(SYNC, 1, 2, "a pull for a step yet to come");
    begin(SYNC, 1, u64::MAX, "a pull for a step yet to come");
    let after_leaving = |stage: &mut Stage| {
        let (header, report) = Client::leave(Vec::new());
        stage.send(1, header, &report);
        stage.pull(1, Flags::RESUME, 1, 0, &[]);
    };
    check(ModeConfig::Async, after_leaving, "a pull to go on after leaving");
}

#[test]
fn frames_of_the_other_kind_of_model_are_refused() {
    let mut push = Header::new(FrameKind::Push, 16);
    push.sequence = 1;
    check(
        ModeConfig::Async,
        |stage| stage.send(1, push, &[0; 16]),
        "a push of the other kind of model",
    );
    check(
        ModeConfig::Async,
        |stage| stage.send(1, Header::new(FrameKind::Pull, 0), &[]),
        "a chunk that this shard does not have",
    );
}

#[test]
fn a_pull_ahead_that_comes_again_takes_the_place_of_the_first() {
    let mut stage = Stage::new(ModeConfig::Async);
    stage.pull(1, Flags::RESUME, 1, 0, &[0, 1]);
    stage.pull(1, Flags::AHEAD, 1, 0, &[2, 3, 4]);
    assert_eq!(stage.last_values(), 3);
    // The answer was lost with the connection.
    stage.join(2, PeerRole::Worker, 1, 1);
    stage.pull(2, Flags::AHEAD, 1, 0, &[2, 3, 4]);
    assert_eq!(stage.last_values(), 3);
    assert_eq!(stage.server.key_lists().0, 2);
    stage.push(2, 1, 0, &[1.0; 2], &[9]);
    stage.push(2, 2, 1, &[1.0; 3], &[]);
    stage.push(2, 3, 2, &[1.0], &[]);
    assert_eq!(stage.log.closed, [(1, "replaced by a newer connection".to_owned())]);
    assert_eq!(stage.params(), [-1.0, -1.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0, -1.0]);
}

#[test]
fn nothing_is_kept_of_who_looks_or_leaves() {
    let mut stage = Stage::new(ModeConfig::Async);
    stage.join(2, PeerRole::Evaluator, 0, 1);
    for conn in [1, 2] {
        stage.pull(conn, Flags::NONE, 0, 0, &[1, 2]);
        assert_eq!((stage.last_values(), stage.server.key_lists().0), (2, 0));
    }
    stage.pull(1, Flags::RESUME, 1, 0, &[1]);
    stage.pull(1, Flags::AHEAD, 1, 0, &[2]);
    assert_eq!(stage.server.key_lists().0, 2);
    let (header, report) = Client::leave(Vec::new());
    stage.send(1, header, &report);
    assert_eq!(stage.server.key_lists().0, 0);
    let mut stage = Stage::new(ModeConfig::Async);
    stage.pull(1, Flags::RESUME, 1, 0, &[1]);
    stage.server.connection_closed(ConnId(1), "connection reset", 10, &mut stage.log);
    assert_eq!(stage.server.key_lists().0, 1);
    stage.server.tick(5_000, &mut stage.log);
    assert_eq!(stage.server.key_lists().0, 0);
}

/// Any frame of a client, more or less likely to be sound.
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
    fn no_frame_of_a_member_brings_a_server_down(
        mode in 0usize..4, frames in proptest::collection::vec(frames(), 1..40),
    ) {
        let bounded = |staleness| ModeConfig::Bounded { staleness };
        let mut stage = Stage::new([ModeConfig::Async, SYNC, bounded(0), bounded(1)][mode]);
        let mut conn = 1;
        for (kind, flags, [sequence, step, version], gradient, keys) in frames {
            let gradient = if kind == FrameKind::PushKeys { as_bytes(&gradient) } else { &[] };
            let bytes = if kind == FrameKind::Pull { Vec::new() } else { [gradient, &keys].concat() };
            let mut header = Header::new(kind, bytes.len());
            if kind == FrameKind::PullKeys {
                let flag = |bit, flag| if flags & bit > 0 { flag } else { Flags::NONE };
                header.flags = flag(1, Flags::RESUME) | flag(2, Flags::AHEAD);
            }
            (header.sequence, header.step, header.version) = (sequence, step, version);
            stage.send(conn, header, &bytes);
            if stage.log.closed.last().is_some_and(|(closed, _)| *closed == conn) {
                conn += 1;
                stage.join(conn, PeerRole::Worker, 1, 1 + conn / 3);
            }
        }
        prop_assert!(stage.log.closed.iter().all(|(conn, _)| *conn > 0));
        let (kept, spare) = stage.server.key_lists();
        prop_assert!(kept <= 3 && kept + spare <= 8, "{} {}", kept, spare);
        stage.pull(0, Flags::RESUME, 1, 0, &[0, 9]);
        prop_assert_eq!(stage.last_values(), 2);
        prop_assert_eq!(stage.server.outcome(), None);
    }
}

#[test]
fn a_list_of_keys_as_long_as_may_be_is_read() {
    let keys: Vec<u32> = (0..MAX_KEYS as u32).collect();
    let bytes = encoded(&keys);
    let mut back = Vec::new();
    assert_eq!(decode_keys(0, keys.len() as u64, &bytes, &mut back), Ok(()));
    assert_eq!(back.len(), MAX_KEYS);
}
