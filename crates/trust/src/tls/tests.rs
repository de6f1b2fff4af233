use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};

use super::identity::provider;
use super::*;
use crate::keys::{Authority, CA_FILE, CertificateFiles};

/// One end of a connection in memory, whose stream takes a bounded number of bytes.
struct TlsEnd {
    session: TlsSession,
    pipe: Pipe,
}

#[derive(Default)]
struct Pipe {
    incoming: VecDeque<u8>,
    outgoing: Vec<u8>,
    /// The most bytes that wait to be carried to the other end.
    room: usize,
    /// How often it was read.
    reads: usize,
}

impl Read for Pipe {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.incoming.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.incoming.read(bytes)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.room - self.outgoing.len());
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.outgoing.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsEnd {
    fn new(session: TlsSession) -> Self {
        Self { session, pipe: Pipe { room: 10_000, ..Pipe::default() } }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (head, rest) = bytes.split_at(bytes.len().min(40));
        self.session.write(&mut self.pipe, &[IoSlice::new(head), IoSlice::new(rest)])
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (head, rest) = bytes.split_at_mut(bytes.len().min(40));
        let slices = &mut [IoSliceMut::new(head), IoSliceMut::new(rest)];
        self.session.read(&mut self.pipe, slices)
    }

    /// Carries what this end has sent to another one.
    fn carry_to(&mut self, other: &mut TlsEnd) {
        other.pipe.incoming.extend(self.pipe.outgoing.drain(..));
    }
}

/// Identities of these tasks, all of one authority.
pub(crate) fn identities<const N: usize>(tasks: [&str; N]) -> [TlsIdentity; N] {
    identities_for(&provider(), tasks)
}

/// As [`identities`], with these algorithms.
fn identities_for<const N: usize>(provider: &CryptoProvider, tasks: [&str; N]) -> [TlsIdentity; N] {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::of_run().unwrap();
    authority.write(dir.path(), &tasks.map(str::to_owned)).unwrap();
    tasks.map(|task| {
        let CertificateFiles { cert, key } = CertificateFiles::of(dir.path(), task);
        let ca = dir.path().join(CA_FILE);
        TlsIdentity::read_for(provider.clone(), &ca, &cert, &key).unwrap()
    })
}

/// Sends bytes from one end to the other, and returns what arrives.
fn send(from: &mut TlsEnd, to: &mut TlsEnd, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let (mut sent, mut got) = (0, Vec::new());
    let mut buffer = vec![0; 70_000];
    for _ in 0..100_000 {
        if sent < bytes.len() {
            match from.write(&bytes[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        } else {
            from.session.flush(&mut from.pipe)?;
        }
        from.carry_to(to);
        match to.read(&mut buffer) {
            Ok(more) => got.extend_from_slice(&buffer[..more]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        to.carry_to(from);
        match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
            Ok(more) => assert_eq!(more, 0, "an answer"),
        }
        if got.len() == bytes.len() {
            return Ok(got);
        }
    }
    panic!("only {} of {} bytes arrived", got.len(), bytes.len());
}

fn connect(client: &TlsIdentity, server: &TlsIdentity, peer: &str) -> [TlsEnd; 2] {
    [TlsEnd::new(client.dial(peer).unwrap()), TlsEnd::new(server.accept().unwrap())]
}

#[test]
fn bytes_arrive_in_both_directions_however_little_the_stream_takes() {
    let [worker, server] = identities(["worker:1", "ps:0"]);
    let [mut client, mut accepted] = connect(&worker, &server, "ps:0");
    for len in [1, 39, 40, 41, 1000, 16_384, 16_424, 300_000] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
        assert!(send(&mut client, &mut accepted, &bytes).unwrap() == bytes, "{len} to the server");
        assert!(send(&mut accepted, &mut client, &bytes).unwrap() == bytes, "{len} to the client");
    }
    assert!(accepted.session.is_peer("worker:1"));
    assert!(!accepted.session.is_peer("worker:0"));
    assert!(!accepted.session.is_peer("ps:0"));
    assert!(client.session.is_peer("ps:0"));
    assert!(client.session.is_peer("ps"), "the name of its role");
}

#[test]
fn a_stream_that_had_less_than_there_was_room_for_is_not_read_again() {
    let [worker, server] = identities(["worker:1", "ps:0"]);
    let [mut client, mut accepted] = connect(&worker, &server, "ps:0");
    send(&mut client, &mut accepted, &[1; 1_000]).unwrap();
    accepted.pipe.incoming = VecDeque::new();
    client.write(&[2; 5_000]).unwrap();
    client.carry_to(&mut accepted);
    let before = accepted.pipe.reads;
    assert_eq!(accepted.read(&mut [0; 6_000]).unwrap(), 5_000);
    assert_eq!(accepted.pipe.reads, before + 1);
}

#[test]
fn a_server_that_is_another_task_is_refused() {
    let [worker, other] = identities(["worker:1", "ps:1"]);
    let [mut client, mut accepted] = connect(&worker, &other, "ps:0");
    let error = send(&mut client, &mut accepted, b"hello").unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn certificates_of_another_authority_are_refused() {
    let ([worker], [server]) = (identities(["worker:1"]), identities(["ps:0"]));
    let [mut client, mut accepted] = connect(&worker, &server, "ps:0");
    let error = send(&mut client, &mut accepted, b"hello").unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn a_flipped_bit_is_noticed_wherever_it_is() {
    let [worker, server] = identities(["worker:1", "ps:0"]);
    let [mut client, mut accepted] = connect(&worker, &server, "ps:0");
    send(&mut client, &mut accepted, b"hello").unwrap();
    client.write(&[7; 200]).unwrap();
    let record = client.pipe.outgoing.clone();
    let at = record.len() / 2;
    client.pipe.outgoing[at] ^= 4;
    client.carry_to(&mut accepted);
    let error = accepted.read(&mut [0; 300]).unwrap_err();
    assert_eq!(error.to_string(), "a TLS record was changed on the way");
}

/// The algorithms, with keys that are replaced after this many records instead of 2^24.
fn provider_with_limit(records: u64) -> CryptoProvider {
    let mut provider = provider();
    provider.cipher_suites.retain(|suite| suite.tls13().is_some());
    for suite in &mut provider.cipher_suites {
        let Some(known) = suite.tls13() else { continue };
        let CipherSuiteCommon { suite: name, hash_provider, .. } = known.common;
        let common =
            CipherSuiteCommon { suite: name, hash_provider, confidentiality_limit: records };
        let &Tls13CipherSuite { hkdf_provider, aead_alg, quic, .. } = known;
        let limited = Tls13CipherSuite { common, hkdf_provider, aead_alg, quic };
        *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(limited)));
    }
    provider
}

#[test]
fn keys_are_replaced_in_time_and_no_byte_is_lost() {
    let [worker, server] = identities_for(&provider_with_limit(20), ["worker:1", "ps:0"]);
    let [mut client, mut accepted] = connect(&worker, &server, "ps:0");
    for turn in 0..200_usize {
        let bytes: Vec<u8> = (0..turn * 500).map(|i| (i * 31 + turn) as u8).collect();
        let (from, to) = if turn.is_multiple_of(3) {
            (&mut accepted, &mut client)
        } else {
            (&mut client, &mut accepted)
        };
        assert!(send(from, to, &bytes).unwrap() == bytes, "turn {turn}");
    }
}

#[test]
fn a_certificate_of_one_task_says_which_one() {
    let [worker, server] = identities(["worker:7", "ps:0"]);
    assert_eq!(worker.own_task("worker", 100).as_deref(), Some("worker:7"));
    assert_eq!(worker.own_task("worker", 7), None);
    assert_eq!(server.own_task("worker", 100), None);
}
