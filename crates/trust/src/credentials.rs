//! What a task shows and demands when a connection is opened.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::tls::TlsIdentity;

/// After this many wrong proofs in a row, a change on the way is no longer taken for the cause.
const WRONG_PROOFS: u32 = 3;

/// What a task shows and demands when a connection is opened. Cheap to clone.
#[derive(Clone, Default)]
pub struct Credentials {
    token: Arc<[u8]>,
    trusts_loopback: bool,
    tls: Option<TlsIdentity>,
    /// Proofs of other tasks that were wrong, one after the other.
    wrong_proofs: Arc<AtomicU32>,
}

impl Credentials {
    /// The credentials of a task that knows the run's secret. What it sends is protected on every
    /// connection.
    pub fn with_token(token: &[u8]) -> Self {
        Self { token: token.into(), ..Self::default() }
    }

    /// Sends frames over loopback without protection: the tasks of one launcher share a machine,
    /// on which no other process can change what they send.
    pub fn trusting_loopback(self) -> Self {
        Self { trusts_loopback: true, ..self }
    }

    /// Encrypts every connection, and shows this certificate.
    pub fn with_tls(self, identity: TlsIdentity) -> Self {
        Self { tls: Some(identity), ..self }
    }

    /// The certificate, if connections are encrypted.
    pub fn tls(&self) -> Option<&TlsIdentity> {
        self.tls.as_ref()
    }

    /// The run's secret; empty for none.
    pub fn token(&self) -> &[u8] {
        &self.token
    }

    /// Records whether another task's proof was right. Returns whether a wrong one may have been
    /// changed on the way, so that another attempt is worthwhile.
    pub fn is_doubtful(&self, is_proved: bool) -> bool {
        if is_proved {
            self.wrong_proofs.store(0, Ordering::Relaxed);
            return false;
        }
        self.wrong_proofs.fetch_add(1, Ordering::Relaxed) + 1 < WRONG_PROOFS
    }

    /// Whether a peer must know something that strangers do not.
    pub fn has_secret(&self) -> bool {
        !self.token.is_empty() || self.tls.is_some()
    }

    /// Whether frames to and from this address are sealed. TLS protects them already.
    pub fn seals(&self, peer: IpAddr) -> bool {
        let is_trusted = self.trusts_loopback && peer.to_canonical().is_loopback();
        self.tls.is_none() && !is_trusted
    }
}

/// Shows no secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("has_token", &!self.token.is_empty())
            .field("has_tls", &self.tls.is_some())
            .field("trusts_loopback", &self.trusts_loopback)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_trusted_and_only_on_request() {
        let strict = Credentials::with_token(b"secret");
        let local = strict.clone().trusting_loopback();
        for (address, is_loopback) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert!(strict.seals(address), "{address}");
            assert_eq!(local.seals(address), !is_loopback, "{address}");
        }
    }

    #[test]
    fn debug_output_shows_no_secret() {
        assert!(!format!("{:?}", Credentials::with_token(b"sesame")).contains("sesame"));
    }
}
