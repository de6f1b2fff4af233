//! The checksum of a TFRecord: CRC-32C, masked.
//!
//! Records are often nested, so the data of a record may contain its own checksum. A CRC handles
//! that badly: the CRC of data followed by its CRC is a constant. The mask rotates the bits and
//! adds a constant, which breaks the pattern.

/// The constant that TensorFlow adds after the rotation.
const MASK_DELTA: u32 = 0xa282_ead8;

/// The masked CRC-32C (Castagnoli) of `bytes`, as TFRecord stores it.
///
/// ```
/// // The CRC of an empty input is 0, so only the mask remains.
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
        // Every event file that TensorFlow writes begins with a record of 24 bytes, so this is
        // the checksum of its length.
        assert_eq!(masked(&24_u64.to_le_bytes()), 0x224b_7fa3);
        // 0xe3069283 is the published check value of CRC-32C for these digits.
        assert_eq!(masked(b"123456789"), 0xe306_9283_u32.rotate_right(15).wrapping_add(MASK_DELTA));
    }
}
