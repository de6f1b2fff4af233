//! The encoding of sorted keys on the wire.
//!
//! The encoding holds the gaps between keys instead of the keys, because the gaps are small: of 33
//! million features a batch of a hundred rows touches a few thousand. Four gaps make a group: a
//! byte with the length of each (two bits for one to four bytes, the first gap in the lowest
//! bits), then the gaps, little-endian. So a batch's keys take about 2.3 bytes each. Plain
//! variable-length numbers take as much and are slower to read, since each byte decides whether
//! another follows; bit-packed codes (Rice, Elias-Fano) save a tenth more and are slower still.
//!
//! The first gap counts from a base that both ends know, the start of the server's shard. The
//! keys rise strictly, so every further gap is at least 1, and the encoding stores it minus 1.

use std::ops::Range;

use thiserror::Error;

use crate::SPARSE_BYTES;

/// The most keys of one number each that a client may request from one server at a time; see
/// [`max_keys`].
pub const MAX_KEYS: usize = max_keys(1);
const _: () = assert!(max_keys_bytes(MAX_KEYS) + 4 * MAX_KEYS < SPARSE_BYTES);

/// The most keys of `width` numbers each that a client may request from one server at a time, so
/// that a frame can hold a gradient of as many keys and a list of as many more.
pub const fn max_keys(width: usize) -> usize {
    SPARSE_BYTES / (4 * width + 6)
}

/// Why bytes are not a list of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum KeysError {
    /// There are more than [`MAX_KEYS`].
    #[error("more keys than may be requested at once")]
    TooMany,
    /// The bytes end within a gap.
    #[error("a list of keys is cut off")]
    CutOff,
    /// A key lies beyond the shard.
    #[error("a key beyond the shard")]
    Beyond,
    /// There are more bytes than keys.
    #[error("bytes after the last key")]
    TooLong,
}

/// The most bytes that `count` keys take.
pub(crate) const fn max_keys_bytes(count: usize) -> usize {
    4 + count.div_ceil(4) + 4 * count
}

/// Appends keys, which must rise strictly and start at `base` or above, to `out`: their number,
/// then the gaps.
pub(crate) fn encode_keys(base: u32, keys: &[u32], out: &mut Vec<u8>) {
    out.reserve(max_keys_bytes(keys.len()));
    out.extend((keys.len() as u32).to_le_bytes());
    let mut least = base;
    for group in keys.chunks(4) {
        let control = out.len();
        out.push(0);
        let mut lengths = 0;
        for (i, &key) in group.iter().enumerate() {
            debug_assert!(key >= least, "keys must rise strictly");
            let gap = key.wrapping_sub(least);
            let len = (4 - gap.leading_zeros() as usize / 8).max(1);
            out.extend_from_slice(&gap.to_le_bytes()[..len]);
            lengths |= (len as u8 - 1) << (2 * i);
            // No key follows the largest one of all, so the wrapped value is never used.
            least = key.wrapping_add(1);
        }
        out[control] = lengths;
    }
}

/// Replaces `keys` with the decoded ones, which rise and lie within `bounds`.
///
/// Everything is checked before it is used: memory grows with the bytes that are there, not with
/// the number that they claim.
pub(crate) fn decode_keys(
    bounds: Range<u64>,
    bytes: &[u8],
    keys: &mut Vec<u32>,
) -> Result<(), KeysError> {
    keys.clear();
    let (count, mut bytes) = bytes.split_first_chunk().ok_or(KeysError::CutOff)?;
    let count = u32::from_le_bytes(*count) as usize;
    if count > MAX_KEYS {
        return Err(KeysError::TooMany);
    }
    // Every key takes at least one byte.
    if count > bytes.len() {
        return Err(KeysError::CutOff);
    }
    keys.resize(count, 0);
    let Range { start: mut least, end } = bounds;
    for group in keys.chunks_mut(4) {
        // A whole group with room behind it needs only one bounds check.
        if let Some(four) = group.first_chunk_mut::<4>()
            && let Some(window) = bytes.first_chunk::<20>()
        {
            let len = decode_group(window, &mut least, four);
            if least > end {
                return Err(KeysError::Beyond);
            }
            bytes = &bytes[len..];
            continue;
        }
        let (&lengths, rest) = bytes.split_first().ok_or(KeysError::CutOff)?;
        bytes = rest;
        for (i, out) in group.iter_mut().enumerate() {
            let len = (lengths >> (2 * i) & 3) as usize + 1;
            let (gap, rest) = bytes.split_at_checked(len).ok_or(KeysError::CutOff)?;
            let mut word = [0; 4];
            word[..len].copy_from_slice(gap);
            let key = least + u64::from(u32::from_le_bytes(word));
            if key >= end {
                return Err(KeysError::Beyond);
            }
            *out = key as u32;
            least = key + 1;
            bytes = rest;
        }
    }
    if bytes.is_empty() { Ok(()) } else { Err(KeysError::TooLong) }
}

/// Decodes a whole group of four keys from `least` on, and returns its length in bytes.
#[inline]
fn decode_group(window: &[u8; 20], least: &mut u64, keys: &mut [u32; 4]) -> usize {
    let lengths = window[0];
    let mut at = 1;
    for (i, out) in keys.iter_mut().enumerate() {
        let len = (lengths >> (2 * i) & 3) as usize + 1;
        let bytes = [window[at], window[at + 1], window[at + 2], window[at + 3]];
        let gap = u32::from_le_bytes(bytes) & (u32::MAX >> (32 - 8 * len as u32));
        let key = *least + u64::from(gap);
        *out = key as u32;
        *least = key + 1;
        at += len;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example in `docs/protocol.md`.
    #[test]
    fn the_example_in_the_document_is_right() {
        let (base, keys) = (1_000, [1_000, 1_003, 1_300, 70_000, 70_001]);
        let mut bytes = Vec::new();
        encode_keys(base, &keys, &mut bytes);
        let expected = [
            &[0x05, 0x00, 0x00, 0x00][..],
            &[0b10_01_00_00, 0x00, 0x02, 0x28, 0x01, 0x5b, 0x0c, 0x01],
            &[0b00, 0x00],
        ];
        assert_eq!(bytes, expected.concat());
        let mut back = Vec::new();
        assert_eq!(decode_keys(1_000..70_002, &bytes, &mut back), Ok(()));
        assert_eq!(back, keys);
    }

    proptest! {
        #[test]
        fn keys_survive_the_wire(
            keys in proptest::collection::btree_set(any::<u32>(), 0..300),
            shift in 0u32..26,
        ) {
            let mut keys: Vec<u32> = keys.into_iter().map(|key| key >> shift).collect();
            keys.dedup();
            let base = keys.first().map_or(0, |key| key / 2);
            let mut bytes = Vec::new();
            encode_keys(base, &keys, &mut bytes);
            prop_assert!(bytes.len() <= max_keys_bytes(keys.len()));
            let end = keys.last().map_or(0, |key| u64::from(*key) + 1);
            let bounds = u64::from(base)..end;
            let decode = |bounds, bytes: &[u8]| {
                let mut back = vec![7; 3];
                decode_keys(bounds, bytes, &mut back).map(|()| back)
            };
            prop_assert_eq!(decode(bounds.clone(), &bytes), Ok(keys.clone()));
            if !keys.is_empty() {
                let short = bounds.start..end - 1;
                prop_assert_eq!(decode(short, &bytes), Err(KeysError::Beyond));
                let cut = &bytes[..bytes.len() - 1];
                prop_assert_eq!(decode(bounds.clone(), cut), Err(KeysError::CutOff));
            }
            bytes.push(0);
            prop_assert_eq!(decode(bounds, &bytes), Err(KeysError::TooLong));
        }

        #[test]
        fn random_bytes_give_rising_keys_of_the_shard_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            count in 0u32..60, base: u32, len in 0u64..1 << 33,
        ) {
            let end = (u64::from(base) + len).min(1 << 32);
            for bytes in [bytes.clone(), [&count.to_le_bytes()[..], &bytes].concat()] {
                let mut keys = Vec::new();
                if decode_keys(u64::from(base)..end, &bytes, &mut keys).is_ok() {
                    prop_assert!(keys.iter().all(|&key| key >= base && u64::from(key) < end));
                    prop_assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
                }
                prop_assert!(keys.capacity() <= 2 * bytes.len() + 4);
            }
        }
    }
}
