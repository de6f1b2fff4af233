//! Keyed hashes: HMAC with SHA-256.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The length of a hash, in bytes.
pub(crate) const HASH: usize = 32;

/// The hash of a message with a key.
pub(crate) fn hmac(key: &[u8], message: &[u8]) -> [u8; HASH] {
    let mut hash = match Hmac::<Sha256>::new_from_slice(key) {
        Ok(hash) => hash,
        Err(_) => unreachable!("a key may have any length"),
    };
    hash.update(message);
    hash.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases 1 and 6 of RFC 4231.
    #[test]
    fn hashes_are_those_of_the_standard() {
        let hex = |hash: [u8; HASH]| hash.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(
            hex(hmac(&[0x0b; 20], b"Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            hex(hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }
}
