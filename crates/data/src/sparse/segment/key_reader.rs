//! Decodes the keys of rows, with the processor's vectors where it has them.
//!
//! Decoding accepts any bytes: checksums tell whether they are right. They can be forged, and
//! models index by key, so no key is beyond the features.

use std::fmt;
use std::ops::Deref;

use super::block_kernel::{BlockKernel, KeyHalves, PlainKeys, WINDOW_BYTES, word_at};
use super::key_code::{BLOCK_ENTRIES, KeyCode, MAX_POPULAR, PLACE_BITS};
#[cfg(target_arch = "x86_64")]
use super::key_vectors::Avx2Keys;

/// Bytes that must follow the last row of a segment, so that every window lies within it.
pub(crate) const SLACK_BYTES: usize = WINDOW_BYTES;

/// Decoded keys, row after row. It allocates only while it grows.
#[derive(Clone, Default)]
pub struct KeyBuffer {
    /// The keys, and room behind them that is not cleared from batch to batch.
    room: Vec<u32>,
    len: usize,
    halves: KeyHalves,
}

impl KeyBuffer {
    /// Removes all keys.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Room for a block behind the keys.
    #[inline(always)]
    fn block(&mut self) -> (&mut [u32; BLOCK_ENTRIES], &mut KeyHalves) {
        if self.room.len() < self.len + BLOCK_ENTRIES {
            self.grow();
        }
        match self.room[self.len..].first_chunk_mut() {
            Some(block) => (block, &mut self.halves),
            None => unreachable!("there is room for a block"),
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.room.resize((2 * self.len).max(16 * BLOCK_ENTRIES), 0);
    }
}

impl Deref for KeyBuffer {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        &self.room[..self.len]
    }
}

impl<K: AsRef<[u32]> + ?Sized> PartialEq<K> for KeyBuffer {
    fn eq(&self, other: &K) -> bool {
        **self == *other.as_ref()
    }
}

impl AsRef<[u32]> for KeyBuffer {
    fn as_ref(&self) -> &[u32] {
        self
    }
}

impl fmt::Debug for KeyBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Decodes the rows of a store.
#[derive(Clone, Debug)]
pub(crate) struct KeyReader {
    code: KeyCode,
    /// The highest key.
    last: u32,
    #[cfg(target_arch = "x86_64")]
    vectors: Option<Avx2Keys>,
}

impl KeyReader {
    /// Decodes keys below `features`; one that is not becomes the last of them.
    pub(crate) fn new(code: KeyCode, features: usize) -> Self {
        let last = u32::try_from(features.saturating_sub(1)).unwrap_or(u32::MAX);
        KeyReader {
            code: code.bounded(last),
            last,
            #[cfg(target_arch = "x86_64")]
            vectors: Avx2Keys::new(),
        }
    }

    /// Decodes without vectors, as on processors that have none.
    #[cfg(test)]
    pub(super) fn plain(code: KeyCode, features: usize) -> Self {
        KeyReader {
            #[cfg(target_arch = "x86_64")]
            vectors: None,
            ..KeyReader::new(code, features)
        }
    }

    /// Appends the keys of a row to `keys`, and its values to `values` unless all are 1. `row`
    /// begins with the row and must not end before it; other keys have `key_bits` bits.
    #[inline]
    pub(crate) fn decode(
        &self,
        row: &[u8],
        key_bits: usize,
        keys: &mut KeyBuffer,
        values: &mut Vec<f32>,
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = self.vectors {
            return vectors.run(
                #[inline(always)]
                || self.decode_with(vectors, row, key_bits, keys, values),
            );
        }
        self.decode_with(PlainKeys, row, key_bits, keys, values);
    }

    #[inline(always)]
    fn decode_with(
        &self,
        kernel: impl BlockKernel,
        row: &[u8],
        key_bits: usize,
        keys: &mut KeyBuffer,
        values: &mut Vec<f32>,
    ) {
        let (head, at) = take_head(row);
        let mut rest = row.get(at..).unwrap_or_default();
        let (start, mut left) = (keys.len, (head >> 1) as usize);
        while left > 0 {
            let Some(window) = rest.first_chunk::<WINDOW_BYTES>() else { break };
            let count = left.min(BLOCK_ENTRIES);
            let used = self.decode_block(kernel, window, count, key_bits, keys);
            keys.len += count;
            left -= count;
            rest = &rest[used..];
        }
        if head & 1 == 1 {
            let (floats, _) = rest.as_chunks::<4>();
            let floats = floats.iter().take(keys.len - start);
            values.extend(floats.map(|&float| f32::from_le_bytes(float)));
        }
    }

    /// Decodes a block of at least one key, and returns the number of its bytes.
    #[inline(always)]
    fn decode_block(
        &self,
        kernel: impl BlockKernel,
        window: &[u8; WINDOW_BYTES],
        count: usize,
        key_bits: usize,
        keys: &mut KeyBuffer,
    ) -> usize {
        let (out, halves) = keys.block();
        let kinds = word_at(window, 0) & (u64::MAX >> (BLOCK_ENTRIES - count));
        let others = kinds.count_ones() as usize;
        let places_at = count.div_ceil(8);
        // As many as there are entries, not popular ones: a number that is easier to predict.
        let fours = halves.popular.as_chunks_mut::<4>().0.iter_mut();
        for (index, four) in fours.take(count.div_ceil(4)).enumerate() {
            let places = word_at(window, places_at + index * PLACE_BITS / 2);
            for (i, key) in four.iter_mut().enumerate() {
                *key = self.code.table[(places >> (PLACE_BITS * i)) as usize % MAX_POPULAR];
            }
        }
        let others_at = places_at + ((count - others) * PLACE_BITS).div_ceil(8);
        kernel.unpack(window, others_at, others, key_bits, self.last, &mut halves.others);
        kernel.merge(kinds, count, halves, out);
        others_at + (others * key_bits).div_ceil(8)
    }
}

/// The head of a row, and the number of its bytes.
#[inline]
fn take_head(row: &[u8]) -> (u64, usize) {
    if let Some(&byte) = row.first()
        && byte < 0x80
    {
        return (byte.into(), 1);
    }
    let mut head = 0;
    for (at, &byte) in row.iter().take(5).enumerate() {
        head |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return (head, at + 1);
        }
    }
    (0, row.len())
}

#[cfg(test)]
#[path = "key_reader_tests.rs"]
mod tests;
