//! Sealed and encrypted connections carry the same exchanges as plain ones, over real sockets.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::TcpListener;
use std::thread;

use paceline_exchange::{
    ClientConfig, Level, ModeConfig, PeerRole, ProcessName, Replica, ReplicaConfig, Server,
    ServerConfig, Stats, Store,
};
use paceline_model::{Group, Layout, OptimizerState, Sgd};
use paceline_net::{
    ConnectConfig, Credentials, ExchangePhase, LinkError, LinkObserver, LocalGradient, Mesh,
    MeshConfig, ServerConnections, ServerObserver, ServerTotals, serve,
};
use paceline_trust::{Authority, CA_FILE, CertificateFiles, TlsIdentity};

/// Several chunks, the last of them short.
const PARAMS: usize = 200_003;
const STEPS: u64 = 4;

struct Quiet;

impl ServerObserver for Quiet {
    fn note(&mut self, _: Level, _: &str) {}
    fn report(&mut self, _: &ServerTotals, _: &Stats, _: &Store) -> Vec<u8> {
        Vec::new()
    }
    fn tick(&mut self, _: &Server) -> Result<(), String> {
        Ok(())
    }
}

impl LinkObserver for Quiet {
    fn enter_phase(&mut self, _: ExchangePhase) {}
    fn note(&mut self, _: &str) {}
    fn should_give_up(&mut self) -> bool {
        false
    }
}

fn layout() -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[PARAMS], Group::Weights);
    layout
}

fn gradient(step: u64, slot: usize) -> Vec<f32> {
    (0..PARAMS).map(|i| ((i + slot) % 97) as f32 * 1e-3 + step as f32).collect()
}

/// Credentials of tasks with certificates of one authority.
fn encrypted(tasks: &[&str]) -> Vec<Credentials> {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<_> = tasks.iter().map(|task| (*task).to_owned()).collect();
    Authority::of_run().unwrap().write(dir.path(), &names).unwrap();
    let of_task = |task: &String| {
        let CertificateFiles { cert, key } = CertificateFiles::of(dir.path(), task);
        let identity = TlsIdentity::read(&dir.path().join(CA_FILE), &cert, &key).unwrap();
        Credentials::with_token(b"").with_tls(identity)
    };
    names.iter().map(of_task).collect()
}

fn connect(address: &str, credentials: &Credentials) -> Result<ServerConnections, LinkError> {
    let process = ProcessName { id: 1, name: "worker:0".into() };
    let client = ClientConfig { process, ..ClientConfig::new(PeerRole::Worker, 1, PARAMS) };
    let config = ConnectConfig {
        credentials: credentials.clone(),
        ..ConnectConfig::new(client, vec![address.to_owned()])
    };
    ServerConnections::connect(config, &mut Quiet)
}

/// Trains with a server and a worker. Returns the exact parameters.
fn train(server: &Credentials, worker: &Credentials) -> Vec<u32> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let optimizer = OptimizerState::new(Sgd::new(0.5), &layout(), 0..PARAMS);
    let config = ServerConfig::new(ModeConfig::Async, 1, PARAMS);
    let mut machine = Server::new(config, Store::dense(vec![1.0; PARAMS], optimizer));
    thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &mut machine, server, &mut Quiet).unwrap());
        let mut servers = connect(&address, worker).unwrap();
        for step in 0..STEPS {
            let _ = servers.exchange(step, 1, &gradient(step, 0), &mut Quiet).unwrap();
        }
        let params = servers.params().iter().map(|value| value.to_bits()).collect();
        let _ = servers.leave(b"report", &mut Quiet).unwrap();
        servers.finish(&mut Quiet).unwrap();
        params
    })
}

#[test]
fn sealed_and_encrypted_exchanges_give_the_bits_of_plain_ones() {
    let sealed = Credentials::with_token(b"open sesame");
    let plain = sealed.clone().trusting_loopback();
    let expected = train(&plain, &plain);
    assert!(train(&sealed, &sealed) == expected, "sealed");
    // A worker may ask for seals where the server does not need them, but not the other way.
    assert!(train(&plain, &sealed) == expected, "sealed by the worker");
    let [server, worker] = &encrypted(&["ps:0", "worker:0"])[..] else { unreachable!() };
    assert!(train(server, worker) == expected, "over TLS");
}

/// Starts a server and connects to it. Returns why it refuses the worker.
fn refusal(server: &Credentials, worker: &Credentials) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = server.clone();
    // The server's thread ends with the test.
    thread::spawn(move || {
        let optimizer = OptimizerState::new(Sgd::new(0.5), &layout(), 0..PARAMS);
        let config = ServerConfig::new(ModeConfig::Async, 1, PARAMS);
        let mut machine = Server::new(config, Store::dense(vec![1.0; PARAMS], optimizer));
        let _ = serve(&listener, &mut machine, &server, &mut Quiet);
    });
    match connect(&address, worker) {
        Err(LinkError::Denied(why)) => why,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was admitted"),
    }
}

#[test]
fn wrong_credentials_are_denied_at_once_with_a_reason() {
    let sealed = Credentials::with_token(b"open sesame");
    let why = refusal(&sealed, &Credentials::with_token(b"a guess"));
    assert!(why.contains("wrong token"), "{why}");
    let why = refusal(&sealed, &sealed.clone().trusting_loopback());
    assert!(why.contains("would not be sealed"), "{why}");
    let [server, worker] = &encrypted(&["ps:0", "worker:1"])[..] else { unreachable!() };
    let why = refusal(server, worker);
    assert!(why.contains("its certificate is not that of worker:0"), "{why}");
    let [other] = &encrypted(&["worker:0"])[..] else { unreachable!() };
    let why = refusal(server, other);
    assert!(why.contains("wrong certificate"), "{why}");
    let [wrong_server, worker] = &encrypted(&["ps:1", "worker:0"])[..] else { unreachable!() };
    let why = refusal(wrong_server, worker);
    assert!(why.contains("wrong certificate"), "{why}");
}

/// Trains with a mesh of workers. Returns the exact parameters of each.
fn train_mesh(credentials: &[Credentials]) -> Vec<Vec<u32>> {
    let listeners: Vec<_> =
        credentials.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<_> =
        listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    let work = &|slot: usize, listener: TcpListener| {
        let config = ReplicaConfig {
            stop_steps: Some(STEPS),
            ..ReplicaConfig::new(slot, credentials.len())
        };
        let replica = Replica::new(config, vec![1.0; PARAMS], Sgd::new(0.5), &layout());
        let config = MeshConfig {
            credentials: credentials[slot].clone(),
            ..MeshConfig::new(addresses.clone())
        };
        let mut mesh = Mesh::connect(replica, config, Some(listener), &mut Quiet).unwrap();
        while !mesh.is_over() {
            let values = gradient(mesh.global_step(), slot);
            let gradient = LocalGradient { examples: 1, values: &values };
            mesh.reduce(Some(gradient), &mut Quiet).unwrap();
        }
        let params = mesh.params().iter().map(|value| value.to_bits()).collect();
        mesh.leave(&[], &mut Quiet).unwrap();
        if slot == 0 {
            mesh.collect_reports(&mut Quiet).unwrap();
        }
        mesh.finish(&mut Quiet);
        params
    };
    thread::scope(|scope| {
        let start = |(slot, listener)| scope.spawn(move || work(slot, listener));
        let threads: Vec<_> = listeners.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn sealed_and_encrypted_meshes_give_the_bits_of_plain_ones() {
    let sealed = Credentials::with_token(b"open sesame");
    let plain = train_mesh(&[(); 3].map(|()| sealed.clone().trusting_loopback()));
    assert!(train_mesh(&[(); 3].map(|()| sealed.clone())) == plain, "sealed");
    assert!(train_mesh(&encrypted(&["worker:0", "worker:1", "worker:2"])) == plain, "over TLS");
}
