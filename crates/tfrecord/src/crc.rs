//! The checksum of a TFRecord: CRC-32C, masked.
//!
//! The mask is there because records are often nested: a record that holds another record
//! would take a checksum of bytes that contain their own checksum, which a CRC handles
//! badly (appending a CRC to its data gives a constant). Rotating the bits and adding a
//! constant breaks that pattern.

/// The constant that TensorFlow adds after the rotation.
const MASK_DELTA: u32 = 0xa282_ead8;

/// The masked CRC-32C (Castagnoli) of `bytes`, as TFRecord stores it.
///
/// ```
/// // An empty input has CRC 0, so only the mask is left.
/// assert_eq!(paceline_tfrecord::crc::masked(b""), 0xa282_ead8);
/// ```
pub fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK_DELTA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_tensorflow() {
        // Every event file that TensorFlow writes begins with a record of 24 bytes, and so
        // with this length and this checksum of it.
        assert_eq!(masked(&24_u64.to_le_bytes()), 0x224b_7fa3);
        // 0xe3069283 is the published check value of CRC-32C for these digits.
        assert_eq!(masked(b"123456789"), 0xe306_9283_u32.rotate_right(15).wrapping_add(MASK_DELTA));
    }
}
