use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream as StdStream};

use mio::{Events, Poll};
use paceline_exchange::{Hello, PROTOCOL_VERSION, ProcessName, request_join_info};
use paceline_trust::{Answered, CHALLENGE_BYTES, Dialer, FrameKeys as Keys, Service, Statement};

use super::*;

/// A room for this many strangers, and a way to open connections to it.
struct TestRoom {
    poll: Poll,
    listener: TcpListener,
    strangers: Strangers,
}

impl TestRoom {
    fn new(most: usize) -> Self {
        let poll = Poll::new().unwrap();
        let registry = poll.registry().try_clone().unwrap();
        let strangers = Strangers::new(registry, Credentials::with_token(TOKEN));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TestRoom { poll, listener, strangers: Strangers { most, ..strangers } }
    }

    /// Opens a connection. Returns its other end, and whether a stranger was sent away.
    fn enter(&mut self) -> (StdStream, bool) {
        let other = StdStream::connect(self.listener.local_addr().unwrap()).unwrap();
        let (own, address) = self.listener.accept().unwrap();
        own.set_nonblocking(true).unwrap();
        let mut stranger = self.strangers.meet(TcpStream::from_std(own), address).ok().unwrap();
        assert!(stranger.read(false).ok().unwrap().is_none(), "it has said nothing");
        (other, self.strangers.keep(stranger).is_err())
    }

    /// Waits for events, and lets the strangers read. No one of them has said `Hello` yet.
    fn read(&mut self) {
        let mut events = Events::with_capacity(8);
        self.poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
        assert!(events.iter().all(|event| self.strangers.read(event).is_none()));
    }

    /// Opens a connection whose client has proved that it knows the secret.
    fn enter_and_prove(&mut self) -> (StdStream, Keys) {
        let (mut client, _) = self.enter();
        let dialer = Dialer::new(&Credentials::with_token(TOKEN), statement()).unwrap();
        client.write_all(dialer.first()).unwrap();
        self.read();
        let mut challenge = [0; CHALLENGE_BYTES];
        client.read_exact(&mut challenge).unwrap();
        let Answered { proof, keys } = dialer.answer(&challenge).unwrap();
        client.write_all(&proof).unwrap();
        (client, keys.unwrap())
    }

    /// What becomes of the next stranger that says anything.
    fn next(&mut self) -> Result<Greeting, String> {
        let mut events = Events::with_capacity(8);
        loop {
            self.poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
            assert!(!events.is_empty(), "no stranger said anything");
            for event in &events {
                if let Some(read) = self.strangers.read(event) {
                    return read.map_err(|dismissal| dismissal.why);
                }
            }
        }
    }
}

const TOKEN: &[u8] = b"open sesame";

fn claims() -> Claims {
    let hello = Hello::decode(&request_join_info().body).unwrap();
    crate::opening::claims_of(&hello)
}

fn statement() -> Statement {
    let (version, service) = (PROTOCOL_VERSION, Service::Training);
    Statement { version, service, claims: claims(), is_sealed: true }
}

/// The first sealed frame.
fn frame(keys: &Keys, head: [u8; 40], payload: &[u8]) -> Vec<u8> {
    [&head[..], &keys.sealer().seal(&head, &[payload]), payload].concat()
}

fn hello(keys: &Keys, payload: &[u8]) -> Vec<u8> {
    frame(keys, Header::new(FrameKind::Hello, payload.len()).encode(), payload)
}

#[test]
fn a_hello_that_arrives_in_pieces_is_read_with_what_follows_it() {
    let mut room = TestRoom::new(4);
    let (mut client, keys) = room.enter_and_prove();
    let frame = [hello(&keys, b"who I am"), vec![99; 20]].concat();
    client.write_all(&frame[..75]).unwrap();
    room.read();
    client.write_all(&frame[75..]).unwrap();
    let greeting = room.next().unwrap();
    assert_eq!((greeting.header.kind, &greeting.payload[..]), (FrameKind::Hello, &b"who I am"[..]));
    // What follows is in the socket or in what was read already, and nowhere else.
    let (mut inbound, stream) = (greeting.inbound, greeting.stream);
    client.write_all(&[99; 52]).unwrap();
    drop(client);
    inbound.expect_end();
    let error = inbound.read_header(&mut &stream, &mut []).unwrap_err();
    assert!(error.to_string().contains("its seal is wrong"), "{error}");
}

#[test]
fn another_frame_and_one_that_is_too_long_are_refused_by_their_header() {
    let mut room = TestRoom::new(4);
    let (mut client, keys) = room.enter_and_prove();
    let head = Header::new(FrameKind::PullKeys, 1 << 20).encode();
    client.write_all(&frame(&keys, head, &[])).unwrap();
    assert_eq!(room.next().map(|_| ()).unwrap_err(), "a frame before Hello");
    let (mut client, keys) = room.enter_and_prove();
    let mut long = Header::new(FrameKind::Hello, 0).encode();
    long[4..8].copy_from_slice(&60_000u32.to_le_bytes());
    client.write_all(&frame(&keys, long, &[])).unwrap();
    assert!(room.next().map(|_| ()).unwrap_err().contains("Hello with a payload of 60000 bytes"));
}

#[test]
fn in_a_full_room_the_stranger_that_has_waited_longest_leaves() {
    let mut room = TestRoom::new(3);
    let mut open: Vec<StdStream> = (0..3).map(|_| room.enter().0).collect();
    let (mut fourth, keys) = room.enter_and_prove();
    assert_eq!(open[0].read(&mut [0; 1]).unwrap(), 0, "the first is closed");
    fourth.write_all(&hello(&keys, b"!")).unwrap();
    assert_eq!(room.next().unwrap().payload, b"!");
    // A place is free again.
    open.push(room.enter().0);
    assert_eq!(room.strangers.places.iter().flatten().count(), 3);
}

#[test]
fn a_hello_that_claims_more_than_was_proved_is_refused() {
    let mut room = TestRoom::new(4);
    let honest = Hello::decode(&request_join_info().body).unwrap();
    let (mut client, keys) = room.enter_and_prove();
    client.write_all(&hello(&keys, &Hello { slot: 0, ..honest }.encode())).unwrap();
    let why = room.next().map(|_| ()).unwrap_err();
    assert_eq!(why, "its Hello does not say what it proved");
}

#[test]
fn a_wrong_proof_and_recorded_bytes_are_refused() {
    let mut room = TestRoom::new(4);
    let dialer = Dialer::new(&Credentials::with_token(TOKEN), statement()).unwrap();
    let mut challenged = || {
        let (mut client, _) = room.enter();
        client.write_all(dialer.first()).unwrap();
        room.read();
        let mut challenge = [0; CHALLENGE_BYTES];
        client.read_exact(&mut challenge).unwrap();
        (client, dialer.answer(&challenge).unwrap().proof)
    };
    let (_client, proof) = challenged();
    // The same bytes on another connection.
    let (mut again, _) = challenged();
    again.write_all(&proof).unwrap();
    assert_eq!(room.next().map(|_| ()).unwrap_err(), "the token is not this run's");
    let (mut at_once, _) = room.enter();
    at_once.write_all(&[&dialer.first()[..], &proof].concat()).unwrap();
    assert_eq!(room.next().map(|_| ()).unwrap_err(), "it does not wait for the challenge");
}

#[test]
fn only_a_worker_acts_as_one() {
    for (role, task, may) in [
        (PeerRole::Worker, "worker:3", true),
        (PeerRole::Process, "chief:0", true),
        (PeerRole::Newcomer, "worker", true),
        (PeerRole::Evaluator, "evaluator:0", true),
        (PeerRole::Worker, "evaluator:0", false),
        (PeerRole::Process, "ps:0", false),
    ] {
        assert_eq!(may_play(role, task), may, "{role:?} {task}");
    }
}

#[test]
fn one_that_fills_a_slot_or_has_a_place_must_say_its_name() {
    let none = Hello::NO_SLOT;
    for (role, slot, name, is_enough) in [
        (PeerRole::Worker, 0, "", false),
        (PeerRole::Worker, 0, "worker:0", true),
        (PeerRole::Process, 0, "", false),
        (PeerRole::Process, none, "", true),
        (PeerRole::Evaluator, 0, "", true),
        (PeerRole::Newcomer, none, "", true),
    ] {
        let process = ProcessName { id: 1, name: name.into() };
        let any = Hello::decode(&request_join_info().body).unwrap();
        let hello = Hello { role, slot, process, ..any };
        assert_eq!(says_its_name(&hello), is_enough, "{role:?} {slot} {name}");
    }
}
