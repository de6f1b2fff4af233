//! Waits are named and have a limit; strangers are shown out; a lost worker ends the run.

use paceline_exchange::{
    Client, ClientConfig, ConnId, FrameBody, FrameKind, Header, Host, Level, ModeConfig, OnLoss,
    Outcome, Payload, PeerRole, ProcessName, Refusal, RefuseCode, RosterConfig, Server,
    ServerConfig, ServerPhase, Stats, Store, worker_names,
};
use paceline_model::{Group, Layout, OptimizerState, Sgd};

#[derive(Default)]
struct Log {
    sent: Vec<(ConnId, Header, Vec<u8>)>,
    closed: Vec<(ConnId, String)>,
}

impl Log {
    fn texts(&self, kind: FrameKind) -> Vec<(u64, String)> {
        let ours = self.sent.iter().filter(|(_, header, _)| header.kind == kind);
        ours.map(|(to, _, bytes)| (to.0, String::from_utf8_lossy(bytes).into_owned())).collect()
    }
}

impl Host for Log {
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>) {
        self.sent.push((to, header, body.bytes().to_vec()));
    }
    fn close(&mut self, conn: ConnId, reason: &str) {
        self.closed.push((conn, reason.to_owned()));
    }
    fn note(&mut self, _level: Level, _text: &str) {}
    fn report(&mut self, _stats: &Stats) -> Vec<u8> {
        Vec::new()
    }
    fn phase(&mut self, _phase: ServerPhase) {}
}

fn server(on_loss: OnLoss) -> Server {
    let mut layout = Layout::new();
    layout.push("weight", &[4], Group::Weights);
    let config = ServerConfig {
        index: 0,
        servers: 1,
        workers: 3,
        names: worker_names(3),
        mode: ModeConfig::Sync { quorum: 3 },
        stop_steps: None,
        on_loss,
        rejoin_ms: 0,
        stall_ms: 5_000,
        token: b"secret".to_vec(),
        job_digest: [1; 32],
        layout_digest: [2; 32],
        total_params: 4,
        chunk_floats: 4,
        roster: RosterConfig::default(),
    };
    let optimizer = OptimizerState::new(Sgd::new(1.0), &layout, 0..4);
    Server::new(config, Store::dense(vec![0.0; 4], optimizer))
}

fn hello(slot: u32, change: impl FnOnce(&mut ClientConfig)) -> (Header, Vec<u8>) {
    let mut config = ClientConfig {
        role: PeerRole::Worker,
        slot,
        incarnation: 5,
        job_digest: [1; 32],
        layout_digest: [2; 32],
        token: b"secret".to_vec(),
        servers: 1,
        total_params: 4,
        is_sparse: false,
        process: ProcessName::default(),
    };
    change(&mut config);
    Client::new(config).hello(0)
}

fn join(server: &mut Server, conn: u64, (header, bytes): (Header, Vec<u8>), log: &mut Log) {
    server.connection_opened(ConnId(conn), 0);
    server.frame_arrived(ConnId(conn), &header, Payload::Bytes(&bytes), 0, log);
}

/// A server whose three workers have joined by connections of the same numbers.
fn started(on_loss: OnLoss) -> (Server, Log) {
    let (mut server, mut log) = (server(on_loss), Log::default());
    for slot in 0..3 {
        assert_eq!(server.missing().matches("worker:").count(), 3 - slot as usize);
        join(&mut server, slot, hello(slot as u32, |_| {}), &mut log);
    }
    assert!(server.is_started() && server.missing().is_empty());
    (server, log)
}

fn push(server: &mut Server, slot: u64, now_ms: u64, log: &mut Log) {
    let mut header = Header::new(FrameKind::Push, 16);
    (header.count, header.sequence) = (1, 1);
    let mut gradient = vec![1.0; 4];
    server.frame_arrived(ConnId(slot), &header, Payload::Floats(&mut gradient), now_ms, log);
}

#[test]
fn a_wait_names_whom_it_waits_for_and_ends() {
    let (mut server, mut log) = started(OnLoss::Fail);
    push(&mut server, 0, 100, &mut log);
    push(&mut server, 1, 200, &mut log);
    for now_ms in (0..5_000).step_by(250) {
        server.tick(now_ms, &mut log);
    }
    let notices = log.texts(FrameKind::Notice);
    assert_eq!(notices.len(), 3, "{notices:?}");
    assert_eq!(notices[1], (0, "step 0 waits for worker:2 (2 s)".into()));
    server.tick(5_200, &mut log);
    let why = "step 0 waits for worker:2 (5 s)";
    assert_eq!(server.outcome(), Some(&Outcome::Failed(why.into())));
    assert_eq!(log.texts(FrameKind::Abort).len(), 3);
}

#[test]
fn a_lost_worker_ends_the_run_or_is_left_behind() {
    let (mut server, mut log) = started(OnLoss::Fail);
    server.connection_closed(ConnId(2), "connection reset", 10, &mut log);
    let why = "worker:2 was lost: connection reset";
    assert_eq!(server.outcome(), Some(&Outcome::Failed(why.into())));

    let (mut server, mut log) = started(OnLoss::Continue);
    push(&mut server, 0, 100, &mut log);
    push(&mut server, 1, 100, &mut log);
    assert_eq!(server.global_step(), 0);
    server.connection_closed(ConnId(2), "connection reset", 110, &mut log);
    assert_eq!((server.global_step(), server.store().params()), (1, &[-1.0f32; 4][..]));
    server.connection_closed(ConnId(0), "connection reset", 120, &mut log);
    assert!(matches!(server.outcome(), Some(Outcome::Failed(why)) if why.contains("worker:0")));
}

#[test]
fn only_those_who_agree_on_everything_are_let_in() {
    let check = |change: fn(&mut ClientConfig), slot, code| {
        let (mut server, mut log) = (server(OnLoss::Fail), Log::default());
        join(&mut server, 9, hello(slot, change), &mut log);
        let (_, header, bytes) = &log.sent[0];
        assert_eq!(header.kind, FrameKind::Refuse);
        assert_eq!(Refusal::decode(bytes).map(|refusal| refusal.code), Ok(code));
        assert_eq!(log.closed.len(), 1);
    };
    check(|config| config.token = b"secreT".to_vec(), 0, RefuseCode::WrongToken);
    check(|config| config.token.clear(), 0, RefuseCode::WrongToken);
    check(|config| config.job_digest[3] ^= 1, 0, RefuseCode::WrongJob);
    check(|config| config.layout_digest[3] ^= 1, 0, RefuseCode::WrongLayout);
    check(|config| config.servers = 2, 0, RefuseCode::WrongServer);
    check(|_| {}, 3, RefuseCode::BadSlot);
}

#[test]
fn an_older_process_cannot_take_a_slot_back() {
    let (mut server, mut log) = started(OnLoss::Fail);
    join(&mut server, 7, hello(1, |config| config.incarnation = 4), &mut log);
    let last = Refusal::decode(&log.sent[log.sent.len() - 1].2).map(|refusal| refusal.code);
    assert_eq!(last, Ok(RefuseCode::SlotTaken));
    join(&mut server, 8, hello(1, |config| config.incarnation = 6), &mut log);
    assert_eq!(log.closed[log.closed.len() - 1].0, ConnId(1));
    assert_eq!(server.outcome(), None);
}

#[test]
fn whoever_breaks_the_protocol_is_shown_out_alone() {
    let (mut server, mut log) = started(OnLoss::Continue);
    server.connection_opened(ConnId(20), 0);
    push(&mut server, 20, 1, &mut log);
    server.connection_opened(ConnId(21), 1);
    server.tick(10_001, &mut log);
    let mut header = Header::new(FrameKind::Push, 16);
    (header.count, header.sequence, header.step) = (1, 1, 7);
    server.frame_arrived(ConnId(2), &header, Payload::Floats(&mut vec![1.0; 4]), 10_001, &mut log);
    let closed: Vec<_> = log.closed.iter().map(|(conn, why)| (conn.0, why.as_str())).collect();
    let expected = [
        (20, "a frame before Hello"),
        (21, "no Hello in time"),
        (2, "a step ahead of the parameters"),
    ];
    assert_eq!(closed, expected);
    assert_eq!(server.outcome(), None);
}
