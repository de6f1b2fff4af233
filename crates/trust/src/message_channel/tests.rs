use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::*;
use crate::tls::tests::identities;

const MOST: usize = 1 << 20;

type TcpChannel = MessageChannel<TcpStream>;

fn token(text: &str) -> Credentials {
    Credentials::with_token(text.as_bytes())
}

fn prepared(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(Duration::from_millis(2_000))).unwrap();
    stream
}

/// Both ends of a connection between tasks with these credentials: the acceptor's, the dialer's.
fn connect(
    [acceptor, dialer]: [&Credentials; 2],
    [held, wanted]: [Service; 2],
) -> [io::Result<TcpChannel>; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let accept = || {
            let stream = prepared(listener.accept().unwrap().0);
            MessageChannel::accept(stream, acceptor, held)
        };
        let accepted = scope.spawn(accept);
        let stream = prepared(TcpStream::connect(address).unwrap());
        let dialled = MessageChannel::dial(stream, dialer, wanted, "worker:0");
        [accepted.join().unwrap(), dialled]
    })
}

fn open(both: &[Credentials; 2]) -> [TcpChannel; 2] {
    let [acceptor, dialer] = both;
    let opened = connect([acceptor, dialer], [Service::Files; 2]);
    opened.map(|side| side.map_err(|error| error.to_string()).unwrap())
}

fn kinds(both: [&Credentials; 2], services: [Service; 2]) -> [Option<ErrorKind>; 2] {
    connect(both, services).map(|side| side.err().map(|error| error.kind()))
}

#[test]
fn messages_travel_both_ways_sealed_and_encrypted() {
    let [first, second] = identities(["worker:0", "ps:1"]);
    let encrypted = [token("secret").with_tls(first), token("secret").with_tls(second)];
    for both in [[token("secret"), token("secret")], encrypted] {
        let [mut acceptor, mut dialer] = open(&both);
        let is_encrypted = both[0].tls().is_some();
        assert!(acceptor.may_be("ps:1"));
        assert_eq!(acceptor.may_be("ps:0"), !is_encrypted);
        dialer.send(&[b"in ", b"pieces"]).unwrap();
        dialer.send(&[]).unwrap();
        assert_eq!(acceptor.receive(MOST).unwrap(), Some(&b"in pieces"[..]));
        assert_eq!(acceptor.receive(MOST).unwrap(), Some(&b""[..]));
        let long: Vec<u8> = (0..300_000_u32).map(|i| ((i * 7) >> 3) as u8).collect();
        acceptor.send(&[&long]).unwrap();
        assert_eq!(dialer.receive(MOST).unwrap(), Some(&long[..]));
        // A message that is not there yet is received later.
        acceptor.stream().set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(acceptor.receive(MOST).unwrap(), None);
        dialer.send(&[&long]).unwrap();
        let arrived = loop {
            if let Some(message) = acceptor.receive(MOST).unwrap() {
                break message.to_vec();
            }
        };
        assert!(arrived == long);
        dialer.send(&[&long]).unwrap();
        let error = loop {
            match acceptor.receive(1_000) {
                Err(error) => break error,
                Ok(message) => assert_eq!(message, None),
            }
        };
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        drop(acceptor);
        let mut closed = || dialer.receive(MOST).err().map(|error| error.kind());
        assert!(matches!(closed(), Some(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)));
    }
}

#[test]
fn sides_of_different_runs_do_not_talk() {
    let files = [Service::Files; 2];
    // The first wrong proofs may have been changed on the way.
    let (one, other) = (token("one"), token("other"));
    assert_eq!(kinds([&one, &other], files)[1], Some(ErrorKind::ConnectionAborted));
    assert_eq!(kinds([&one, &other], files)[1], Some(ErrorKind::ConnectionAborted));
    assert_eq!(kinds([&one, &other], files), [Some(ErrorKind::PermissionDenied); 2]);
    // An acceptor with another service says so.
    let same = token("one");
    same.is_doubtful(false);
    same.is_doubtful(false);
    let refused = kinds([&one, &same], [Service::Files, Service::Meeting]);
    assert_eq!(refused, [Some(ErrorKind::PermissionDenied); 2]);
    assert_eq!(kinds([&one, &token("one")], files), [None; 2]);
}

#[test]
fn a_side_without_a_certificate_or_with_that_of_another_task_is_refused() {
    let files = [Service::Files; 2];
    let [own, stranger] = identities(["worker:0", "worker:1"]);
    let [foreign] = identities(["ps:0"]);
    let own = token("secret").with_tls(own);
    for other in [token("secret"), token("secret").with_tls(foreign)] {
        let refused = kinds([&own, &other], files);
        assert!(refused.iter().all(Option::is_some), "{refused:?}");
    }
    // Worker 1 poses as worker 0, where the dialer expects worker 0.
    let stranger = token("secret").with_tls(stranger);
    let refused = kinds([&stranger, &own], files);
    assert!(refused[1].is_some(), "{refused:?}");
    // TLS is not given up because the other side has none.
    let refused = kinds([&token("secret"), &own], files);
    assert!(refused.iter().all(Option::is_some), "{refused:?}");
}

/// A stream in memory whose bytes can be changed on the way.
#[derive(Default)]
struct MemoryStream {
    incoming: std::collections::VecDeque<u8>,
    outgoing: Vec<u8>,
}

impl Read for MemoryStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.incoming.is_empty() { Ok(0) } else { self.incoming.read(bytes) }
    }
}

impl Write for MemoryStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_changed_repeated_or_lost_message_ends_the_connection() {
    let keys = FrameKeys { send: [1; 32], receive: [1; 32] };
    let end = || {
        let mut channel = MessageChannel::new(MemoryStream::default(), None);
        channel.protect(Some(&keys));
        channel
    };
    let mut sender = end();
    let messages: Vec<Vec<u8>> = [&b"first"[..], b"second"]
        .map(|text| {
            sender.send(&[text]).unwrap();
            std::mem::take(&mut sender.stream.outgoing)
        })
        .into();
    let receive = |bytes: &[u8], count: usize| {
        let mut receiver = end();
        receiver.stream.incoming.extend(bytes);
        (0..count).try_for_each(|_| receiver.receive(MOST).map(|_| ()))
    };
    assert!(receive(&messages.concat(), 2).is_ok());
    let wrong = |bytes: &[u8], count: usize| receive(bytes, count).unwrap_err().kind();
    assert_eq!(wrong(&messages[1], 1), ErrorKind::ConnectionAborted, "left out");
    assert_eq!(wrong(&messages[0].repeat(2), 2), ErrorKind::ConnectionAborted, "repeated");
    for at in 0..messages[0].len() {
        let mut changed = messages[0].clone();
        changed[at] ^= 1 << (at % 8);
        assert_eq!(wrong(&changed, 1), ErrorKind::ConnectionAborted, "byte {at}");
        assert_eq!(wrong(&messages[0][..at], 1), ErrorKind::UnexpectedEof, "cut at {at}");
    }
}

#[test]
fn a_message_costs_memory_as_it_arrives_and_not_as_it_is_announced() {
    let announced = 64 << 20;
    let mut receiver = MessageChannel::new(MemoryStream::default(), None);
    receiver.stream.incoming.extend((announced as u32).to_le_bytes());
    receiver.stream.incoming.extend([7; 1_000]);
    let error = receiver.receive(announced).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert!(receiver.content.capacity() <= 1 << 20, "{} bytes", receiver.content.capacity());
}
