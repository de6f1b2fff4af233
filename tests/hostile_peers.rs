//! Connections to a server from strangers to the run: wrong bytes, wrong token, silence.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use paceline_exchange::{
    FrameKind, Generation, Header, Hello, PROTOCOL_VERSION, PeerRole, ProcessName, WireFormat,
};
use serde_json::Value;

use crate::interruptions::check_interrupted;
use crate::support::{
    ENDLESS, ManualRun, RunningProcess, Sandbox, assert_says, cluster_of, environment, free_ports,
    wait_until, within,
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

pub(crate) fn hello(token: &str) -> Hello {
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
        token: token.as_bytes().to_vec(),
        process: ProcessName::default(),
    }
}

/// Sends these bytes to a server, which must close the connection within 5 seconds.
fn send(address: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(bytes).unwrap();
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
    let other_version = Hello { version: 99, ..hello(&token) };
    let other_wire = Hello { wire: WireFormat::Bf16, ..hello(&token) };
    let no_magic = [&b"NOPE"[..], &hello(&token).encode()[4..]].concat();
    let cut_short = &hello(&token).encode()[..50];
    for (bytes, reason) in [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n-----------".to_vec(), "kind of frame 71"),
        (vec![0xff; 100_000], "unknown kind of frame 255"),
        (huge.to_vec(), "Hello with a payload of 4294967295 bytes"),
        (frame(FrameKind::Pull, &[]), "a frame before Hello"),
        (frame(FrameKind::Push, &[0; 64]), "a frame before Hello"),
        (frame(FrameKind::Hello, &[]), "closed the connection of a stranger"),
        (frame(FrameKind::Hello, &no_magic), "closed the connection of a stranger"),
        (frame(FrameKind::Hello, cut_short), "closed the connection of a stranger"),
        (frame(FrameKind::Hello, &other_version.encode()), "refused a connection at 127."),
        (frame(FrameKind::Hello, &other_wire.encode()), "it sends gradients as bf16, but this run"),
        (frame(FrameKind::Hello, &hello("wrong").encode()), "the token is not this run's"),
        (frame(FrameKind::Hello, &hello("").encode()), "the token is not this run's"),
        (frame(FrameKind::Hello, &hello(&token).encode()), "it works for another job"),
    ] {
        let before = run.log("ps:0").len();
        send(&address, &bytes);
        within(Duration::from_secs(5), reason, || run.log("ps:0")[before..].contains(reason));
    }
    end_unharmed(&sandbox, launched);
}

#[test]
fn half_a_frame_and_silence_do_no_harm() {
    let sandbox = Sandbox::new();
    let launched = sandbox.launch_five_tasks("sync", &["train.stop={seconds=1}"]);
    let ServerEndpoint { address, token } = server_endpoint(&launched);
    let whole = frame(FrameKind::Hello, &hello(&token).encode());
    let _open = [0, 1, 39, 40, 60].map(|len| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(&whole[..len]).unwrap();
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
    assert_eq!(silent.read(&mut [0; 100]).unwrap(), 0, "the server closes the connection");
    assert_says(&manual_run.run().log("ps:0"), &["a stranger: no Hello in time"]);
    drop(server);
}
