//! Pushes in pieces over real sockets: the bits are those of pushes at once, in both formats.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::TcpListener;
use std::ops::Range;
use std::thread;

use paceline_exchange::{
    ClientConfig, Level, ModeConfig, PeerRole, Server, ServerConfig, Stats, StepPiece, Store,
    WireFormat,
};
use paceline_model::{Group, Layout, OptimizerState, Sgd};
use paceline_net::{
    ConnectConfig, Credentials, ExchangePhase, HandedBack, HandedIn, LinkObserver, LinkOutcome,
    PieceChannel, ServerConnections, ServerObserver, ServerTotals, StepPieces, serve,
};

/// More chunks than a client may send without an answer, and layers that end inside of chunks.
const PARAMS: usize = 140 * 65_536 + 1234;
const LAYERS: [Range<usize>; 4] = [0..70_000, 70_000..70_001, 70_001..4_000_000, 4_000_000..PARAMS];
const STEPS: u64 = 3;

struct SilentServer;

impl ServerObserver for SilentServer {
    fn note(&mut self, _: Level, _: &str) {}
    fn report(&mut self, _: &ServerTotals, _: &Stats, _: &Store) -> Vec<u8> {
        Vec::new()
    }
    fn tick(&mut self, _: &Server) -> Result<(), String> {
        Ok(())
    }
}

struct SilentWorker;

impl LinkObserver for SilentWorker {
    fn enter_phase(&mut self, _: ExchangePhase) {}
    fn note(&mut self, _: &str) {}
    fn should_give_up(&mut self) -> bool {
        false
    }
}

fn server(wire: WireFormat, workers: usize) -> Server {
    let mut layout = Layout::new();
    layout.push("weight", &[PARAMS], Group::Weights);
    let optimizer = OptimizerState::new(Sgd::new(0.5), &layout, 0..PARAMS);
    let mode = ModeConfig::Sync { quorum: workers };
    let config = ServerConfig { wire, ..ServerConfig::new(mode, workers, PARAMS) };
    Server::new(config, Store::dense(vec![1.0; PARAMS], optimizer))
}

fn gradient(slot: usize, step: u64, params: &[f32]) -> Vec<f32> {
    let at = |(i, value): (usize, &f32)| {
        let noise = (i * 7 + slot * 13 + step as usize * 29) % 101;
        noise as f32 / 97.0 - 0.5 + 0.1 * value
    };
    params.iter().enumerate().map(at).collect()
}

/// One step as a network makes it: the last layer is handed in first, the first one awaited first.
fn push_in_pieces(connections: &mut ServerConnections, step: u64, gradient: &[f32]) {
    let pieces = LAYERS.map(|range| StepPiece { range, factors: None });
    let mut params = connections.lend(step, 10);
    let PieceChannel { sender, exchange, handed_back } =
        connections.piece_channel(StepPieces::new(&pieces));
    thread::scope(|scope| {
        let exchanging =
            scope.spawn(|| connections.exchange_pieces(exchange, step, &mut SilentWorker));
        let mut rest = &mut params[..];
        for piece in (0..LAYERS.len()).rev() {
            let range = LAYERS[piece].clone();
            let (first, values) = std::mem::take(&mut rest).split_at_mut(range.start);
            rest = first;
            sender.hand_in(HandedIn::Gradient { piece, values: &gradient[range] });
            sender.hand_in(HandedIn::Output { piece, values });
            thread::yield_now();
        }
        let (mut lens, mut is_complete) = ([0; LAYERS.len()], false);
        for back in handed_back {
            match back {
                HandedBack::Output { piece, values } => lens[piece] = values.len(),
                HandedBack::Complete => is_complete = true,
                HandedBack::Factors { .. } => unreachable!("no factors"),
            }
        }
        assert!(is_complete && lens == LAYERS.map(|range| range.len()), "{lens:?}");
        assert_eq!(exchanging.join().unwrap().unwrap(), LinkOutcome::Done(()));
    });
    drop(sender);
    connections.take_back(params);
}

/// The frames of the test are sealed.
fn credentials() -> Credentials {
    Credentials::with_token(b"open sesame")
}

/// Trains with two workers, of which those in `in_pieces` push layer by layer. Returns the exact
/// parameters.
fn train(wire: WireFormat, in_pieces: [bool; 2]) -> Vec<u32> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let worker = |slot: usize| {
        let client = ClientConfig {
            slot: slot as u32,
            wire,
            ..ClientConfig::new(PeerRole::Worker, 1, PARAMS)
        };
        let config = ConnectConfig {
            credentials: credentials(),
            ..ConnectConfig::new(client, vec![address.clone()])
        };
        let mut connections = ServerConnections::connect(config, &mut SilentWorker).unwrap();
        for step in 0..STEPS {
            let gradient = gradient(slot, step, connections.params());
            if in_pieces[slot] {
                push_in_pieces(&mut connections, step, &gradient);
            } else {
                let pushed = connections.exchange(step, 10, &gradient, &mut SilentWorker);
                assert_eq!(pushed.unwrap(), LinkOutcome::Done(()));
            }
            assert_eq!(connections.global_step(), step + 1);
        }
        assert_eq!(connections.leave(b"", &mut SilentWorker).unwrap(), LinkOutcome::Done(()));
        connections
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            serve(&listener, &mut server(wire, 2), &credentials(), &mut SilentServer).unwrap()
        });
        let other = scope.spawn(|| worker(1));
        let mut first = worker(0);
        other.join().unwrap();
        assert!(first.collect_reports(&mut SilentWorker).unwrap() != LinkOutcome::Rewound);
        assert_eq!(first.pull(&mut SilentWorker).unwrap(), LinkOutcome::Done(()));
        first.finish(&mut SilentWorker).unwrap();
        first.params().iter().map(|value| value.to_bits()).collect()
    })
}

#[test]
fn a_push_in_pieces_has_the_bits_of_a_push_at_once() {
    for wire in [WireFormat::F32, WireFormat::Bf16] {
        let at_once = train(wire, [false, false]);
        for in_pieces in [[true, false], [true, true]] {
            assert!(train(wire, in_pieces) == at_once, "{wire:?} {in_pieces:?}");
        }
    }
}
