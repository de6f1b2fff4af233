//! The cost of applying each push exactly once and of noticing lost workers, for `bench net`.
//!
//! The cost is too small to show in exchanges/s, which vary by some percent from turn to turn. So
//! this drives a server's state machine without sockets, with two workers that push a single
//! parameter. The time of a push is then everything except arithmetic and sockets, including the
//! check whether the push is new. A second figure is the check of all timeouts, ten times a second,
//! with a heartbeat of each worker. (Workers send no heartbeats while they exchange: the system's
//! keep-alive probes detect a lost machine, and it sends them only over idle connections.)

use std::hint::black_box;
use std::time::Instant;

use paceline_exchange::{
    Client, ClientConfig, ConnId, ControlFrame, FrameBody, FrameKind, Header, Host, Level,
    ModeConfig, Payload, PeerRole, Server, ServerConfig, ServerPhase, Stats, Store,
};
use paceline_model::{OptimizerState, Sgd};

use crate::bench_observer::flat_layout;
use paceline_terminal::{aligned, grouped};

const WORKERS: usize = 2;
/// Calls per timed turn, and turns; the fastest turn counts.
const CALLS: u64 = 20_000;
const TURNS: usize = 50;
/// How often a server checks its timeouts, in milliseconds.
const TICK_EVERY_MS: u64 = 100;

/// Discards everything.
struct NullHost;

impl Host for NullHost {
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>) {
        black_box((to, header, body));
    }
    fn close(&mut self, _: ConnId, reason: &str) {
        panic!("the bench keeps to the protocol: {reason}");
    }
    fn note(&mut self, _: Level, _: &str) {}
    fn report(&mut self, _: &Stats, _: &Store) -> Vec<u8> {
        Vec::new()
    }
    fn phase(&mut self, _: ServerPhase) {}
}

/// Measures, and relates the times to a run with this rate of exchanges.
pub fn push_checks(exchanges_per_second: f64) -> String {
    let mut machine = started();
    let (mut gradient, mut sequence) = (vec![0.0], 0);
    let mut push = |machine: &mut Server, is_new: bool| {
        sequence += u64::from(is_new);
        for slot in 0..WORKERS as u64 {
            let mut header = Header::new(FrameKind::Push, size_of::<f32>());
            (header.count, header.sequence, header.step) = (1, sequence, sequence - 1);
            machine.frame_arrived(
                ConnId(slot),
                &header,
                Payload::Floats(&mut gradient),
                0,
                &mut NullHost,
            );
        }
    };
    let new = best(|| push(&mut machine, true)) / WORKERS as f64;
    let again = best(|| push(&mut machine, false)) / WORKERS as f64;
    let beat = Client::heartbeat();
    let mut now_ms = 0;
    let tick = best(|| {
        now_ms += TICK_EVERY_MS;
        for slot in 0..WORKERS as u64 {
            machine.frame_arrived(ConnId(slot), &beat, Payload::Bytes(&[]), now_ms, &mut NullHost);
        }
        machine.tick(now_ms, &mut NullHost);
    });
    assert!(machine.outcome().is_none(), "the run continues");
    let row = |what: &str, seconds: f64, per_second: f64| {
        let share = 100.0 * seconds * per_second;
        vec![what.into(), format!("{:.0} ns", 1e9 * seconds), format!("{share:.3} %")]
    };
    let rows = [
        ["", "takes", "of the time"].map(String::from).to_vec(),
        row("a push without sockets and arithmetic", new, exchanges_per_second),
        row("the same for a push that was applied before", again, exchanges_per_second),
        row(
            "a heartbeat of each worker and a check of all timeouts, ten per second",
            tick,
            1e3 / TICK_EVERY_MS as f64,
        ),
    ];
    format!(
        "applying each push exactly once and noticing lost workers, at {} exchanges/s\n{}",
        grouped(exchanges_per_second as u64),
        aligned(&rows)
    )
}

/// Seconds per call.
fn best(mut call: impl FnMut()) -> f64 {
    let turn = |_| {
        let begun = Instant::now();
        (0..CALLS).for_each(|_| call());
        begun.elapsed().as_secs_f64()
    };
    (0..TURNS).map(turn).fold(f64::INFINITY, f64::min) / CALLS as f64
}

/// A server in mode `async` to which all workers are connected.
fn started() -> Server {
    let config = ServerConfig {
        rejoin_ms: 60_000,
        stall_ms: 60_000,
        ..ServerConfig::new(ModeConfig::Async, WORKERS, 1)
    };
    let optimizer = OptimizerState::new(Sgd::new(0.0), &flat_layout(1), 0..1);
    let mut machine = Server::new(config, Store::dense(vec![0.0], optimizer));
    for slot in 0..WORKERS as u32 {
        let config = ClientConfig { slot, ..ClientConfig::new(PeerRole::Worker, 1, 1) };
        let ControlFrame { header, body: hello } = Client::new(config).hello(0);
        let conn = ConnId(u64::from(slot));
        machine.connection_opened(conn, 0);
        machine.frame_arrived(conn, &header, Payload::Bytes(&hello), 0, &mut NullHost);
    }
    assert!(machine.is_started(), "both workers are connected");
    machine
}
