//! Sorts the keys of a batch and makes them unique.

use std::hint::select_unpredictable;
use std::ops::Range;

use super::first_seen::FirstSeen;

/// Bits of a key that one pass of the sort looks at: the counts fit the first-level cache.
const DIGIT: usize = 9;
/// Values of a digit.
const DIGITS: usize = 1 << DIGIT;
/// Fewer pairs than this are sorted by comparison.
const FEW: usize = 128;
/// The most raw keys for which leaving them unsorted is faster.
const UNSORTED: usize = 16_384;
/// Hash buckets for each raw key: the more, the fewer keys share one.
const BUCKETS: usize = 4;

/// Finds the unique keys of a batch and the place of each raw key among them.
///
/// Most raw keys are repeated, and repeats need not be sorted. So every raw key first writes its
/// index into the bucket of its hash, and then reads which index was written there last: if that
/// index belongs to an equal key, it represents this one too. Only keys that represent themselves
/// are sorted. A key that loses its bucket to a different key represents itself each time it
/// occurs, which costs some sorting and nothing else. No branch depends on the keys, because the
/// processor would mispredict half of them.
///
/// Memory is reused from batch to batch.
///
/// ```
/// use paceline_kernels::Compactor;
///
/// let mut compactor = Compactor::new();
/// // Two rows of a model of 100 features whose bias has the key 100.
/// compactor.compact(&[7, 93, 7, 20], 100..101);
/// assert_eq!(compactor.keys(), [7, 20, 93, 100]);
/// assert_eq!(compactor.places(), [0, 2, 0, 1]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Compactor {
    keys: Vec<u32>,
    places: Vec<u32>,
    /// For each hash the index of the last raw key with that hash. Entries of earlier batches are
    /// never read: a bucket is written before it is read.
    buckets: Vec<u32>,
    /// For each raw key the index of the raw key that represents it.
    represented_by: Vec<u32>,
    /// Keys that represent themselves, with their index in the low half.
    pairs: Vec<u64>,
    /// The output of a pass of the sort.
    sorted: Vec<u64>,
    first_seen: FirstSeen,
}

impl Compactor {
    /// A compactor whose memory grows with the first batches.
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`Compactor::compact_with`], without a call for each key.
    ///
    /// # Panics
    /// In the same cases.
    pub fn compact(&mut self, raw: &[u32], shared: Range<u32>) {
        self.compact_with(raw, shared, |_| ());
    }

    /// Takes the keys of a batch, in the order of its rows, and works out [`Compactor::keys`]
    /// and [`Compactor::places`]. `shared` are the keys that every batch touches, such as a
    /// model's bias: `SparseModel::shared_keys`.
    ///
    /// `early` is called with each raw key before the rest of the work, so that it can ask for
    /// the parameters to be brought into the cache; both take about equally long.
    ///
    /// # Panics
    /// If a key is not below `shared.start`: the data and the model do not fit. If there are more
    /// keys than a `u32` can count.
    pub fn compact_with(&mut self, raw: &[u32], shared: Range<u32>, early: impl Fn(u32)) {
        assert!(u32::try_from(raw.len()).is_ok(), "{} keys in a batch", raw.len());
        let top = raw.iter().copied().max().unwrap_or(0);
        check_top(raw, top, &shared);
        let count = self.deduplicate(raw, early);
        if count < FEW {
            self.pairs[..count].sort_unstable();
        } else {
            let bits = (u32::BITS - top.leading_zeros()) as usize;
            match bits.div_ceil(DIGIT) {
                0 | 1 => self.sort::<1>(count),
                2 => self.sort::<2>(count),
                3 => self.sort::<3>(count),
                _ => self.sort::<4>(count),
            }
        }
        self.place(raw.len(), count);
        self.keys.extend(shared);
    }

    /// As [`Compactor::compact_with`], but the keys below the shared ones come in any order. They
    /// are sorted only where that is faster: where a hash table does not fit the second-level
    /// cache.
    ///
    /// # Panics
    /// In the same cases.
    pub fn compact_unsorted(&mut self, raw: &[u32], shared: Range<u32>, early: impl Fn(u32)) {
        if raw.len() > UNSORTED {
            return self.compact_with(raw, shared, early);
        }
        let top = self.first_seen.place(raw, &mut self.keys, &mut self.places, early);
        check_top(raw, top, &shared);
        self.keys.extend(shared);
    }

    /// Finds the representative of each raw key, gathers in `pairs` those that represent
    /// themselves, and returns their number.
    fn deduplicate(&mut self, raw: &[u32], early: impl Fn(u32)) -> usize {
        let size = (raw.len() * BUCKETS).next_power_of_two().max(2);
        if self.buckets.len() < size {
            self.buckets.resize(size, 0);
        }
        self.represented_by.resize(raw.len(), 0);
        self.pairs.resize(self.pairs.len().max(raw.len() + 1), 0);
        let (buckets, pairs) = (&mut self.buckets[..size], &mut self.pairs[..]);
        let shift = u64::BITS - size.trailing_zeros();
        // A multiplicative hash: the top bits of a product with the golden ratio.
        let hash =
            |key: u32| (u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize;
        for (&key, index) in raw.iter().zip(0..) {
            early(key);
            buckets[hash(key)] = index;
        }
        let mut count = 0;
        for ((&key, index), deduplicate) in raw.iter().zip(0..).zip(&mut self.represented_by) {
            let last = buckets[hash(key)];
            *deduplicate = select_unpredictable(raw[last as usize] == key, last, index);
            // Written in any case; counted only if the key represents itself.
            pairs[count] = u64::from(key) << 32 | u64::from(index);
            count += usize::from(*deduplicate == index);
        }
        count
    }

    /// Sorts the first `count` pairs by key. The digits of all passes are counted in one go.
    fn sort<const PASSES: usize>(&mut self, count: usize) {
        self.sorted.resize(self.pairs.len(), 0);
        let mut counts = [[0u32; DIGITS]; PASSES];
        for &pair in &self.pairs[..count] {
            for (pass, counts) in counts.iter_mut().enumerate() {
                counts[digit(pair, pass)] += 1;
            }
        }
        for (pass, counts) in counts.iter_mut().enumerate() {
            distribute(&self.pairs[..count], &mut self.sorted[..count], pass, counts);
            std::mem::swap(&mut self.pairs, &mut self.sorted);
        }
    }

    /// Makes the sorted pairs unique and works out the place of every raw key.
    fn place(&mut self, raw: usize, count: usize) {
        self.keys.resize(count, 0);
        self.places.resize(raw, 0);
        let (keys, places) = (&mut self.keys[..count], &mut self.places[..]);
        let (mut last, mut before) = (0, self.pairs[0] >> 32);
        for &pair in &self.pairs[..count] {
            let key = pair >> 32;
            last += usize::from(key != before);
            before = key;
            keys[last] = key as u32;
            places[pair as u32 as usize] = last as u32;
        }
        self.keys.truncate(if count == 0 { 0 } else { last + 1 });
        // A key that represents itself reads its own place.
        for index in 0..raw {
            places[index] = places[self.represented_by[index] as usize];
        }
    }

    /// The keys of the last batch, each once and sorted (unless compacted unsorted), followed by
    /// the shared keys.
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// For each raw key of the last batch, its index among [`Compactor::keys`].
    pub fn places(&self) -> &[u32] {
        &self.places
    }
}

fn check_top(raw: &[u32], top: u32, shared: &Range<u32>) {
    let features = shared.start;
    assert!(
        raw.is_empty() || top < features,
        "key {top} is outside a model of {features} features"
    );
}

/// The digit of a pair's key that a pass sorts by.
#[inline(always)]
fn digit(pair: u64, pass: usize) -> usize {
    (pair >> (u32::BITS as usize + pass * DIGIT)) as usize % DIGITS
}

/// One stable pass of a radix sort. `counts` holds how often each digit occurs.
///
/// It works from both ends at once, so that the two halves do not wait for each other's counts.
#[inline(always)]
fn distribute(from: &[u64], to: &mut [u64], pass: usize, counts: &mut [u32; DIGITS]) {
    let (starts, mut ends, mut sum) = (counts, [0u32; DIGITS], 0);
    for (start, end) in starts.iter_mut().zip(&mut ends) {
        sum += std::mem::replace(start, sum);
        *end = sum;
    }
    let (low, high) = from.split_at(from.len() / 2);
    for (&first, &last) in low.iter().zip(high.iter().rev()) {
        let start = &mut starts[digit(first, pass)];
        to[*start as usize] = first;
        *start += 1;
        let end = &mut ends[digit(last, pass)];
        *end -= 1;
        to[*end as usize] = last;
    }
    if high.len() > low.len() {
        to[starts[digit(high[0], pass)] as usize] = high[0];
    }
}

#[cfg(test)]
mod tests;
