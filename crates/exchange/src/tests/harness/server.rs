//! A server whose clients a test drives frame by frame.

use paceline_model::{Group, Layout, OptimizerState, Sgd, Table};

use super::RecordingHost;
use crate::*;

pub(crate) const JOB: [u8; 32] = [7; 32];
pub(crate) const LAYOUT: [u8; 32] = [9; 32];

pub(crate) fn flat_layout(params: usize) -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[params], Group::Weights);
    layout
}

/// The settings of a worker of the tests' job with one server.
pub(crate) fn worker_config(slot: usize, total_params: usize) -> ClientConfig {
    ClientConfig {
        slot: slot as u32,
        job: JOB.into(),
        layout_digest: LAYOUT,
        ..ClientConfig::new(PeerRole::Worker, 1, total_params)
    }
}

/// A server of SGD at rate 1 that starts with zeros, and what it has done.
pub(crate) struct TestServer {
    pub(crate) server: Server,
    pub(crate) host: RecordingHost,
    pub(crate) now_ms: u64,
}

impl TestServer {
    pub(crate) fn dense(config: ServerConfig) -> Self {
        let params = config.total_params;
        let optimizer = OptimizerState::new(Sgd::new(1.0), &flat_layout(params), 0..params);
        Self::new(config, Store::dense(vec![0.0; params], optimizer))
    }

    pub(crate) fn sparse(config: ServerConfig) -> Self {
        let params = config.total_params;
        let table = Table::new(Sgd::new(1.0), &flat_layout(params), 0..params);
        Self::new(config, Store::sparse(table))
    }

    fn new(config: ServerConfig, store: Store) -> Self {
        let identity = ServerConfig { job: JOB.into(), layout_digest: LAYOUT, ..config };
        let server = Server::new(identity, store);
        Self { server, host: RecordingHost::default(), now_ms: 0 }
    }

    pub(crate) fn open(&mut self, conn: u64, frame: ControlFrame) {
        self.server.connection_opened(ConnId(conn), self.now_ms);
        self.send(conn, frame.header, &frame.body);
    }

    pub(crate) fn join(&mut self, conn: u64, config: ClientConfig) {
        self.open(conn, Client::new(config).hello(0));
    }

    pub(crate) fn send(&mut self, conn: u64, header: Header, bytes: &[u8]) {
        let mut floats = vec![0.0; bytes.len().div_ceil(4)];
        as_bytes_mut(&mut floats)[..bytes.len()].copy_from_slice(bytes);
        let payload = if header.kind.carries_gradient() {
            Payload::Floats(&mut floats)
        } else {
            Payload::Bytes(bytes)
        };
        self.server.frame_arrived(ConnId(conn), &header, payload, self.now_ms, &mut self.host);
    }

    pub(crate) fn close(&mut self, conn: u64, why: &str) {
        self.server.connection_closed(ConnId(conn), why, self.now_ms, &mut self.host);
    }

    /// Lets the time be `now_ms`.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.server.tick(now_ms, &mut self.host);
    }
}
