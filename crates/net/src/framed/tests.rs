use std::io::Write;
use std::net::{TcpListener, TcpStream as StdStream};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Poll, Token};

use super::*;
use crate::socket::BOTH_WAYS;

/// Both ends of a connection; the poll knows the first.
fn connected(poll: &Poll) -> (TcpStream, StdStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = StdStream::connect(listener.local_addr().unwrap()).unwrap();
    let (own, _) = listener.accept().unwrap();
    own.set_nonblocking(true).unwrap();
    let mut own = TcpStream::from_std(own);
    poll.registry().register(&mut own, Token(0), BOTH_WAYS).unwrap();
    (own, other)
}

#[test]
fn an_end_in_the_middle_of_a_frame_is_noticed_though_one_event_announces_both() {
    let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(4));
    let (own, mut other) = connected(&poll);
    let peer = own.peer_addr().unwrap();
    let own = PeerStream::accept(own, peer, &Credentials::with_token(b"secret")).unwrap();
    let mut connection = FramedConnection::<(), ()>::new(own, None);
    let header = Header::new(FrameKind::Abort, 100);
    other.write_all(&[&header.encode()[..], &[b'x'; 30]].concat()).unwrap();
    drop(other);
    // No event follows the one that says that the other end has closed.
    let mut is_closed = false;
    while !is_closed {
        poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
        assert!(!events.is_empty(), "the end was not announced");
        for event in &events {
            connection.wake_by(event);
            is_closed |= event.is_read_closed();
        }
    }
    assert!(connection.read_control().is_err(), "the end was not noticed");
}
