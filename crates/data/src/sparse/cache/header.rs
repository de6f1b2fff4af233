//! The first 128 bytes of a cache of rows, and the positions of its sections.

use std::ops::Range;

/// The first bytes of every cache.
pub(super) const MAGIC: &[u8; 8] = b"PACEROWS";

/// Changes with the layout of the file. A cache of another version is rebuilt.
const VERSION: u32 = 2;

/// The length of the header, in bytes.
pub(super) const HEADER_BYTES: usize = 128;

/// The position of the header's own checksum.
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// Sections begin at multiples of this, in bytes.
const ALIGN: u64 = 64;

/// The content of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CacheHeader {
    pub(super) features: u64,
    pub(super) rows: u64,
    pub(super) train_rows: u64,
    pub(super) entries: u64,
    pub(super) skipped: u64,
    pub(super) identity_bytes: u64,
    /// The index of the first feature in the source: 0, or 1 for most LIBSVM text.
    pub(super) first_index: u32,
    /// Whether the cache has values; if not, all are 1.
    pub(super) has_values: bool,
    /// Checksums of the sections, in their order.
    pub(super) checksums: [u32; SECTIONS],
}

/// The number of sections: keys, values, starts, labels, identity.
pub(super) const SECTIONS: usize = 5;

impl CacheHeader {
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let numbers = [
            self.features,
            self.rows,
            self.train_rows,
            self.entries,
            self.skipped,
            self.identity_bytes,
        ];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.has_values).to_le_bytes());
        bytes[16..64].copy_from_slice(bytemuck::cast_slice(&numbers));
        bytes[64..84].copy_from_slice(bytemuck::cast_slice(&self.checksums));
        bytes[84..88].copy_from_slice(&self.first_index.to_le_bytes());
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
            features: number(16),
            rows: number(24),
            train_rows: number(32),
            entries: number(40),
            skipped: number(48),
            identity_bytes: number(56),
            first_index: word(84),
            has_values: word(12) == 1,
            checksums: std::array::from_fn(|section| word(64 + 4 * section)),
        })
    }

    /// The length of each section, in bytes; `None` if a length overflows.
    fn lengths(&self) -> Option<[u64; SECTIONS]> {
        let keys = self.entries.checked_mul(4)?;
        let starts = self.rows.checked_add(1)?.checked_mul(8)?;
        let values = if self.has_values { keys } else { 0 };
        Some([keys, values, starts, self.rows, self.identity_bytes])
    }

    /// The position of each section; the file ends with the last one. `None` if a position
    /// overflows.
    pub(super) fn sections(&self) -> Option<[Range<u64>; SECTIONS]> {
        let mut end = HEADER_BYTES as u64;
        let mut sections = [const { 0..0 }; SECTIONS];
        for (section, length) in sections.iter_mut().zip(self.lengths()?) {
            let start = end.checked_next_multiple_of(ALIGN)?;
            end = start.checked_add(length)?;
            *section = start..end;
        }
        Some(sections)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_come_back_as_written_and_any_damage_is_noticed(
            numbers: [u64; 6], has_values: bool, checksums: [u32; SECTIONS], first_index: u32,
            at in 0..HEADER_BYTES, flip in 1u8..,
        ) {
            let [features, rows, train_rows, entries, skipped, identity_bytes] = numbers;
            let header = CacheHeader {
                features, rows, train_rows, entries, skipped, identity_bytes, first_index,
                has_values, checksums,
            };
            let mut bytes = header.to_bytes();
            prop_assert_eq!(CacheHeader::from_bytes(&bytes), Ok(header));
            bytes[at] ^= flip;
            prop_assert!(CacheHeader::from_bytes(&bytes).is_err());
            // Impossible sizes give no position instead of an overflowed one.
            if let Some(sections) = header.sections() {
                prop_assert!(sections.is_sorted_by(|a, b| a.end <= b.start));
            }
        }
    }
}
