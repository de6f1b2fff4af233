//! Keyed hashes: HMAC with SHA-256.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The length of a keyed hash, in bytes.
pub const HASH_BYTES: usize = 32;

/// A hash to which parts of a message are added one after the other.
pub(crate) fn keyed_hasher(key: &[u8]) -> Hmac<Sha256> {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(hash) => hash,
        Err(_) => unreachable!("a key may have any length"),
    }
}

/// The hash of a message with a key.
pub fn keyed_hash(key: &[u8], message: &[u8]) -> [u8; HASH_BYTES] {
    keyed_hasher(key).chain_update(message).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases 1, 2 and 6 of RFC 4231.
    #[test]
    fn hashes_are_those_of_the_standard() {
        let hex = |hash: [u8; HASH_BYTES]| hash.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(
            hex(keyed_hash(&[0x0b; 20], b"Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            hex(keyed_hash(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(keyed_hash(
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First"
            )),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }
}
