//! The protocol between workers and servers, on both sides.

use paceline_exchange::{
    Client, ClientConfig, ClientEvent, ConnId, FrameBody, Header, Hello, Host, Level, ModeConfig,
    Payload, PeerRole, PullPurpose, ReadTarget, Refusal, RefuseCode, Server, ServerConfig,
    ServerPhase, Stats, Store, Welcome, as_bytes,
};
use paceline_model::{Group, Layout, OptimizerState, Sgd, Table};

use crate::frame_stream::{FrameStream, ReceivedFrame, floats, put_frame};

/// Parameters of the model.
const PARAMS: usize = 100;
/// Parameters of a chunk, so that there are several.
const CHUNK: usize = 40;
/// Steps of a recorded exchange.
const STEPS: u64 = 3;
/// The connections of an authenticated worker and of a stranger.
const WORKER: ConnId = ConnId(0);
const STRANGER: ConnId = ConnId(1);

/// Keeps what the server sends.
#[derive(Default)]
struct Sent(Vec<(ConnId, Header, Vec<u8>)>);

impl Host for Sent {
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>) {
        let mut bytes = Vec::new();
        body.append_to(&mut bytes);
        self.0.push((to, header, bytes));
    }
    fn close(&mut self, _: ConnId, _: &str) {}
    fn note(&mut self, _: Level, _: &str) {}
    fn report(&mut self, _: &Stats, _: &Store) -> Vec<u8> {
        vec![7]
    }
    fn phase(&mut self, _: ServerPhase) {}
}

fn layout() -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[PARAMS], Group::Weights);
    layout
}

fn client_config(is_sparse: bool) -> ClientConfig {
    ClientConfig { is_sparse, ..ClientConfig::new(PeerRole::Worker, 1, PARAMS) }
}

/// A server with one worker, in the mode that a number selects.
fn server_of(mode: u8, is_sparse: bool, host: &mut Sent) -> Server {
    let mode = match mode % 3 {
        0 => ModeConfig::Async,
        1 => ModeConfig::Sync { quorum: 1 },
        _ => ModeConfig::Bounded { staleness: 1 },
    };
    let config = ServerConfig { chunk_floats: CHUNK, ..ServerConfig::new(mode, 1, PARAMS) };
    let store = if is_sparse {
        Store::sparse(Table::new(Sgd::new(0.1), &layout(), 0..PARAMS))
    } else {
        let optimizer = OptimizerState::new(Sgd::new(0.1), &layout(), 0..PARAMS);
        Store::dense(vec![0.5; PARAMS], optimizer)
    };
    let mut server = Server::new(config, store);
    server.connection_opened(WORKER, 0);
    server.connection_opened(STRANGER, 0);
    let hello = Client::new(client_config(is_sparse)).hello(0);
    server.frame_arrived(WORKER, &hello.header, Payload::Bytes(&hello.body), 0, host);
    server
}

/// Hands a frame to a server as the network does, if its header passes.
fn deliver(server: &mut Server, conn: ConnId, frame: &ReceivedFrame<'_>, host: &mut Sent) {
    let ReceivedFrame { header, payload } = frame;
    if conn == WORKER && server.payload_limits().check(header).is_err() {
        return;
    }
    let mut gradient = floats(payload);
    let payload = if header.kind.carries_gradient() {
        Payload::Floats(&mut gradient)
    } else {
        Payload::Bytes(payload)
    };
    server.frame_arrived(conn, header, payload, 1, host);
}

/// A server under frames of a worker and of a stranger.
fn serve(bytes: &[u8], is_sparse: bool) {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    let mut host = Sent::default();
    let mut server = server_of(*mode, is_sparse, &mut host);
    for (frame, number) in FrameStream(bytes).zip(0_u64..) {
        let conn = if frame.header.version & 1 << 63 == 0 { WORKER } else { STRANGER };
        deliver(&mut server, conn, &frame, &mut host);
        server.tick(number, &mut host);
        host.0.clear();
    }
}

/// What went over both directions of a connection while a worker trained some steps.
struct Recorded {
    to_server: Vec<u8>,
    to_worker: Vec<u8>,
}

/// Records a worker that trains.
fn record(mode: u8, is_sparse: bool) -> Recorded {
    let mut host = Sent::default();
    let mut server = server_of(mode, is_sparse, &mut host);
    let mut client = Client::new(client_config(is_sparse));
    let (mut to_server, mut to_worker) = (vec![mode], Vec::new());
    let keys = [3, 17, 90];
    for _ in 0..100 {
        for (_, header, bytes) in std::mem::take(&mut host.0) {
            put_frame(&mut to_worker, &header, &bytes);
            let target = client.read_target(0, &header).expect("an expected frame");
            let is_floats = matches!(target, ReadTarget::Floats(_));
            let bytes = if is_floats { &[][..] } else { &bytes };
            match client.frame_arrived(0, &header, bytes).expect("an expected frame") {
                ClientEvent::Started if is_sparse => {
                    client.begin_pull_keys(&keys, PullPurpose::Begin);
                }
                ClientEvent::Started => client.begin_pull(),
                ClientEvent::Complete if client.global_step() < STEPS => {
                    let step = client.global_step();
                    if is_sparse {
                        client.begin_push_keys(step, 10, &keys);
                    } else {
                        client.begin_push(step, 10);
                    }
                }
                _ => {}
            }
        }
        while let Some(frame) = client.next_frame(0) {
            let gradient = vec![0.25; frame.gradient.len()];
            let payload = [as_bytes(&gradient), client.keys(0)].concat();
            let payload = &payload[..(frame.header.len as usize).min(payload.len())];
            put_frame(&mut to_server, &frame.header, payload);
            deliver(
                &mut server,
                WORKER,
                &ReceivedFrame { header: frame.header, payload },
                &mut host,
            );
        }
    }
    Recorded { to_server, to_worker }
}

/// The header of a frame.
pub(crate) fn header(bytes: &[u8]) {
    let Some(first) = bytes.first_chunk() else { return };
    if let Ok(header) = Header::decode(first) {
        assert_eq!(Header::decode(&header.encode()), Ok(header), "a header comes back");
    }
}

pub(crate) fn header_seeds() -> Vec<Vec<u8>> {
    let recorded = record(0, false);
    let frames = FrameStream(&recorded.to_worker);
    frames.map(|frame| frame.header.encode().to_vec()).collect()
}

/// The payloads of control frames.
pub(crate) fn messages(bytes: &[u8]) {
    if let Ok(hello) = Hello::decode(bytes) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello), "a Hello comes back");
    }
    if let Ok(welcome) = Welcome::decode(bytes) {
        assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome), "a Welcome comes back");
    }
    let _ = Refusal::decode(bytes);
}

pub(crate) fn message_seeds() -> Vec<Vec<u8>> {
    let hello = Client::new(client_config(false)).hello(0).body;
    let refusal = [&[RefuseCode::NotNow as u8], &b"not now"[..]].concat();
    let recorded = record(0, false);
    let frames = FrameStream(&recorded.to_worker);
    frames.map(|frame| frame.payload.to_vec()).take(4).chain([hello, refusal]).collect()
}

/// A server of a dense model.
pub(crate) fn server(bytes: &[u8]) {
    serve(bytes, false);
}

pub(crate) fn server_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = (0..3).map(|mode| record(mode, false).to_server).collect();
    let hello = Client::new(client_config(false)).hello(0);
    let control = [
        (Client::heartbeat(), Vec::new()),
        (Client::collect(), Vec::new()),
        (Client::checkpoint(1), Vec::new()),
        (Client::finish(), Vec::new()),
    ];
    let frames = [hello, Client::leave(vec![1, 2]), Client::release(vec![3]), Client::stop("why")];
    let frames = frames.into_iter().map(|frame| (frame.header, frame.body)).chain(control);
    for (mode, (header, body)) in (0..).zip(frames) {
        let mut seed = record(mode, false).to_server;
        put_frame(&mut seed, &header, &body);
        seeds.push(seed);
    }
    seeds
}

/// A server of a sparse model, whose frames carry keys.
pub(crate) fn keys(bytes: &[u8]) {
    serve(bytes, true);
}

pub(crate) fn key_seeds() -> Vec<Vec<u8>> {
    (0..3).map(|mode| record(mode, true).to_server).collect()
}

/// A worker under frames of a server.
pub(crate) fn client(bytes: &[u8]) {
    let mut client = Client::new(client_config(false));
    for frame in FrameStream(bytes) {
        let Ok(target) = client.read_target(0, &frame.header) else { return };
        let bytes = match target {
            ReadTarget::Bytes(len) => {
                assert_eq!(len, frame.payload.len(), "a buffer for the whole payload");
                frame.payload
            }
            ReadTarget::Floats(range) => {
                assert!(range.end <= PARAMS && 4 * range.len() == frame.payload.len());
                &[]
            }
            ReadTarget::Rounded(range) | ReadTarget::KnownGradient(range) => {
                assert!(range.end <= PARAMS);
                &[]
            }
        };
        match client.frame_arrived(0, &frame.header, bytes) {
            Err(_) => return,
            Ok(ClientEvent::Started) if client.is_welcome() => client.begin_pull(),
            Ok(ClientEvent::Complete) => client.begin_push(client.global_step(), 10),
            Ok(_) => {}
        }
        while client.next_frame(0).is_some() {}
    }
}

pub(crate) fn client_seeds() -> Vec<Vec<u8>> {
    (0..3).map(|mode| record(mode, false).to_worker).collect()
}
