use std::collections::VecDeque;

use paceline_exchange::{PROTOCOL_VERSION, PeerRole};

use super::*;

const CLAIMS: Claims = Claims { role: 0, slot: 2, incarnation: 9 };

/// One end of a connection in memory: what it reads, and what it has written.
#[derive(Default)]
struct End {
    incoming: VecDeque<u8>,
    outgoing: Vec<u8>,
    /// Bytes that a read gives at most.
    most: Option<usize>,
    is_closed: bool,
}

impl Read for End {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.incoming.is_empty() && !self.is_closed {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = self.most.unwrap_or(bytes.len()).min(bytes.len());
        self.incoming.read(&mut bytes[..most])
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn credentials(token: &str) -> Credentials {
    Credentials::with_token(token.as_bytes())
}

/// A dialer and its end, which has sent the first message.
fn dial(token: &str) -> (Dialing, End) {
    dial_with(&credentials(token))
}

fn dial_with(credentials: &Credentials) -> (Dialing, End) {
    let mut end = End::default();
    let dialing = Dialing::begin(&mut end, credentials, CLAIMS, true).unwrap();
    (dialing, end)
}

/// Lets an acceptor read these bytes, one at a time.
fn accept(bytes: &[u8]) -> (Accepting, End, Result<Option<Accepted>, OpeningError>) {
    let mut accepting = Accepting::new(&credentials("secret"), true);
    let mut end = End { most: Some(1), ..End::default() };
    let mut last = Ok(None);
    for byte in bytes {
        end.incoming.push_back(*byte);
        last = accepting.advance(&mut end);
        if last.is_err() {
            break;
        }
    }
    (accepting, end, last)
}

#[test]
fn the_handshake_completes_however_its_bytes_are_cut() {
    let (mut dialing, mut dialer) = dial("secret");
    let (mut accepting, mut acceptor, opened) = accept(&dialer.outgoing);
    assert!(opened.unwrap().is_none());
    dialer.incoming.extend(acceptor.outgoing.drain(..));
    dialer.most = Some(5);
    dialer.outgoing.clear();
    assert!(dialing.advance(&mut dialer).unwrap().unwrap().is_some(), "keys");
    // What follows the proof belongs to the first frame.
    acceptor.incoming.extend(dialer.outgoing);
    acceptor.incoming.extend(b"frame");
    let accepted = accepting.advance(&mut acceptor).unwrap().unwrap();
    assert_eq!(accepted.claims, CLAIMS);
    assert_eq!(acceptor.incoming, b"frame");
}

#[test]
fn a_listener_that_poses_as_a_server_learns_no_secret_and_is_refused() {
    let credentials = credentials("the secret of this run");
    let attempts = [(); 3].map(|()| {
        let (mut dialing, mut dialer) = dial_with(&credentials);
        let sent = String::from_utf8_lossy(&dialer.outgoing).into_owned();
        assert!(!sent.contains("secret"), "{sent}");
        // It can only guess the proof.
        let challenge = [&b"PACE"[..], &PROTOCOL_VERSION.to_le_bytes(), &[0; 66]].concat();
        dialer.incoming.extend(challenge);
        dialer.outgoing.clear();
        let error = dialing.advance(&mut dialer).err().unwrap();
        assert!(dialer.outgoing.is_empty(), "nothing more is sent to it");
        error
    });
    // The first wrong proofs may have been changed on the way.
    assert!(matches!(attempts[0], OpeningError::Doubtful(_)), "{:?}", attempts[0]);
    let refusal = attempts[2].as_refusal().unwrap();
    assert_eq!(refusal.code, RefuseCode::WrongToken);
    assert!(refusal.is_permanent());
}

#[test]
fn a_stranger_learns_no_more_than_a_challenge() {
    for bytes in [vec![b'x'; 60], vec![0; 60], b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".repeat(2)] {
        let (_, end, opened) = accept(&bytes);
        assert!(matches!(opened, Err(OpeningError::Handshake(HandshakeError::Magic))));
        assert!(end.outgoing.is_empty());
    }
    let (_, end, opened) = accept(&dial("a guess").1.outgoing);
    assert!(opened.unwrap().is_none());
    assert_eq!(end.outgoing.len(), CHALLENGE_BYTES);
}

#[test]
fn a_dialer_that_does_not_wait_for_the_challenge_gets_no_answer() {
    for proof_bytes in [1, PROOF_BYTES, 200] {
        let mut accepting = Accepting::new(&credentials("secret"), true);
        let mut end = End::default();
        end.incoming.extend([&dial("a guess").1.outgoing[..], &vec![0; proof_bytes]].concat());
        let opened = accepting.advance(&mut end);
        assert!(matches!(opened, Err(OpeningError::Unasked)), "{proof_bytes}");
        assert!(end.outgoing.is_empty());
    }
}

#[test]
fn an_end_during_the_handshake_is_noticed_after_every_byte() {
    let whole = dial("secret").1.outgoing;
    for len in 0..whole.len() {
        let (mut accepting, mut end, opened) = accept(&whole[..len]);
        assert!(opened.unwrap().is_none());
        end.is_closed = true;
        assert!(matches!(accepting.advance(&mut end), Err(OpeningError::Closed)), "{len}");
    }
}

#[test]
fn a_task_of_an_older_version_is_told_both_versions() {
    let hello = Hello {
        version: 8,
        ..Hello::decode(&paceline_exchange::request_join_info().body).unwrap()
    };
    assert_eq!(hello.role, PeerRole::Newcomer);
    let body = hello.encode();
    let frame = [&Header::new(FrameKind::Hello, body.len()).encode()[..], &body].concat();
    let (_, end, opened) = accept(&frame);
    let says = format!("protocol version 8, not {PROTOCOL_VERSION}");
    assert_eq!(opened.err().unwrap().to_string(), says);
    let (header, body) = end.outgoing.split_first_chunk::<HEADER_BYTES>().unwrap();
    assert_eq!(Header::decode(header).unwrap().kind, FrameKind::Refuse);
    let refusal = Refusal::decode(body).unwrap();
    assert_eq!((refusal.code, refusal.text), (RefuseCode::WrongVersion, says));
}
