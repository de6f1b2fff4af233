//! What lies before the segments of a cache: header, identity and popular keys.

use std::ops::Range;

use super::header::{CacheHeader, HEADER_BYTES};
use crate::sparse::segment::{ALIGN, KeyCode};

/// The beginning of a cache file.
pub(super) struct CachePrefix<'a> {
    pub(super) header: CacheHeader,
    pub(super) identity: &'a [u8],
    pub(super) code: KeyCode,
    /// Where the first segment begins.
    pub(super) len: usize,
}

impl<'a> CachePrefix<'a> {
    /// Parses and checks the beginning of a file. The error says what is wrong with it.
    pub(super) fn from_bytes(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let header = CacheHeader::from_bytes(bytes)?;
        let PrefixSections { identity, popular, len } = sections(&header);
        let (Some(identity), Some(keys)) = (bytes.get(identity), bytes.get(popular)) else {
            return Err("cut short");
        };
        if checksum(identity, keys) != header.checksum || bytes.len() < len {
            return Err("damaged (its identity fails its checksum)");
        }
        let (keys, _) = keys.as_chunks::<4>();
        let keys: Vec<u32> = keys.iter().map(|key| u32::from_le_bytes(*key)).collect();
        let Some(code) = KeyCode::new(&keys) else {
            return Err("damaged (impossible sizes)");
        };
        Ok(CachePrefix { header, identity, code, len })
    }
}

/// The bytes of a new cache before its first segment, and their header.
pub(super) fn prefix_bytes(
    identity: &str,
    code: &KeyCode,
    first_index: u32,
) -> (CacheHeader, Vec<u8>) {
    let keys: &[u8] = bytemuck::cast_slice(code.popular());
    let header = CacheHeader {
        first_index,
        identity_bytes: identity.len() as u32,
        popular: code.popular().len() as u32,
        checksum: checksum(identity.as_bytes(), keys),
        ..CacheHeader::default()
    };
    let sections = sections(&header);
    let mut bytes = vec![0; sections.len];
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    bytes[sections.identity].copy_from_slice(identity.as_bytes());
    bytes[sections.popular].copy_from_slice(keys);
    (header, bytes)
}

struct PrefixSections {
    identity: Range<usize>,
    popular: Range<usize>,
    len: usize,
}

fn sections(header: &CacheHeader) -> PrefixSections {
    let identity = HEADER_BYTES..HEADER_BYTES + header.identity_bytes as usize;
    let popular_at = identity.end.next_multiple_of(ALIGN);
    let popular = popular_at..popular_at + 4 * header.popular as usize;
    let len = popular.end.next_multiple_of(ALIGN);
    PrefixSections { identity, popular, len }
}

fn checksum(identity: &[u8], popular: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(identity), popular)
}
