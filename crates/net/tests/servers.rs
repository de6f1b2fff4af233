//! A worker and its server over real sockets: a server that is lost takes the run back.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use paceline_exchange::{
    ClientConfig, Generation, Level, ModeConfig, OnLoss, PeerRole, Server, ServerConfig, Stats,
    Store,
};
use paceline_model::{Group, Layout, OptimizerState, Sgd};
use paceline_net::{
    ConnectConfig, Credentials, ExchangePhase, LinkError, LinkObserver, LinkOutcome, ServeEnd,
    ServeError, ServerConnections, ServerObserver, ServerTotals, serve,
};

const START: [f32; 2] = [1.0, 2.0];

/// Ends the server on request.
struct KillSwitch<'a>(&'a AtomicBool);

impl ServerObserver for KillSwitch<'_> {
    fn note(&mut self, _: Level, _: &str) {}
    fn report(&mut self, _: &ServerTotals, _: &Stats, _: &Store) -> Vec<u8> {
        Vec::new()
    }
    fn tick(&mut self, _: &Server) -> Result<(), String> {
        if self.0.load(Ordering::Relaxed) { Err("killed".into()) } else { Ok(()) }
    }
}

fn credentials() -> Credentials {
    Credentials::with_token(b"open sesame")
}

struct QuietWorker;

impl LinkObserver for QuietWorker {
    fn enter_phase(&mut self, _: ExchangePhase) {}
    fn note(&mut self, _: &str) {}
    fn should_give_up(&mut self) -> bool {
        false
    }
}

fn server(generation: u64) -> Server {
    server_for(1, generation)
}

fn server_for(workers: usize, generation: u64) -> Server {
    let mut layout = Layout::new();
    layout.push("weight", &[2], Group::Weights);
    let optimizer = OptimizerState::new(Sgd::new(0.5), &layout, 0..2);
    let config = ServerConfig {
        on_loss: OnLoss::Continue,
        rejoin_ms: 60_000,
        ..ServerConfig::new(ModeConfig::Async, workers, 2)
    };
    let mut server = Server::new(config, Store::dense(START.to_vec(), optimizer));
    server.enter_generation(Generation { number: generation, base: None });
    server
}

fn connect(
    address: &str,
    rejoin_timeout: Option<Duration>,
) -> Result<ServerConnections, LinkError> {
    let client = ClientConfig::new(PeerRole::Worker, 1, 2);
    let config = ConnectConfig {
        rejoin_timeout,
        credentials: credentials(),
        ..ConnectConfig::new(client, vec![address.to_owned()])
    };
    ServerConnections::connect(config, &mut QuietWorker)
}

/// Starts a server, runs `work` on its address, and checks how the server ended.
fn with_server<T>(
    listener: &TcpListener,
    generation: u64,
    is_killed: &AtomicBool,
    work: impl FnOnce() -> T,
) -> (T, Result<ServeEnd, ServeError>) {
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            serve(listener, &mut server(generation), &credentials(), &mut KillSwitch(is_killed))
        });
        let result = work();
        (result, serving.join().unwrap())
    })
}

#[test]
fn a_lost_server_that_starts_over_is_a_rewind_and_not_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (is_killed, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut servers, end) = with_server(&listener, 1, &is_killed, || {
        let mut servers = connect(&address, Some(Duration::from_secs(60))).unwrap();
        let pushed = servers.exchange(0, 1, &[0.2, 0.4], &mut QuietWorker).unwrap();
        assert_eq!(pushed, LinkOutcome::Done(()));
        assert_eq!(servers.params(), [0.9, 1.8]);
        is_killed.store(true, Ordering::Relaxed);
        servers
    });
    assert!(matches!(end, Err(ServeError::Failed(why)) if why == "killed"));
    let ((), end) = with_server(&listener, 2, &never, || {
        let pushed = servers.exchange(1, 1, &[0.2, 0.4], &mut QuietWorker).unwrap();
        assert_eq!(pushed, LinkOutcome::Rewound);
        assert!(servers.pull(&mut QuietWorker).unwrap() == LinkOutcome::Rewound, "until resumed");
        servers.resume_after_rewind(&mut QuietWorker).unwrap();
        assert_eq!((servers.params(), servers.resume_step()), (&START[..], 0));
        assert_eq!(servers.lost_pushes(), 1);
        let pushed = servers.exchange(0, 1, &[0.2, 0.4], &mut QuietWorker).unwrap();
        assert_eq!((pushed, servers.params()), (LinkOutcome::Done(()), &[0.9, 1.8][..]));
        let left = servers.leave(b"report", &mut QuietWorker).unwrap();
        assert_eq!(left, LinkOutcome::Done(()));
        servers.finish(&mut QuietWorker).unwrap();
    });
    assert_eq!(end.unwrap(), ServeEnd::Finished);
}

#[test]
fn without_a_rejoin_timeout_a_lost_server_is_an_error_that_names_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let is_killed = AtomicBool::new(false);
    let (mut servers, _) = with_server(&listener, 1, &is_killed, || {
        let servers = connect(&address, None).unwrap();
        is_killed.store(true, Ordering::Relaxed);
        servers
    });
    let error = servers.exchange(0, 1, &[0.2, 0.4], &mut QuietWorker).unwrap_err();
    assert!(matches!(&error, LinkError::Lost { task, .. } if task == "ps:0"), "{error}");
}

#[test]
fn a_thousand_workers_connect_to_one_server_and_push() {
    const WORKERS: usize = 1_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let work = |slot: u32| {
        let client = ClientConfig { slot, ..ClientConfig::new(PeerRole::Worker, 1, 2) };
        let config = ConnectConfig {
            credentials: credentials(),
            ..ConnectConfig::new(client, vec![address.clone()])
        };
        let mut servers = ServerConnections::connect(config, &mut QuietWorker).unwrap();
        let gradient = [2.0 / WORKERS as f32, 0.0];
        let pushed = servers.exchange(0, 1, &gradient, &mut QuietWorker).unwrap();
        assert_eq!(pushed, LinkOutcome::Done(()));
        let left = servers.leave(b"report", &mut QuietWorker).unwrap();
        assert_eq!(left, LinkOutcome::Done(()));
        if slot == 0 {
            assert!(matches!(servers.collect_reports(&mut QuietWorker), Ok(LinkOutcome::Done(_))));
            servers.finish(&mut QuietWorker).unwrap();
        }
    };
    let never = AtomicBool::new(false);
    let mut server = server_for(WORKERS, 1);
    thread::scope(|scope| {
        let serving =
            scope.spawn(|| serve(&listener, &mut server, &credentials(), &mut KillSwitch(&never)));
        let work = &work;
        for slot in (0..WORKERS as u32).rev() {
            let small = thread::Builder::new().stack_size(256 << 10);
            small.spawn_scoped(scope, move || work(slot)).unwrap();
        }
        assert_eq!(serving.join().unwrap().unwrap(), ServeEnd::Finished);
    });
    assert!(server.stats().slots.iter().all(|slot| slot.applied == 1), "each push once");
}
