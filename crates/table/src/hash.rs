//! The hash that turns a category or a word into a key. It is part of the model file's meaning and
//! never changes; docs/formats.md defines it.

use std::hash::{BuildHasherDefault, Hasher};

use paceline_data::random::mix;

/// 2^64 divided by the golden ratio, made odd.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a text: its length and then its bytes, eight at a time.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = (bytes.len() as u64).wrapping_mul(GOLDEN);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
        hash = mix(hash ^ word);
    }
    let rest = words.remainder();
    if rest.is_empty() { hash } else { mix(hash ^ short_word(rest)) }
}

/// At most seven bytes as a number, the first in the lowest bits; without a loop over them.
#[inline]
pub(crate) fn short_word(bytes: &[u8]) -> u64 {
    let last = bytes.len() - 1;
    if let (Some(&low), Some(&high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (low, high) = (u32::from_le_bytes(low), u32::from_le_bytes(high));
        // Where the two overlap, they are equal.
        return u64::from(low) | u64::from(high) << (8 * (last - 3));
    }
    let middle = bytes.len() / 2;
    let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
    byte(0) | byte(middle) | byte(last)
}

/// The hash of a sequence, from the hash of all but the last part and that of the last part.
#[inline]
pub(crate) fn combine(hash: u64, next: u64) -> u64 {
    mix(hash.wrapping_add(GOLDEN) ^ mix(next))
}

/// The first `bits` bits of a hash.
#[inline]
pub(crate) fn bucket(hash: u64, bits: u32) -> u32 {
    (hash >> (64 - bits)) as u32
}

/// Finds words in tables of words.
pub(crate) type BuildWordHasher = BuildHasherDefault<WordHasher>;

/// Hashes the bytes of one word.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WordHasher(u64);

impl Hasher for WordHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(bytes);
    }

    /// The length, which the hash of the bytes includes.
    #[inline]
    fn write_usize(&mut self, _length: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed in Python from the definition in docs/formats.md.
    #[test]
    fn hashes_are_those_of_the_documentation() {
        assert_eq!(hash_bytes(b""), 0);
        assert_eq!(hash_bytes(b"Paris"), PARIS);
        assert_eq!(hash_bytes(b"Saint-Petersburg"), PETERSBURG);
        assert_eq!(combine(hash_bytes(b"Paris"), hash_bytes(b"rain")), PARIS_RAIN);
        assert_eq!(bucket(u64::MAX, 4), 15);
    }

    #[test]
    fn short_texts_are_numbers_with_the_first_byte_lowest() {
        for len in 1..8 {
            let bytes: Vec<u8> = (1..=len).map(|byte| 31 * byte).collect();
            let expected = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            assert_eq!(short_word(&bytes), expected);
        }
    }

    const PARIS: u64 = 0x3e73_e0ef_617f_7d22;
    const PETERSBURG: u64 = 0x33f2_5d1c_c4b3_fb7e;
    const PARIS_RAIN: u64 = 0xba8a_8319_5159_a6b8;
}
