//! How tasks prove that they belong to a run, and protect what they send each other.
//!
//! ```
//! use paceline_trust::{Claims, Credentials, Dialer, HandshakeAcceptor, Service, Statement};
//!
//! let credentials = Credentials::with_token(b"a secret of the run");
//! let claims = Claims { role: 0, slot: 3, incarnation: 1 };
//! let (version, service, is_sealed) = (1, Service::Training, true);
//!
//! // Each side proves that it knows the secret. Three messages travel: first, challenge, proof.
//! let dialer = Dialer::new(&credentials, Statement { version, service, claims, is_sealed })?;
//! let (acceptor, challenge) =
//!     HandshakeAcceptor::challenge(&credentials, service, version, is_sealed, dialer.first())?;
//! let answered = dialer.answer(&challenge)?;
//! assert_eq!(acceptor.finish(&answered.proof)?.claims, claims);
//! # Ok::<(), paceline_trust::HandshakeError>(())
//! ```
//!
//! - [`Credentials`] are what a task shows and demands when a connection is opened.
//! - [`Dialer`] and [`HandshakeAcceptor`] are the two sides of the handshake, without I/O: each
//!   proves that it knows the run's secret, without sending it.
//! - [`FrameSealer`] and [`FrameOpener`] protect frames by keyed hashes, with a key that only this
//!   connection has.
//! - [`MessageChannel`] is a connection that carries messages, with all of this, over a stream that
//!   blocks.
//! - [`ConnectionRoom`] bounds connections, such as those that have not proved themselves.
//! - [`TlsIdentity`] and [`TlsSession`] encrypt a connection between tasks with certificates, which
//!   an [`Authority`] makes.

// The example of the README is compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod address_crowds;
mod connection_room;
mod credentials;
mod handshake;
mod keyed_hash;
mod keys;
mod message_channel;
mod payload_hash;
mod private_file;
mod random;
mod seal;
mod tls;

pub use address_crowds::{AddressCrowds, surplus_connection};
pub use connection_room::{ConnectionPlace, ConnectionRoom};
pub use credentials::Credentials;
pub use handshake::{
    Accepted, Answered, CHALLENGE_BYTES, Claims, Dialer, FIRST_BYTES, HandshakeAcceptor,
    HandshakeError, MAGIC, PROOF_BYTES, Service, Statement,
};
pub use keyed_hash::{HASH_BYTES, keyed_hash};
pub use keys::{Authority, CA_FILE, CertificateError, CertificateFiles, file_name};
pub use message_channel::MessageChannel;
pub use private_file::{is_own, is_private, open_credential, read_credential};
pub use random::random_bytes;
pub use seal::{FrameKeys, FrameOpener, FrameSealer, SEAL_BYTES, SealError};
pub use tls::{TlsError, TlsIdentity, TlsSession};
