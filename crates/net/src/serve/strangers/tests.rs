use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream as StdStream};

use mio::{Events, Poll};

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
        let strangers = Strangers::new(poll.registry().try_clone().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TestRoom { poll, listener, strangers: Strangers { most, ..strangers } }
    }

    /// Opens a connection. Returns its other end, and whether a stranger was sent away.
    fn enter(&mut self) -> (StdStream, bool) {
        let other = StdStream::connect(self.listener.local_addr().unwrap()).unwrap();
        let (own, address) = self.listener.accept().unwrap();
        own.set_nonblocking(true).unwrap();
        let dismissed = self.strangers.take_in(TcpStream::from_std(own), address);
        (other, dismissed.is_some())
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

fn hello(payload: &[u8]) -> Vec<u8> {
    [&Header::new(FrameKind::Hello, payload.len()).encode()[..], payload].concat()
}

#[test]
fn a_hello_that_arrives_in_pieces_is_read_with_what_follows_it() {
    let mut room = TestRoom::new(4);
    let (mut client, _) = room.enter();
    let frame = [hello(b"who I am"), vec![99; 20]].concat();
    client.write_all(&frame[..45]).unwrap();
    let mut events = Events::with_capacity(8);
    room.poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
    assert!(events.iter().all(|event| room.strangers.read(event).is_none()));
    client.write_all(&frame[45..]).unwrap();
    let greeting = room.next().unwrap();
    assert_eq!((greeting.header.kind, &greeting.payload[..]), (FrameKind::Hello, &b"who I am"[..]));
    // What follows is in the socket or in what was read already, and nowhere else.
    let (mut inbound, mut stream) = (greeting.inbound, greeting.stream);
    client.write_all(&[99; 20]).unwrap();
    drop(client);
    inbound.expect_end();
    let error = inbound.read_header(&mut stream, &mut []).unwrap_err();
    assert!(error.to_string().contains("unknown kind of frame 99"), "{error}");
}

#[test]
fn another_frame_and_one_that_is_too_long_are_refused_by_their_header() {
    let mut room = TestRoom::new(4);
    let (mut client, _) = room.enter();
    client.write_all(&Header::new(FrameKind::PullKeys, 1 << 20).encode()).unwrap();
    assert_eq!(room.next().map(|_| ()).unwrap_err(), "a frame before Hello");
    let (mut client, _) = room.enter();
    let mut long = Header::new(FrameKind::Hello, 0).encode();
    long[4..8].copy_from_slice(&60_000u32.to_le_bytes());
    client.write_all(&long).unwrap();
    assert!(room.next().map(|_| ()).unwrap_err().contains("Hello with a payload of 60000 bytes"));
}

#[test]
fn in_a_full_room_the_stranger_that_has_waited_longest_leaves() {
    let mut room = TestRoom::new(3);
    let mut open: Vec<StdStream> = (0..3).map(|_| room.enter().0).collect();
    let (mut fourth, was_dismissed) = room.enter();
    assert!(was_dismissed);
    assert_eq!(open[0].read(&mut [0; 1]).unwrap(), 0, "the first is closed");
    fourth.write_all(&hello(b"!")).unwrap();
    assert_eq!(room.next().unwrap().payload, b"!");
    // A place is free again.
    open.push(room.enter().0);
    assert_eq!(room.strangers.places.iter().flatten().count(), 3);
}
