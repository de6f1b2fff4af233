//! Keyed hashes: HMAC with SHA-256, as RFC 2104 describes it.

use sha2::{Digest, Sha256};

/// The length of a hash, in bytes.
pub(crate) const HASH: usize = 32;
/// The length of the hash function's blocks, in bytes.
const BLOCK: usize = 64;

/// The hash of a message with a key.
pub(crate) fn hmac(key: &[u8], message: &[u8]) -> [u8; HASH] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..HASH].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message);
    let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c));
    outer.chain_update(inner.finalize()).finalize().into()
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
