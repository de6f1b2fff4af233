//! The first 128 bytes of a cache of rows.

/// The first bytes of every cache.
pub(super) const MAGIC: &[u8; 8] = b"PACEROWS";

/// Changes with the layout of the file. A cache of another version is rebuilt.
const VERSION: u32 = 4;

/// The length of the header, in bytes.
pub(super) const HEADER_BYTES: usize = 128;

/// The position of the header's own checksum.
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// The content of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CacheHeader {
    /// Whether all segments are there; the numbers from `features` on are 0 before.
    pub(super) is_complete: bool,
    /// The index that the source files give the first feature: 0 or 1.
    pub(super) first_index: u32,
    pub(super) identity_bytes: u32,
    /// The number of popular keys.
    pub(super) popular: u32,
    /// The checksum of the identity and the popular keys.
    pub(super) checksum: u32,
    pub(super) features: u64,
    pub(super) rows: u64,
    pub(super) train_rows: u64,
    pub(super) entries: u64,
    pub(super) skipped: u64,
    pub(super) segments: u64,
    /// The length of the whole file.
    pub(super) file_bytes: u64,
}

impl CacheHeader {
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let words = [
            VERSION,
            u32::from(self.is_complete),
            self.first_index,
            self.identity_bytes,
            self.popular,
            self.checksum,
            0,
            0,
        ];
        let numbers = [
            self.features,
            self.rows,
            self.train_rows,
            self.entries,
            self.skipped,
            self.segments,
            self.file_bytes,
        ];
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..40].copy_from_slice(bytemuck::cast_slice(&words));
        bytes[40..96].copy_from_slice(bytemuck::cast_slice(&numbers));
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Parses a header. The error says what is wrong with it.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else { return Err("cut short") };
        if &bytes[..8] != MAGIC {
            return Err("not a cache of rows");
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if crc32c::crc32c(&bytes[..CHECKSUM_AT]) != word(CHECKSUM_AT) {
            return Err("damaged (its header fails its checksum)");
        }
        if word(8) != VERSION || word(12) > 1 {
            return Err("written by another version of Paceline");
        }
        Ok(CacheHeader {
            is_complete: word(12) == 1,
            first_index: word(16),
            identity_bytes: word(20),
            popular: word(24),
            checksum: word(28),
            features: number(40),
            rows: number(48),
            train_rows: number(56),
            entries: number(64),
            skipped: number(72),
            segments: number(80),
            file_bytes: number(88),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_come_back_as_written_and_any_damage_is_noticed(
            numbers: [u64; 7], words: [u32; 4], is_complete: bool,
            at in 0..HEADER_BYTES, flip in 1u8..,
        ) {
            let [features, rows, train_rows, entries, skipped, segments, file_bytes] = numbers;
            let [first_index, identity_bytes, popular, checksum] = words;
            let header = CacheHeader {
                is_complete, first_index, identity_bytes, popular, checksum, features, rows,
                train_rows, entries, skipped, segments, file_bytes,
            };
            let mut bytes = header.to_bytes();
            prop_assert_eq!(CacheHeader::from_bytes(&bytes), Ok(header));
            bytes[at] ^= flip;
            prop_assert!(CacheHeader::from_bytes(&bytes).is_err());
        }
    }
}
