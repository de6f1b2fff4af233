//! Places for keys in the order of their first occurrence: a hash table that is never cleared.
//!
//! A worker that finds the parameters in its own process does not need sorted keys, and sorting is
//! most of the cost of making keys unique. A bucket of the table holds a key and its place. Places
//! are numbered on from batch to batch, so that a bucket of an earlier batch is recognised by its
//! low number and counts as empty. The loop over the keys has no branch that depends on them,
//! because the processor would mispredict half of them: a key whose bucket is taken by another key
//! is deferred, and those few find a bucket afterwards.

use std::hint::select_unpredictable;

/// Buckets for each raw key.
const BUCKETS: usize = 2;
/// The first number of a place. 0 is unused, so that a fresh bucket is empty.
const FIRST: u32 = 1;

/// The hash table. Memory is reused from batch to batch.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstSeen {
    /// Each a key in the high half and a place in the low half.
    buckets: Vec<u64>,
    /// The number of this batch's first place; lower numbers belong to earlier batches.
    base: u32,
    /// Indices of the raw keys that were deferred.
    deferred_keys: Vec<u32>,
}

impl FirstSeen {
    /// Writes every key of `raw` once to `keys`, and the index of each raw key among them to
    /// `places`; returns the greatest key. Calls `early` with each raw key.
    ///
    /// It is meant for a few thousand raw keys and takes at most 2^31.
    pub(super) fn place(
        &mut self,
        raw: &[u32],
        keys: &mut Vec<u32>,
        places: &mut Vec<u32>,
        early: impl Fn(u32),
    ) -> u32 {
        let size = (raw.len() * BUCKETS).next_power_of_two().max(2);
        self.reserve(size, raw.len());
        keys.resize(raw.len() + 1, 0);
        places.resize(raw.len(), 0);
        self.deferred_keys.resize(raw.len() + 1, 0);
        let (buckets, deferred_keys) = (&mut self.buckets[..size], &mut self.deferred_keys[..]);
        let hash = KeyHash::of(size);
        let (base, mut next, mut deferred, mut top) = (self.base, 0u32, 0, 0);
        for ((&key, index), place) in raw.iter().zip(0..).zip(places.iter_mut()) {
            early(key);
            top = top.max(key);
            let bucket = &mut buckets[hash.bucket(key)];
            let (holder, held) = ((*bucket >> 32) as u32, *bucket as u32);
            let (is_empty, is_mine) = (held < base, holder == key);
            let fresh = u64::from(key) << 32 | u64::from(base + next);
            *bucket = select_unpredictable(is_empty, fresh, *bucket);
            *place = select_unpredictable(is_empty, next, held.wrapping_sub(base));
            // Written in any case; counted only if the key is new.
            keys[next as usize] = key;
            next += u32::from(is_empty);
            deferred_keys[deferred] = index;
            deferred += usize::from(!is_empty & !is_mine);
        }
        for &index in &deferred_keys[..deferred] {
            let key = raw[index as usize];
            let mut at = hash.bucket(key);
            places[index as usize] = loop {
                at = (at + 1) % size;
                let (holder, held) = ((buckets[at] >> 32) as u32, buckets[at] as u32);
                if held < base {
                    buckets[at] = u64::from(key) << 32 | u64::from(base + next);
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

    /// Makes sure that there are `size` buckets and numbers for `count` places.
    fn reserve(&mut self, size: usize, count: usize) {
        if self.buckets.len() < size {
            self.buckets.resize(size, 0);
        }
        if self.base < FIRST || self.base.checked_add(count as u32).is_none() {
            self.buckets.fill(0);
            self.base = FIRST;
        }
    }
}

/// A multiplicative hash: the top bits of a product with the golden ratio.
#[derive(Clone, Copy)]
struct KeyHash {
    shift: u32,
    mask: usize,
}

impl KeyHash {
    /// For `size` buckets, a power of two above 1.
    fn of(size: usize) -> Self {
        Self { shift: u64::BITS - size.trailing_zeros(), mask: size - 1 }
    }

    #[inline(always)]
    fn bucket(self, key: u32) -> usize {
        (u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize & self.mask
    }
}

#[cfg(test)]
mod tests;
