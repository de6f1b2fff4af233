//! What it costs that each push counts once and that nobody is lost unnoticed, for `bench net`.
//!
//! That is too little to see in exchanges/s, which differ by some percent from turn to turn. So a
//! server's machine is driven here without sockets, by two workers that push a single parameter: what
//! a push takes then is all that is done about it beside arithmetic and sockets, and telling new
//! pushes from old ones is a part of that. Beside it stands the look at all waits, ten times a second,
//! with a frame of each worker that says no more than that it is alive. (Workers send none such while
//! they exchange: whether a machine is gone, the system's keep-alive probes tell, and those it sends
//! only over connections that are silent.)

use std::hint::black_box;
use std::time::Instant;

use paceline_exchange::{
    Client, ClientConfig, ConnId, FrameBody, FrameKind, Header, Host, Level, ModeConfig, Payload,
    PeerRole, Server, ServerConfig, ServerPhase, Stats, Store,
};
use paceline_model::{OptimizerState, Sgd};

use super::bare::flat;
use crate::table::{aligned, grouped};

const WORKERS: usize = 2;
/// Calls that are timed together, and how often: the quickest counts.
const CALLS: u64 = 20_000;
const TURNS: usize = 50;
/// How often a server looks at its waits.
const LOOK_EVERY_MS: u64 = 100;

/// Sends nothing.
struct Nowhere;

impl Host for Nowhere {
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>) {
        black_box((to, header, body.bytes().len()));
    }
    fn close(&mut self, _: ConnId, reason: &str) {
        panic!("the bench keeps to the protocol: {reason}");
    }
    fn note(&mut self, _: Level, _: &str) {}
    fn report(&mut self, _: &Stats) -> Vec<u8> {
        Vec::new()
    }
    fn phase(&mut self, _: ServerPhase) {}
}

/// Measures, and compares with an exchange of a run that makes so many a second.
pub(super) fn guards(exchanges_per_second: f64) -> String {
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
                &mut Nowhere,
            );
        }
    };
    let new = best(|| push(&mut machine, true)) / WORKERS as f64;
    let again = best(|| push(&mut machine, false)) / WORKERS as f64;
    let beat = Client::heartbeat();
    let mut now_ms = 0;
    let look = best(|| {
        now_ms += LOOK_EVERY_MS;
        for slot in 0..WORKERS as u64 {
            machine.frame_arrived(ConnId(slot), &beat, Payload::Bytes(&[]), now_ms, &mut Nowhere);
        }
        machine.tick(now_ms, &mut Nowhere);
    });
    assert!(machine.outcome().is_none(), "the run goes on");
    let row = |what: &str, seconds: f64, per_second: f64| {
        let share = 100.0 * seconds * per_second;
        vec![what.into(), format!("{:.0} ns", 1e9 * seconds), format!("{share:.3} %")]
    };
    let rows = [
        ["", "takes", "of the time"].map(String::from).to_vec(),
        row("all about a push but sockets and arithmetic", new, exchanges_per_second),
        row("the same about a push that was here before", again, exchanges_per_second),
        row(
            "a heartbeat of each worker and a look at all waits, ten a second",
            look,
            1e3 / LOOK_EVERY_MS as f64,
        ),
    ];
    format!(
        "that each push counts once and nobody is lost unnoticed, at {} exchanges/s\n{}",
        grouped(exchanges_per_second as u64),
        aligned(&rows)
    )
}

/// Seconds of one call.
fn best(mut call: impl FnMut()) -> f64 {
    let turn = |_| {
        let begun = Instant::now();
        (0..CALLS).for_each(|_| call());
        begun.elapsed().as_secs_f64()
    };
    (0..TURNS).map(turn).fold(f64::INFINITY, f64::min) / CALLS as f64
}

/// A server of mode `async` to which everybody has come.
fn started() -> Server {
    let config = ServerConfig {
        rejoin_ms: 60_000,
        stall_ms: 60_000,
        ..ServerConfig::new(ModeConfig::Async, WORKERS, 1)
    };
    let optimizer = OptimizerState::new(Sgd::new(0.0), &flat(1), 0..1);
    let mut machine = Server::new(config, Store::dense(vec![0.0], optimizer));
    for slot in 0..WORKERS as u32 {
        let (header, hello) =
            Client::new(ClientConfig { slot, ..ClientConfig::new(PeerRole::Worker, 1, 1) })
                .hello(0);
        let conn = ConnId(u64::from(slot));
        machine.connection_opened(conn, 0);
        machine.frame_arrived(conn, &header, Payload::Bytes(&hello), 0, &mut Nowhere);
    }
    assert!(machine.is_started(), "both workers are here");
    machine
}
