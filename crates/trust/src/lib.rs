//! How tasks prove that they belong to a run, and protect what they send each other.
//!
//! - [`Credentials`] are what a task shows and demands when a connection is opened.
//! - [`Dialer`] and [`HandshakeAcceptor`] are the two sides of the handshake, without I/O: each
//!   proves that it knows the run's secret, without sending it.
//! - [`FrameSealer`] and [`FrameOpener`] protect frames by keyed hashes, with a key that only this
//!   connection has.
//! - [`TlsIdentity`] and [`TlsSession`] encrypt a connection between tasks with certificates, which
//!   an [`Authority`] makes.

// The example of the README is compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod credentials;
mod handshake;
mod keys;
mod random;
mod seal;
mod tls;

pub use credentials::Credentials;
pub use handshake::{
    Accepted, Answered, CHALLENGE_BYTES, Claims, Dialer, FIRST_BYTES, HandshakeAcceptor,
    HandshakeError, MAGIC, PROOF_BYTES, Statement,
};
pub use keys::{Authority, CA_FILE, CertificateError, CertificateFiles, file_name};
pub use random::random_bytes;
pub use seal::{FrameKeys, FrameOpener, FrameSealer, SEAL_BYTES, SealError};
pub use tls::{TlsError, TlsIdentity, TlsSession};
