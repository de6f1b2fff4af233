//! Connections to a server from strangers to the run: wrong bytes, wrong token, silence.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use paceline_exchange::{
    FrameKind, Generation, Header, Hello, PROTOCOL_VERSION, PeerRole, ProcessName, WireFormat,
};
use paceline_trust::{
    CHALLENGE_BYTES, Claims, Credentials, Dialer, HandshakeError, Service, Statement,
};
use serde_json::Value;

use crate::interruptions::check_interrupted;
use crate::support::{
    ENDLESS, ManualRun, RunningProcess, Sandbox, cluster_of, environment, free_ports, wait_until,
    within,
};

/// Where a server of a run listens, and the run's token.
pub(crate) struct ServerEndpoint {
    pub(crate) address: String,
    pub(crate) token: String,
}

pub(crate) fn server_endpoint(launched: &RunningProcess) -> ServerEndpoint {
    let server = launched.task("ps:0");
    let config: Value = serde_json::from_str(&environment(server, "TF_CONFIG").unwrap()).unwrap();
    let address = config["cluster"]["ps"][0].as_str().unwrap().to_owned();
    ServerEndpoint { address, token: environment(server, "PACELINE_TOKEN").unwrap() }
}

/// A frame with this payload.
pub(crate) fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    [&Header::new(kind, payload.len()).encode()[..], payload].concat()
}

pub(crate) fn hello() -> Hello {
    Hello {
        version: PROTOCOL_VERSION,
        role: PeerRole::Worker,
        wire: WireFormat::F32,
        slot: 0,
        incarnation: u64::MAX,
        job: [7; 32].into(),
        layout_digest: [7; 32],
        server: 0,
        servers: 2,
        generation: Generation::default(),
        process: ProcessName::default(),
    }
}

/// The first message of a client that says this, and which proof it will send.
pub(crate) fn dialer(token: &str, hello: &Hello) -> Dialer {
    let Hello { version, role, slot, incarnation, .. } = *hello;
    let claims = Claims { role: role.code(), slot, incarnation };
    let service = Service::Training;
    let statement = Statement { version, service, claims, is_sealed: false };
    Dialer::new(&Credentials::with_token(token.as_bytes()), statement).unwrap()
}

/// A connection to a server, which has answered this first message.
pub(crate) fn challenged(
    address: &str,
    dialer: &Dialer,
) -> (TcpStream, Result<[u8; 32], HandshakeError>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(dialer.first()).unwrap();
    let mut challenge = [0; CHALLENGE_BYTES];
    stream.read_exact(&mut challenge).unwrap();
    (stream, dialer.answer(&challenge).map(|answered| answered.proof))
}

/// Sends these bytes to a server as a client that knows the token, which the server must close
/// within 5 seconds.
fn send_proved(address: &str, token: &str, bytes: &[u8]) {
    let (mut stream, proof) = challenged(address, &dialer(token, &hello()));
    stream.write_all(&[&proof.unwrap()[..], bytes].concat()).unwrap();
    wait_for_close(stream);
}

/// Sends these bytes to a server, which must close the connection within 5 seconds.
fn send(address: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    wait_for_close(stream);
}

pub(crate) fn wait_for_close(mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut answer = Vec::new();
    // Closing a connection with unread bytes resets it.
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
}

/// Interrupts a run after hostile connections, and checks that they cost no worker.
pub(crate) fn end_unharmed(sandbox: &Sandbox, launched: RunningProcess) {
    let run = sandbox.run_folder("run");
    let before = launched.last_step();
    launched.signal("INT");
    let output = launched.finish();
    assert!(run.summary()["global_steps"].as_u64().unwrap() > before, "steps were made");
    check_interrupted(sandbox, "after hostile connections", output.code, 130);
    for server in ["ps:0", "ps:1"] {
        let log = run.log(server);
        let is_loss = |line: &&str| line.contains("connection to worker:");
        assert_eq!(log.lines().find(is_loss), None, "a worker was lost: {log}");
    }
}

#[test]
fn invalid_peers_are_refused_with_a_reason_and_do_no_harm() {
    let sandbox = Sandbox::new();
    let launched = sandbox.launch_five_tasks("sync", &[ENDLESS]);
    let ServerEndpoint { address, token } = server_endpoint(&launched);
    let run = sandbox.run_folder("run");
    let mut huge = Header::new(FrameKind::Hello, 0).encode();
    huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let refused_within = |reason: &str, attack: &dyn Fn()| {
        let before = run.log("ps:0").len();
        attack();
        within(Duration::from_secs(5), reason, || run.log("ps:0")[before..].contains(reason));
    };
    // Without a proof nothing is read but the first message.
    let older = Hello { version: 7, ..hello() };
    let newer = dialer(&token, &Hello { version: 99, ..hello() });
    let not_paceline = "closed the connection of a stranger: not a Paceline task (127.0.0.1:";
    let is_older = &format!("protocol version 7, not {PROTOCOL_VERSION}")[..];
    let is_newer = &format!("protocol version 99, not {PROTOCOL_VERSION}")[..];
    for (bytes, reason) in [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n-------------------".to_vec(), not_paceline),
        (vec![0xff; 100_000], not_paceline),
        (vec![0; 60], not_paceline),
        (frame(FrameKind::Push, &[0; 64]), not_paceline),
        (frame(FrameKind::Hello, &older.encode()), is_older),
        (newer.first().to_vec(), is_newer),
        ([&dialer(&token, &hello()).first()[..], &[7; 32]].concat(), "does not wait for the chall"),
    ] {
        refused_within(reason, &|| send(&address, &bytes));
    }
    for token in ["", &token] {
        refused_within("the token is not this run's", &|| {
            let (mut stream, _) = challenged(&address, &dialer(token, &hello()));
            stream.write_all(&[7; 32]).unwrap();
            wait_for_close(stream);
        });
    }
    // A wrong token shows on both sides.
    let (_, proof) = challenged(&address, &dialer("wrong", &hello()));
    assert!(matches!(proof, Err(HandshakeError::Token)));
    // What a client says that knows the token is checked as well.
    let other_wire = Hello { wire: WireFormat::Bf16, ..hello() };
    let other_slot = Hello { slot: 1, ..hello() };
    let no_magic = [&b"NOPE"[..], &hello().encode()[4..]].concat();
    let cut_short = &hello().encode()[..50];
    for (bytes, reason) in [
        (huge.to_vec(), "Hello with a payload of 4294967295 bytes"),
        (vec![0xff; 100], "unknown kind of frame 255"),
        (frame(FrameKind::Pull, &[]), "a frame before Hello"),
        (frame(FrameKind::Push, &[0; 64]), "a frame before Hello"),
        (frame(FrameKind::Hello, &[]), "closed the connection of a stranger"),
        (frame(FrameKind::Hello, &no_magic), "closed the connection of a stranger"),
        (frame(FrameKind::Hello, cut_short), "closed the connection of a stranger"),
        (frame(FrameKind::Hello, &other_slot.encode()), "its Hello does not say what it proved"),
        (frame(FrameKind::Hello, &other_wire.encode()), "it sends gradients as bf16, but this run"),
        (frame(FrameKind::Hello, &hello().encode()), "it works for another job"),
    ] {
        refused_within(reason, &|| send_proved(&address, &token, &bytes));
    }
    end_unharmed(&sandbox, launched);
}

#[test]
fn half_a_frame_and_silence_do_no_harm() {
    let sandbox = Sandbox::new();
    let launched = sandbox.launch_five_tasks("sync", &["train.stop={seconds=1}"]);
    let ServerEndpoint { address, token } = server_endpoint(&launched);
    let whole = frame(FrameKind::Hello, &hello().encode());
    let _open = [0, 1, 39, 40, 60].map(|len| {
        let (mut stream, proof) = challenged(&address, &dialer(&token, &hello()));
        stream.write_all(&[&proof.unwrap()[..], &whole[..len]].concat()).unwrap();
        stream
    });
    let _silent = [0, 1, 51, 52].map(|len| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(&dialer(&token, &hello()).first()[..len]).unwrap();
        stream
    });
    let output = launched.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn hundreds_of_short_connections_do_no_harm() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch_five_tasks("async", &[ENDLESS]);
    let ServerEndpoint { address, .. } = server_endpoint(&launched);
    for turn in 0..500 {
        let mut stream = TcpStream::connect(&address).unwrap();
        match turn % 3 {
            0 => drop(stream),
            1 => stream.shutdown(Shutdown::Write).unwrap(),
            _ => stream.write_all(b"x").unwrap(),
        }
    }
    // As many again, all open at once.
    let open: Vec<_> = (0..500).map(|_| TcpStream::connect(&address).unwrap()).collect();
    launched.wait_for_more_steps();
    drop(open);
    end_unharmed(&sandbox, launched);
}

#[test]
fn a_silent_connection_is_closed_after_a_while() {
    let [port] = free_ports();
    let manual_run = ManualRun::new(cluster_of(1, &[port]), &[]);
    let server = manual_run.start("ps", 0);
    let mut silent = None;
    assert!(wait_until(|| {
        silent = TcpStream::connect(("127.0.0.1", port)).ok();
        silent.is_some()
    }));
    let mut silent = silent.unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    // The server resets it, unless it was open before the server ran.
    let read = silent.read(&mut [0; 100]).map_err(|error| error.kind());
    assert!(matches!(read, Ok(0) | Err(std::io::ErrorKind::ConnectionReset)), "{read:?}");
    manual_run.wait_for_log("ps:0", "a stranger: no Hello in time");
    drop(server);
}
