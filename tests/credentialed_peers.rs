//! Attacks by a peer that has the run's secret: it can do only what its role allows.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paceline_exchange::{
    FrameKind, Generation, HEADER_BYTES, Header, Hello, PROTOCOL_VERSION, PeerRole, ProcessName,
};
use paceline_trust::{
    CHALLENGE_BYTES, Claims, Credentials, Dialer, FIRST_BYTES, FrameKeys, FrameSealer,
    HandshakeAcceptor, PROOF_BYTES, SEAL_BYTES, Service, Statement,
};

use crate::hostile_peers::wait_for_close;
use crate::support::{ENDLESS, ManualRun, SECRET, assert_says, cluster_of, free_ports, within};
use crate::tls::make_keys;

fn secret() -> Credentials {
    Credentials::with_token(SECRET.as_bytes())
}

/// What an honest worker says to a server, which the attacker poses as.
fn captured_hello(run: &ManualRun, listener: &TcpListener) -> Hello {
    let worker = run.start("worker", 1);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (mut first, mut proof) = ([0; FIRST_BYTES], [0; PROOF_BYTES]);
    stream.read_exact(&mut first).unwrap();
    let (service, version) = (Service::Training, PROTOCOL_VERSION);
    let challenged = HandshakeAcceptor::challenge(&secret(), service, version, true, &first);
    let (acceptor, challenge) = challenged.unwrap();
    stream.write_all(&challenge).unwrap();
    stream.read_exact(&mut proof).unwrap();
    assert!(acceptor.finish(&proof).is_ok());
    let mut head = [0; HEADER_BYTES + SEAL_BYTES];
    stream.read_exact(&mut head).unwrap();
    let header = Header::decode(head.first_chunk().unwrap()).unwrap();
    let mut payload = vec![0; header.len as usize];
    stream.read_exact(&mut payload).unwrap();
    drop(worker);
    Hello::decode(&payload).unwrap()
}

/// A sealed connection of a client that says this.
struct SealedClient {
    stream: TcpStream,
    sealer: FrameSealer,
}

impl SealedClient {
    fn connect(port: u16, hello: &Hello) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let Hello { version, role, slot, incarnation, .. } = *hello;
        let claims = Claims { role: role.code(), slot, incarnation };
        let service = Service::Training;
        let statement = Statement { version, service, claims, is_sealed: true };
        let dialer = Dialer::new(&secret(), statement).unwrap();
        stream.write_all(dialer.first()).unwrap();
        let mut challenge = [0; CHALLENGE_BYTES];
        stream.read_exact(&mut challenge).unwrap();
        let answered = dialer.answer(&challenge).unwrap();
        stream.write_all(&answered.proof).unwrap();
        let sealer = answered.keys.as_ref().map(FrameKeys::sealer).unwrap();
        let mut client = Self { stream, sealer };
        client.send(FrameKind::Hello, &hello.encode());
        client
    }

    fn send(&mut self, kind: FrameKind, payload: &[u8]) {
        let head = Header::new(kind, payload.len()).encode();
        let seals = self.sealer.seal(&head, &[payload]);
        self.stream.write_all(&[&head[..], &seals, payload].concat()).unwrap();
    }
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

#[test]
fn a_peer_with_the_secret_can_do_only_what_its_role_allows() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = ["cluster.mode=async", "cluster.on_worker_loss=wait", ENDLESS];
    let run = ManualRun::new(cluster_of(2, &[port]), &settings);
    let captured = captured_hello(&run, &listener);
    drop(listener);
    let tasks = [("ps", 0), ("worker", 0), ("worker", 1)];
    let _tasks = tasks.map(|(role, index)| run.start(role, index));
    run.wait_for_log("ps:0", "all workers are connected");
    let log = || run.run().log("ps:0");
    let hello = |role: PeerRole, slot: u32, name: &str| Hello {
        role,
        slot,
        incarnation: now_us(),
        generation: Generation::default(),
        process: ProcessName { id: now_us(), name: name.into() },
        ..captured.clone()
    };
    use PeerRole::{Evaluator, Process, Replica, Worker};
    let far = Hello { incarnation: 1 << 62, ..hello(Worker, 1, "worker:1") };
    let generation = Generation { number: 1 << 62, base: Some(7) };
    let newer = Hello { generation, ..hello(Worker, 1, "worker:1") };
    let push = (FrameKind::Push, &[0; 64][..]);
    for (hello, frame, reason) in [
        (hello(Worker, 0, "worker:1"), None, "slot 0 is that of worker:0, the coordinator"),
        (hello(Worker, 0, ""), None, "slot 0 is that of worker:0, the coordinator"),
        (hello(Worker, 1, ""), None, "worker:1 fills slot 1, and not a process without a name"),
        (hello(Process, 0, ""), None, "place 0 is that of worker:0, not of a process without"),
        (hello(Worker, 1, "worker:7"), None, "worker:1 fills slot 1, and not worker:7"),
        (hello(Process, 1, "worker:7"), None, "place 1 is that of worker:1, not of worker:7"),
        (hello(Worker, 9, "worker:9"), None, "there is no slot 9"),
        (hello(Replica, 1, "worker:1"), None, "it expects a worker, but this is a server"),
        (far, None, "its incarnation is far in the future"),
        (newer, None, "the run's record has no generation 4611686018427387904"),
        (hello(Evaluator, 0, ""), Some(push), "Push from an evaluator"),
        (hello(Evaluator, 0, ""), Some((FrameKind::Finish, &[])), "Finish from an evaluator"),
        (
            hello(Process, Hello::NO_SLOT, "worker:8"),
            Some(push),
            "a process on the roster may send heartbeats only",
        ),
    ] {
        let before = log().len();
        let mut client = SealedClient::connect(port, &hello);
        if let Some((kind, payload)) = frame {
            client.send(kind, payload);
        }
        wait_for_close(client.stream);
        within(Duration::from_secs(5), reason, || log()[before..].contains(reason));
    }
    let lost = log().lines().find(|line| line.contains("lost the connection to")).map(String::from);
    assert_eq!(lost, None, "an honest worker was lost");
}

#[test]
fn a_workers_certificate_is_not_good_for_a_server() {
    let [port] = free_ports();
    let run = ManualRun::new(cluster_of(1, &[port]), &[ENDLESS]);
    let keys = make_keys(&run.sandbox);
    let [ca, cert, key] = keys.each_ref().map(String::as_str);
    let [other_cert, other_key] = [cert, key].map(|path| path.replace("{task}", "worker-0"));
    let posing = run.start_with("ps", 0, &[ca, &other_cert, &other_key]);
    let output = run.start_with("worker", 0, &[ca, cert, key]).finish_task();
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["ps:0 at 127.0.0.1:", "wrong certificate"]);
    drop(posing);
}
