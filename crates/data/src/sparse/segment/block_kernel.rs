//! The two steps of decoding a block that vectors make faster, and their plain form.

use super::key_code::BLOCK_ENTRIES;

/// How many bytes are at hand when a block is decoded: the longest block, and what is read beyond
/// its end because several keys are read at a time.
pub(super) const WINDOW_BYTES: usize = 320;

/// The keys of a block before they are brought into order, with room for reading beyond.
#[derive(Clone)]
pub(super) struct KeyHalves {
    pub(super) popular: [u32; 2 * BLOCK_ENTRIES],
    pub(super) others: [u32; 2 * BLOCK_ENTRIES],
}

impl Default for KeyHalves {
    fn default() -> Self {
        KeyHalves { popular: [0; 2 * BLOCK_ENTRIES], others: [0; 2 * BLOCK_ENTRIES] }
    }
}

/// Reads the keys of a block that are not popular, and brings all into order.
pub(super) trait BlockKernel: Copy {
    /// Reads `count` keys of `bits` bits, from the byte `at` on. A key above `last` becomes `last`.
    /// May read and write more.
    fn unpack(
        self,
        window: &[u8; WINDOW_BYTES],
        at: usize,
        count: usize,
        bits: usize,
        last: u32,
        out: &mut [u32; 2 * BLOCK_ENTRIES],
    );

    /// Brings `count` keys into order: where `kinds` has a bit, the next of the other keys.
    fn merge(self, kinds: u64, count: usize, halves: &KeyHalves, out: &mut [u32; BLOCK_ENTRIES]);
}

/// Decodes without vectors.
#[derive(Clone, Copy)]
pub(super) struct PlainKeys;

impl BlockKernel for PlainKeys {
    #[inline(always)]
    fn unpack(
        self,
        window: &[u8; WINDOW_BYTES],
        at: usize,
        count: usize,
        bits: usize,
        last: u32,
        out: &mut [u32; 2 * BLOCK_ENTRIES],
    ) {
        let mask = ((1u64 << bits) - 1) as u32;
        let mut bit = 8 * at;
        for key in &mut out[..count] {
            *key = ((word_at(window, bit / 8) >> (bit % 8)) as u32 & mask).min(last);
            bit += bits;
        }
    }

    #[inline(always)]
    fn merge(self, kinds: u64, count: usize, halves: &KeyHalves, out: &mut [u32; BLOCK_ENTRIES]) {
        let mut before = 0;
        for (index, key) in out[..count].iter_mut().enumerate() {
            let kind = (kinds >> index & 1) as usize;
            let popular = halves.popular[(index - before) % BLOCK_ENTRIES];
            let other = halves.others[before % BLOCK_ENTRIES];
            // A mask instead of a branch, which would be mispredicted.
            let mask = (kind as u32).wrapping_neg();
            *key = popular & !mask | other & mask;
            before += kind;
        }
    }
}

/// Eight bytes of a window as a number; zero beyond its end.
#[inline(always)]
pub(super) fn word_at(window: &[u8; WINDOW_BYTES], at: usize) -> u64 {
    let bytes = window.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |&bytes| u64::from_le_bytes(bytes))
}
