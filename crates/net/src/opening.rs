//! Opens a connection: the handshake of [`paceline_trust`] over a socket that does not block.
//!
//! Nothing of the protocol is sent or read before both sides have proved that they know the run's
//! secret. A side that has not done so costs the other side one message and a buffer of fixed size.

use std::io::{self, Read, Write};

use paceline_exchange::{
    FrameKind, HEADER_BYTES, Header, Hello, PROTOCOL_VERSION, Refusal, RefuseCode,
};
use paceline_trust::{
    Accepted, Answered, CHALLENGE_BYTES, Claims, Credentials, Dialer, FIRST_BYTES, FrameKeys,
    HandshakeAcceptor, HandshakeError, MAGIC, PROOF_BYTES, Service, Statement,
};

use crate::inbound::would_block;

/// Why a connection is not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpeningError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the other end closed it during the handshake, as one with another token does")]
    Closed,
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The two sides do not accept each other's certificates.
    #[error("{0}")]
    Certificate(String),
    /// The handshake failed, perhaps because a message was changed on the way.
    #[error("{}", doubt(.0))]
    Doubtful(HandshakeError),
    /// A dialer has answered before it was asked, so it does not know the secret.
    #[error("it does not wait for the challenge")]
    Unasked,
    /// The first version of the protocol without a handshake was 9.
    #[error("protocol version {0}, not {PROTOCOL_VERSION}")]
    OlderVersion(u16),
}

impl OpeningError {
    /// The refusal that a dialer reports instead of an error, if the two sides are of different
    /// runs.
    pub(crate) fn as_refusal(&self) -> Option<Refusal> {
        if let OpeningError::Certificate(text) = self {
            return Some(Refusal { code: RefuseCode::WrongCertificate, text: text.clone() });
        }
        let OpeningError::Handshake(error) = self else { return None };
        let code = match error {
            HandshakeError::Version { .. } => RefuseCode::WrongVersion,
            HandshakeError::Token | HandshakeError::Seals => RefuseCode::WrongToken,
            HandshakeError::Service => RefuseCode::WrongServer,
            HandshakeError::Magic | HandshakeError::Random(_) => return None,
        };
        let text = match error {
            HandshakeError::Token => "it has another token, or is not a task of this run".into(),
            error => error.to_string(),
        };
        Some(Refusal { code, text })
    }
}

/// Why a handshake is tried again, in words.
fn doubt(error: &HandshakeError) -> String {
    match error {
        HandshakeError::Token => "wrong token (or its proof was changed on the way)".into(),
        error => format!("{error} (or it was changed on the way)"),
    }
}

/// What a client claims in its `Hello`.
pub(crate) fn claims_of(hello: &Hello) -> Claims {
    Claims { role: hello.role.code(), slot: hello.slot, incarnation: hello.incarnation }
}

/// Checks that a `Hello` claims what was claimed in the handshake. One that cannot be read is left
/// to the protocol, which says what is wrong with it.
pub(crate) fn check_claims(proved: Option<Claims>, hello: &[u8]) -> Result<(), String> {
    match (proved, Hello::decode(hello)) {
        (Some(proved), Ok(hello)) if claims_of(&hello) != proved => {
            Err("its Hello does not say what it proved".into())
        }
        _ => Ok(()),
    }
}

/// Messages of a fixed length in all that are being read.
#[derive(Debug)]
struct Message<const N: usize> {
    bytes: [u8; N],
    received: usize,
}

impl<const N: usize> Message<N> {
    const EMPTY: Self = Self { bytes: [0; N], received: 0 };

    /// Reads until the first `least` bytes are there, and what else has arrived with them, but no
    /// byte beyond its length. Returns whether they are there.
    fn read(&mut self, stream: &mut impl Read, least: usize) -> Result<bool, OpeningError> {
        while self.received < least {
            match stream.read(&mut self.bytes[self.received..]) {
                Ok(0) => return Err(OpeningError::Closed),
                Ok(more) => self.received += more,
                Err(error) if would_block(&error) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(OpeningError::Closed);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// Writes a message to a stream that has room for it, as one that was just opened has.
fn write(stream: &mut impl Write, message: &[u8]) -> io::Result<()> {
    if stream.write(message)? < message.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(())
}

/// The side that opened the connection.
pub(crate) struct Dialing {
    dialer: Dialer,
    credentials: Credentials,
    challenge: Message<CHALLENGE_BYTES>,
}

impl Dialing {
    /// Sends the first message.
    pub(crate) fn begin(
        stream: &mut impl Write,
        credentials: &Credentials,
        claims: Claims,
        is_sealed: bool,
    ) -> Result<Self, OpeningError> {
        let (version, service) = (PROTOCOL_VERSION, Service::Training);
        let statement = Statement { version, service, claims, is_sealed };
        let dialer = Dialer::new(credentials, statement)?;
        write(stream, dialer.first())?;
        Ok(Self { dialer, credentials: credentials.clone(), challenge: Message::EMPTY })
    }

    /// Continues with what has arrived. Returns the keys of the connection once it is open.
    pub(crate) fn advance(
        &mut self,
        stream: &mut (impl Read + Write),
    ) -> Result<Option<Option<FrameKeys>>, OpeningError> {
        let is_complete = match self.challenge.read(stream, CHALLENGE_BYTES) {
            // Only TLS finds data invalid.
            Err(OpeningError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                let is_doubtful = self.credentials.is_doubtful(false);
                let text = error.to_string();
                return Err(if is_doubtful {
                    error.into()
                } else {
                    OpeningError::Certificate(text)
                });
            }
            read => read?,
        };
        if !is_complete {
            return Ok(None);
        }
        let answered = self.dialer.answer(&self.challenge.bytes);
        let Answered { proof, keys } = match answered {
            Err(error) if self.credentials.is_doubtful(false) => {
                return Err(OpeningError::Doubtful(error));
            }
            answered => answered?,
        };
        self.credentials.is_doubtful(true);
        write(stream, &proof)?;
        Ok(Some(keys))
    }
}

/// The side that accepted the connection.
pub(crate) struct Accepting {
    credentials: Credentials,
    requires_seals: bool,
    /// The dialer's first message, and its proof.
    received: Message<{ FIRST_BYTES + PROOF_BYTES }>,
    /// Set once the first message is answered.
    acceptor: Option<HandshakeAcceptor>,
}

impl Accepting {
    pub(crate) fn new(credentials: &Credentials, requires_seals: bool) -> Self {
        let (credentials, received) = (credentials.clone(), Message::EMPTY);
        Self { credentials, requires_seals, received, acceptor: None }
    }

    /// Continues with what has arrived. Returns what the dialer claims, and the keys of the
    /// connection, once it is open.
    pub(crate) fn advance(
        &mut self,
        stream: &mut (impl Read + Write),
    ) -> Result<Option<Accepted>, OpeningError> {
        if let Some(acceptor) = &self.acceptor {
            let is_complete = self.received.read(stream, FIRST_BYTES + PROOF_BYTES)?;
            let proof = self.received.bytes.last_chunk().filter(|_| is_complete);
            return Ok(proof.map(|proof| acceptor.finish(proof)).transpose()?);
        }
        if self.received.read(stream, FIRST_BYTES)? {
            self.acceptor = Some(self.challenge(stream)?);
        }
        // The dialer's proof comes after the challenge, and with an event of its own.
        Ok(None)
    }

    /// Answers the first message, which is there.
    fn challenge(
        &self,
        stream: &mut (impl Read + Write),
    ) -> Result<HandshakeAcceptor, OpeningError> {
        let Message { bytes, received } = &self.received;
        let Some(first) = bytes.first_chunk() else { unreachable!("it is longer") };
        if let Some(version) = older_version(first) {
            // An older dialer reads frames, so this one can say why. If the dialer is gone, nothing
            // is lost.
            let _ = write(stream, &refusal_of_older(version));
            return Err(OpeningError::OlderVersion(version));
        }
        let (service, version, seals) = (Service::Training, PROTOCOL_VERSION, self.requires_seals);
        if let Err(error) = HandshakeAcceptor::check(service, version, seals, first) {
            if let Some(refusal) = error.refusal(version) {
                let _ = write(stream, &refusal);
            }
            return Err(error.into());
        }
        // No dialer can have a proof before it has the challenge. One that sends bytes already gets
        // no answer: the answer would be most of what such a connection costs.
        if *received > FIRST_BYTES {
            return Err(OpeningError::Unasked);
        }
        let (acceptor, challenge) =
            HandshakeAcceptor::challenge(&self.credentials, service, version, seals, first)?;
        write(stream, &challenge)?;
        Ok(acceptor)
    }
}

/// The version of a dialer that begins with a `Hello`, as versions before 9 did.
fn older_version(first: &[u8; FIRST_BYTES]) -> Option<u16> {
    let (head, hello) = first.split_at(HEADER_BYTES);
    let is_hello = head[0] == FrameKind::Hello as u8 && hello.starts_with(&MAGIC);
    is_hello.then(|| u16::from_le_bytes([hello[4], hello[5]]))
}

/// The frame that says to such a dialer why it is refused.
fn refusal_of_older(version: u16) -> Vec<u8> {
    let text = OpeningError::OlderVersion(version).to_string();
    refusal_frame(&Refusal { code: RefuseCode::WrongVersion, text })
}

/// A frame without seals that refuses a dialer.
pub(crate) fn refusal_frame(refusal: &Refusal) -> Vec<u8> {
    let body = refusal.encode();
    [&Header::new(FrameKind::Refuse, body.len()).encode()[..], &body].concat()
}

/// The refusal of a task whose certificate does not state what it says it is.
pub(crate) fn certificate_refusal(task: &str) -> Refusal {
    let text = format!("its certificate is not that of {task}");
    Refusal { code: RefuseCode::WrongCertificate, text }
}

#[cfg(test)]
mod tests;
