//! The first bytes of a connection: the handshake, TLS and messages.

use std::io::{self, Read, Write};
use std::sync::OnceLock;

use paceline_trust::{
    Authority, CA_FILE, CHALLENGE_BYTES, CertificateFiles, Claims, Credentials, Dialer,
    FIRST_BYTES, HandshakeAcceptor, MessageChannel, Service, Statement, TlsIdentity,
};

const CLAIMS: Claims = Claims { role: 0, slot: 1, incarnation: 7 };
const VERSION: u16 = 9;
/// The longest message.
const MOST_BYTES: usize = 1 << 16;

fn credentials() -> Credentials {
    Credentials::with_token(b"the secret of the run")
}

fn statement() -> Statement {
    Statement { version: VERSION, service: Service::Training, claims: CLAIMS, is_sealed: true }
}

/// A stream that has these bytes and takes everything.
struct ForeignStream<'a>(&'a [u8]);

impl Read for ForeignStream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for ForeignStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Both sides of a handshake, and a connection for messages, under foreign bytes. No bytes that do
/// not follow from the secret open a connection.
pub(crate) fn handshake(bytes: &[u8]) {
    let credentials = credentials();
    if let Some(first) = bytes.first_chunk::<FIRST_BYTES>() {
        let (service, version) = (Service::Training, VERSION);
        let challenged = HandshakeAcceptor::challenge(&credentials, service, version, true, first);
        if let (Ok((acceptor, _)), Some(proof)) = (challenged, bytes[FIRST_BYTES..].first_chunk()) {
            assert!(acceptor.finish(proof).is_err(), "a proof of a stranger");
        }
    }
    if let Some(challenge) = bytes.first_chunk::<CHALLENGE_BYTES>() {
        let dialer = Dialer::new(&credentials, statement());
        assert!(dialer.is_ok_and(|dialer| dialer.answer(challenge).is_err()), "a forged answer");
    }
    let accepted = MessageChannel::accept(ForeignStream(bytes), &credentials, Service::Files);
    assert!(accepted.is_err(), "a stranger is let in");
    let dialled =
        MessageChannel::dial(ForeignStream(bytes), &credentials, Service::Files, "worker:0");
    assert!(dialled.is_err(), "a stranger is believed");
}

/// What both sides of a handshake send, of which a mutation is no longer right.
pub(crate) fn handshake_seeds() -> Vec<Vec<u8>> {
    let Ok(dialer) = Dialer::new(&credentials(), statement()) else { return Vec::new() };
    let first = dialer.first();
    let (service, version) = (Service::Training, VERSION);
    let challenged = HandshakeAcceptor::challenge(&credentials(), service, version, true, first);
    let challenge = challenged.map_or(Vec::new(), |(_, challenge)| challenge.to_vec());
    vec![[&first[..], &[7; 32]].concat(), challenge]
}

/// The identity of a server, made once.
fn identity() -> Option<&'static TlsIdentity> {
    static IDENTITY: OnceLock<Option<TlsIdentity>> = OnceLock::new();
    let make = || {
        let dir = tempfile::tempdir().ok()?;
        let name = "worker:0";
        Authority::of_run().ok()?.write(dir.path(), &[name.to_owned()]).ok()?;
        let CertificateFiles { cert, key } = CertificateFiles::of(dir.path(), name);
        TlsIdentity::read(&dir.path().join(CA_FILE), &cert, &key).ok()
    };
    IDENTITY.get_or_init(make).as_ref()
}

/// Both sides of TLS under foreign bytes.
pub(crate) fn tls(bytes: &[u8]) {
    let Some(identity) = identity() else { unreachable!("certificates can be made") };
    let credentials = credentials().with_tls(identity.clone());
    let accepted = MessageChannel::accept(ForeignStream(bytes), &credentials, Service::Files);
    assert!(accepted.is_err(), "a stranger is let in");
    let dialled =
        MessageChannel::dial(ForeignStream(bytes), &credentials, Service::Files, "worker:0");
    let received = dialled.and_then(|mut channel| channel.receive(MOST_BYTES).map(|_| ()));
    assert!(received.is_err(), "a stranger is believed");
}

/// A client's first message, as TLS sends it.
pub(crate) fn tls_seeds() -> Vec<Vec<u8>> {
    struct SentBytes(Vec<u8>);
    impl Read for SentBytes {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
    }
    impl Write for SentBytes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut sent = SentBytes(Vec::new());
    let session = identity().and_then(|identity| identity.dial("worker:0").ok());
    if let Some(mut session) = session {
        let _ = session.write(&mut sent, &[io::IoSlice::new(b"hello")]);
    }
    vec![sent.0]
}
