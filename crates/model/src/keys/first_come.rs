//! Places for keys in the order in which they first come: a hash table that forgets by itself.
//!
//! Who needs a batch's keys only to find their parameters in this process does not need them
//! sorted, and sorting is most of what making them unique costs. A slot of the table holds a key
//! and its place. Places are counted on from batch to batch, so that a slot of an earlier batch is
//! known by its low number and counts as empty; nothing is ever cleared. The loop over the keys
//! has no branch that hangs on them, which would be guessed wrong half of the time: a key whose
//! slot another key has taken is put off, and those few are found a slot afterwards.

use std::hint::select_unpredictable;

/// Slots for each raw key.
const SLOTS: usize = 2;
/// Where places start to count: 0 is in no use, so that a fresh slot is empty.
const FIRST: u32 = 1;

/// The table, with memory that is used again for the next batch.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstCome {
    /// Each a key in the high half and a place in the low half.
    slots: Vec<u64>,
    /// What this batch's places count from; what is below is of earlier batches.
    base: u32,
    /// Raw keys that were put off, by their index.
    late: Vec<u32>,
}

impl FirstCome {
    /// Writes to `keys` every key of `raw` once, and to `places` where each of `raw` is among
    /// them; returns the greatest. `early` is called with each raw key.
    ///
    /// It is made for a few thousand raw keys, and there must not be more than 2^31.
    pub(super) fn place(
        &mut self,
        raw: &[u32],
        keys: &mut Vec<u32>,
        places: &mut Vec<u32>,
        early: impl Fn(u32),
    ) -> u32 {
        let size = (raw.len() * SLOTS).next_power_of_two().max(2);
        self.make_room(size, raw.len());
        keys.resize(raw.len() + 1, 0);
        places.resize(raw.len(), 0);
        self.late.resize(raw.len() + 1, 0);
        let (slots, late) = (&mut self.slots[..size], &mut self.late[..]);
        let hash = Hash::of(size);
        let (base, mut next, mut put_off, mut top) = (self.base, 0u32, 0, 0);
        for ((&key, index), place) in raw.iter().zip(0..).zip(places.iter_mut()) {
            early(key);
            top = top.max(key);
            let slot = &mut slots[hash.slot(key)];
            let (holder, held) = ((*slot >> 32) as u32, *slot as u32);
            let (is_empty, is_mine) = (held < base, holder == key);
            let fresh = u64::from(key) << 32 | u64::from(base + next);
            *slot = select_unpredictable(is_empty, fresh, *slot);
            *place = select_unpredictable(is_empty, next, held.wrapping_sub(base));
            // Written in any case and kept only if it counts.
            keys[next as usize] = key;
            next += u32::from(is_empty);
            late[put_off] = index;
            put_off += usize::from(!is_empty & !is_mine);
        }
        for &index in &late[..put_off] {
            let key = raw[index as usize];
            let mut at = hash.slot(key);
            places[index as usize] = loop {
                at = (at + 1) % size;
                let (holder, held) = ((slots[at] >> 32) as u32, slots[at] as u32);
                if held < base {
                    slots[at] = u64::from(key) << 32 | u64::from(base + next);
                    keys[next as usize] = key;
                    next += 1;
                    break next - 1;
                } else if holder == key {
                    break held - base;
                }
            };
        }
        keys.truncate(next as usize);
        self.base = base + next;
        top
    }

    /// Sees to it that there are enough slots, and numbers for so many places.
    fn make_room(&mut self, size: usize, count: usize) {
        if self.slots.len() < size {
            self.slots.resize(size, 0);
        }
        if self.base < FIRST || self.base.checked_add(count as u32).is_none() {
            self.slots.fill(0);
            self.base = FIRST;
        }
    }
}

/// A multiplicative hash: the top bits of a product with the golden ratio.
#[derive(Clone, Copy)]
struct Hash {
    shift: u32,
    mask: usize,
}

impl Hash {
    /// For so many slots, a power of two above 1.
    fn of(size: usize) -> Self {
        Self { shift: u64::BITS - size.trailing_zeros(), mask: size - 1 }
    }

    #[inline(always)]
    fn slot(self, key: u32) -> usize {
        (u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize & self.mask
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(table: &mut FirstCome, raw: &[u32]) {
        let (mut keys, mut places) = (vec![9; 3], vec![9; 3]);
        let top = table.place(raw, &mut keys, &mut places, |_| ());
        assert_eq!(top, raw.iter().copied().max().unwrap_or(0));
        let back: Vec<u32> = places.iter().map(|&place| keys[place as usize]).collect();
        assert_eq!(back, raw);
        let (mut once, count) = (keys.clone(), keys.len());
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), count, "a key has two places");
        assert!(keys.iter().all(|key| raw.contains(key)));
    }

    proptest! {
        #[test]
        fn every_key_has_one_place_whatever_came_before(
            batches in proptest::collection::vec(
                (1u32..=32, proptest::collection::vec(any::<u32>(), 0..400)),
                1..6,
            ),
        ) {
            let mut table = FirstCome::default();
            for (bits, mut raw) in batches {
                raw.iter_mut().for_each(|key| *key >>= 32 - bits);
                check(&mut table, &raw);
            }
        }
    }

    #[test]
    fn numbers_that_run_out_start_again() {
        let mut table = FirstCome::default();
        check(&mut table, &[5, 5, 7]);
        table.base = u32::MAX - 2;
        check(&mut table, &[5, 8]);
        check(&mut table, &[8, 5, 9]);
        assert!(table.base < 10);
    }
}
