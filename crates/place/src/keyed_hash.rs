//! Keyed hashes: HMAC with SHA-256.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The length of a hash, in bytes.
pub(crate) const HASH: usize = 32;

/// HMAC-SHA-256 of a message.
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

    /// RFC 4231, test cases 2 and 6.
    #[test]
    fn the_keyed_hash_is_that_of_the_standard() {
        let hex = |bytes: [u8; HASH]| bytes.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(
            hex(hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let message = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(
            hex(hmac(&[0xaa; 131], message)),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }
}
