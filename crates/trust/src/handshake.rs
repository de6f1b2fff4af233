//! The handshake that opens every connection, as two state machines over three messages.
//!
//! | message | from | bytes |
//! |---|---|---|
//! | first | dialer | magic 4, version 2, service 1, role 1, slot 4, incarnation 8, nonce 32 |
//! | challenge | acceptor | magic 4, version 2, status 1, reserved 1, nonce 32, proof 32 |
//! | proof | dialer | 32 |
//!
//! A proof is an HMAC-SHA-256 with the run's secret over a label for the side and over everything
//! that both have sent, both nonces included. So neither side can be replayed or reflected, what
//! the dialer claims cannot be changed on the way, and the secret itself never travels. The keys of
//! the connection are made in the same way. An acceptor that refuses the first message says why in
//! the status and proves nothing.
//!
//! The byte before the role is twice the number of the service that the dialer wants, plus 1 if
//! frames are sealed. So a connection for one service cannot be redirected to another one.

use std::io;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::credentials::Credentials;
use crate::keyed_hash::keyed_hasher;
use crate::random::random_bytes;
use crate::seal::FrameKeys;

/// Begins the first message and the challenge, in every version.
pub const MAGIC: [u8; 4] = *b"PACE";
/// The length of a dialer's first message.
pub const FIRST_BYTES: usize = 52;
/// The length of an acceptor's answer to it.
pub const CHALLENGE_BYTES: usize = TRANSCRIPT_PART + PROOF_BYTES;
/// The length of a dialer's proof.
pub const PROOF_BYTES: usize = 32;

/// The part of a challenge that both sides prove.
const TRANSCRIPT_PART: usize = 40;
const NONCE_BYTES: usize = 32;

/// Why an acceptor refuses a first message.
const ACCEPTED: u8 = 0;
const WRONG_VERSION: u8 = 1;
const SEALS_REQUIRED: u8 = 2;
const OTHER_SERVICE: u8 = 3;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Gradients and parameters, between workers, servers and evaluators.
    Training = 0,
    /// The meeting of processes that a scheduler started.
    Meeting = 1,
    /// The files of tasks that share no disk.
    Files = 2,
}

/// What a dialer says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The code of its role.
    pub role: u8,
    /// Its slot or index.
    pub slot: u32,
    /// Numbers the processes that fill the slot.
    pub incarnation: u64,
}

/// What a dialer states in its first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The version of the protocol.
    pub version: u16,
    /// What the connection is for.
    pub service: Service,
    /// What the dialer says of itself.
    pub claims: Claims,
    /// Whether frames are sealed.
    pub is_sealed: bool,
}

/// Why a handshake fails.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The other side does not speak this protocol.
    #[error("not a Paceline task")]
    Magic,
    /// The other side has another version of the protocol.
    #[error("protocol version {theirs}, not {ours}")]
    Version {
        /// The other side's version.
        theirs: u16,
        /// This side's version.
        ours: u16,
    },
    /// The other side does not know the run's secret.
    #[error("the token is not this run's")]
    Token,
    /// The dialer wants to send frames without seals, which the acceptor does not allow.
    #[error("its frames would not be sealed, but this run's are beyond one launcher's loopback")]
    Seals,
    /// The dialer wants a service that the acceptor does not have.
    #[error("it expects another service of Paceline at this port")]
    Service,
    /// The operating system gives no random numbers.
    #[error("no random numbers: {0}")]
    Random(#[from] io::Error),
}

/// The side that opened the connection.
pub struct Dialer {
    credentials: Credentials,
    statement: Statement,
    first: [u8; FIRST_BYTES],
}

/// What a dialer has when the acceptor has proved itself.
pub struct Answered {
    /// To be sent to the acceptor.
    pub proof: [u8; PROOF_BYTES],
    /// The keys of the connection, if its frames are sealed.
    pub keys: Option<FrameKeys>,
}

impl Dialer {
    /// Begins a handshake, with a new nonce.
    pub fn new(credentials: &Credentials, statement: Statement) -> Result<Self, HandshakeError> {
        let nonce: [u8; NONCE_BYTES] = random_bytes()?;
        let Claims { role, slot, incarnation } = statement.claims;
        let mut first = [0; FIRST_BYTES];
        first[..4].copy_from_slice(&MAGIC);
        first[4..6].copy_from_slice(&statement.version.to_le_bytes());
        first[6] = u8::from(statement.is_sealed) | (statement.service as u8) << 1;
        first[7] = role;
        first[8..12].copy_from_slice(&slot.to_le_bytes());
        first[12..20].copy_from_slice(&incarnation.to_le_bytes());
        first[20..].copy_from_slice(&nonce);
        Ok(Self { credentials: credentials.clone(), statement, first })
    }

    /// The first message.
    pub fn first(&self) -> &[u8; FIRST_BYTES] {
        &self.first
    }

    /// Handles the acceptor's answer.
    pub fn answer(&self, challenge: &[u8; CHALLENGE_BYTES]) -> Result<Answered, HandshakeError> {
        if challenge[..4] != MAGIC {
            return Err(HandshakeError::Magic);
        }
        // Services have versions of their own.
        if challenge[6] == OTHER_SERVICE {
            return Err(HandshakeError::Service);
        }
        let (theirs, ours) = (version_of(challenge), self.statement.version);
        if theirs != ours || challenge[6] == WRONG_VERSION {
            return Err(HandshakeError::Version { theirs, ours });
        }
        if challenge[6] == SEALS_REQUIRED {
            return Err(HandshakeError::Seals);
        }
        let (transcript_part, proof) = challenge.split_at(TRANSCRIPT_PART);
        let secrets = Secrets::new(&self.credentials, &self.first, transcript_part);
        secrets.check(Label::Acceptor, proof)?;
        let keys = self.statement.is_sealed.then(|| FrameKeys {
            send: secrets.make(Label::FromDialer),
            receive: secrets.make(Label::FromAcceptor),
        });
        Ok(Answered { proof: secrets.make(Label::Dialer), keys })
    }
}

/// The side that accepted the connection, and has answered the first message.
pub struct HandshakeAcceptor {
    secrets: Secrets,
    claims: Claims,
    is_sealed: bool,
}

/// What an acceptor has when the dialer has proved itself.
pub struct Accepted {
    /// What the dialer says of itself.
    pub claims: Claims,
    /// The keys of the connection, if its frames are sealed.
    pub keys: Option<FrameKeys>,
}

impl HandshakeAcceptor {
    /// Checks what a first message states. That costs almost nothing, unlike a challenge.
    ///
    /// # Errors
    /// If the dialer is refused; [`HandshakeError::refusal`] is the answer then.
    pub fn check(
        service: Service,
        version: u16,
        requires_seals: bool,
        first: &[u8; FIRST_BYTES],
    ) -> Result<(), HandshakeError> {
        if first[..4] != MAGIC {
            return Err(HandshakeError::Magic);
        }
        if first[6] >> 1 != service as u8 {
            return Err(HandshakeError::Service);
        }
        let theirs = version_of(first);
        if theirs != version {
            return Err(HandshakeError::Version { theirs, ours: version });
        }
        if requires_seals && !is_sealed(first) {
            return Err(HandshakeError::Seals);
        }
        Ok(())
    }

    /// Answers a first message with a challenge, to be sent to the dialer.
    ///
    /// # Errors
    /// If the dialer is refused, as by [`HandshakeAcceptor::check`].
    pub fn challenge(
        credentials: &Credentials,
        service: Service,
        version: u16,
        requires_seals: bool,
        first: &[u8; FIRST_BYTES],
    ) -> Result<(Self, [u8; CHALLENGE_BYTES]), HandshakeError> {
        Self::check(service, version, requires_seals, first)?;
        let mut challenge = status(version, ACCEPTED);
        challenge[8..TRANSCRIPT_PART].copy_from_slice(&random_bytes::<NONCE_BYTES>()?);
        let secrets = Secrets::new(credentials, first, &challenge[..TRANSCRIPT_PART]);
        challenge[TRANSCRIPT_PART..].copy_from_slice(&secrets.make(Label::Acceptor));
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| first[at + i]));
        let claims = Claims { role: first[7], slot: number(8) as u32, incarnation: number(12) };
        Ok((Self { secrets, claims, is_sealed: is_sealed(first) }, challenge))
    }

    /// Handles the dialer's proof.
    pub fn finish(&self, proof: &[u8; PROOF_BYTES]) -> Result<Accepted, HandshakeError> {
        self.secrets.check(Label::Dialer, proof)?;
        let keys = self.is_sealed.then(|| FrameKeys {
            send: self.secrets.make(Label::FromAcceptor),
            receive: self.secrets.make(Label::FromDialer),
        });
        Ok(Accepted { claims: self.claims, keys })
    }
}

impl HandshakeError {
    /// The answer of an acceptor of this version that refuses a dialer for this reason, if the
    /// dialer may know it.
    pub fn refusal(&self, version: u16) -> Option<[u8; CHALLENGE_BYTES]> {
        match self {
            HandshakeError::Version { .. } => Some(status(version, WRONG_VERSION)),
            HandshakeError::Seals => Some(status(version, SEALS_REQUIRED)),
            HandshakeError::Service => Some(status(version, OTHER_SERVICE)),
            _ => None,
        }
    }
}

/// A challenge with only its status.
fn status(version: u16, status: u8) -> [u8; CHALLENGE_BYTES] {
    let mut challenge = [0; CHALLENGE_BYTES];
    challenge[..4].copy_from_slice(&MAGIC);
    challenge[4..6].copy_from_slice(&version.to_le_bytes());
    challenge[6] = status;
    challenge
}

/// Whether a first message asks for sealed frames.
fn is_sealed(first: &[u8; FIRST_BYTES]) -> bool {
    first[6] & 1 == 1
}

fn version_of(message: &[u8]) -> u16 {
    u16::from_le_bytes([message[4], message[5]])
}

/// What a keyed hash is for.
#[derive(Clone, Copy)]
enum Label {
    Dialer,
    Acceptor,
    FromDialer,
    FromAcceptor,
}

/// The run's secret, and what both sides have sent.
struct Secrets(Hmac<Sha256>);

impl Secrets {
    fn new(credentials: &Credentials, first: &[u8; FIRST_BYTES], challenge: &[u8]) -> Self {
        let mut hash = keyed_hasher(credentials.token());
        hash.update(b"paceline handshake");
        hash.update(first);
        hash.update(challenge);
        Self(hash)
    }

    fn labelled(&self, label: Label) -> Hmac<Sha256> {
        let mut hash = self.0.clone();
        hash.update(match label {
            Label::Dialer => b"dialer proves",
            Label::Acceptor => b"acceptor proves",
            Label::FromDialer => b"frames of the dialer",
            Label::FromAcceptor => b"frames of the acceptor",
        });
        hash
    }

    fn make(&self, label: Label) -> [u8; PROOF_BYTES] {
        self.labelled(label).finalize().into_bytes().into()
    }

    /// Compares in constant time.
    fn check(&self, label: Label, proof: &[u8]) -> Result<(), HandshakeError> {
        self.labelled(label).verify_slice(proof).map_err(|_| HandshakeError::Token)
    }
}

#[cfg(test)]
mod tests;
