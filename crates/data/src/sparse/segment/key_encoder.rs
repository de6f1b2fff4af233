//! Encodes the keys of rows.

use super::key_code::{BLOCK_ENTRIES, KeyCode, MAX_POPULAR, PLACE_BITS};

/// The slots of the table that finds a popular key: a power of two, four for each key.
const SLOTS: usize = 4 * MAX_POPULAR;

/// Encodes rows.
pub(crate) struct KeyEncoder {
    finder: PopularFinder,
}

impl KeyEncoder {
    pub(crate) fn new(code: &KeyCode) -> Self {
        KeyEncoder { finder: PopularFinder::new(code.popular()) }
    }

    /// Appends a row to `out`; `values` is empty if all are 1. Other keys have `key_bits` bits.
    pub(crate) fn encode(&self, keys: &[u32], values: &[f32], key_bits: usize, out: &mut Vec<u8>) {
        put_head((keys.len() as u64) << 1 | u64::from(!values.is_empty()), out);
        let (mut places, mut others) = ([0; BLOCK_ENTRIES], [0; BLOCK_ENTRIES]);
        for block in keys.chunks(BLOCK_ENTRIES) {
            let (mut kinds, mut count) = (0u64, 0);
            for (index, &key) in block.iter().enumerate() {
                let place = self.finder.place(key);
                // Both are written, and one is kept: whether a key is popular is hard to predict.
                places[index - count] = place.unwrap_or_default();
                others[count] = key;
                kinds |= u64::from(place.is_none()) << index;
                count += usize::from(place.is_none());
            }
            out.extend_from_slice(&kinds.to_le_bytes()[..block.len().div_ceil(8)]);
            put_bits(&places[..block.len() - count], PLACE_BITS, out);
            put_bits(&others[..count], key_bits, out);
        }
        out.extend_from_slice(bytemuck::cast_slice(values));
    }
}

/// Appends numbers with this many bits each.
#[inline]
fn put_bits(numbers: &[u32], bits: usize, out: &mut Vec<u8>) {
    let (mut word, mut filled) = (0u64, 0);
    for &number in numbers {
        word |= u64::from(number) << filled;
        filled += bits;
        if filled >= 32 {
            out.extend_from_slice(&(word as u32).to_le_bytes());
            word >>= 32;
            filled -= 32;
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8)]);
}

/// Finds the place of a key in the list of popular keys: a hash table with open addressing.
struct PopularFinder {
    /// A key in the high half and its place plus 1 in the low half; 0 if the slot is free.
    slots: Box<[u64; SLOTS]>,
}

impl PopularFinder {
    fn new(popular: &[u32]) -> Self {
        let mut slots = Box::new([0; SLOTS]);
        for (&key, place) in popular.iter().zip(1u64..) {
            let mut at = Self::slot(key);
            while slots[at] != 0 {
                at = (at + 1) % SLOTS;
            }
            slots[at] = u64::from(key) << 32 | place;
        }
        PopularFinder { slots }
    }

    #[inline]
    fn slot(key: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b1) >> (32 - SLOTS.ilog2())) as usize
    }

    #[inline]
    fn place(&self, key: u32) -> Option<u32> {
        let mut at = Self::slot(key);
        // At most a quarter of the slots is taken, so a free one ends the search.
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == key {
                return Some(slot as u32 - 1);
            }
            at = (at + 1) % SLOTS;
        }
    }
}

fn put_head(mut head: u64, out: &mut Vec<u8>) {
    while head >= 0x80 {
        out.push(head as u8 | 0x80);
        head >>= 7;
    }
    out.push(head as u8);
}
