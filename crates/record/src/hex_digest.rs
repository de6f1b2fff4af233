//! Digests as files have them.

use sha2::{Digest, Sha256};

/// The digest of everything that was hashed, in hexadecimal digits.
pub(crate) fn hex(hash: Sha256) -> String {
    let digest: [u8; 32] = hash.finalize().into();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
