//! From the keys of a batch to the compact slice that a sparse model sees.
//!
//! A batch of a sparse model touches a few thousand of many million parameters, the popular
//! ones many times over. Its keys are sorted and made unique once; after that the parameters
//! are read, their gradient is summed and pushed in that compact form, and each value of the
//! batch knows its place in it. Nothing here depends on anything but the keys.

mod first_come;

use std::hint::select_unpredictable;
use std::ops::Range;

use self::first_come::FirstCome;

/// Bits that one pass of the sort looks at: its counts fit the first-level cache.
const DIGIT: usize = 9;
/// How many different digits there are.
const DIGITS: usize = 1 << DIGIT;
/// Fewer pairs than this are sorted by comparing them.
const FEW: usize = 128;
/// The most raw keys that are not sorted unless they must be.
const UNSORTED: usize = 8_192;
/// Slots for each raw key: the more, the fewer keys share one.
const SLOTS: usize = 4;

/// Sorts the keys of batches and makes them unique, with memory that is used again for the next.
///
/// Most raw keys are repeated, and repeats need not be sorted. So every raw key first writes its
/// index into a slot that its hash names, and then looks who was the last to write there: if that
/// is an equal key, that one stands for it. Those that stand for themselves are sorted. A key
/// whose slot another key has taken stands for itself each time it comes; it costs a bit of
/// sorting, and nothing else. In all this no branch hangs on the keys, which would be guessed
/// wrong half of the time.
#[derive(Clone, Debug, Default)]
pub struct Compactor {
    keys: Vec<u32>,
    places: Vec<u32>,
    /// For each hash the index of the raw key that was the last to have it. What is left over
    /// from earlier batches is never read: whoever reads a slot has written to it before.
    slots: Vec<u32>,
    /// For each raw key the index of the one that stands for it.
    stands: Vec<u32>,
    /// Keys that stand for themselves, with their index in the low half.
    pairs: Vec<u64>,
    /// Where the next pass of the sort puts them.
    sorted: Vec<u64>,
    first_come: FirstCome,
}

impl Compactor {
    /// A compactor without memory; it grows with the first batches.
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
    /// model's bias: [`SparseModel::shared_keys`](crate::SparseModel::shared_keys).
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
        let top = self.first_come.place(raw, &mut self.keys, &mut self.places, early);
        check_top(raw, top, &shared);
        self.keys.extend(shared);
    }

    /// Finds out who stands for whom, and gathers in `pairs` those who stand for themselves;
    /// how many they are.
    fn deduplicate(&mut self, raw: &[u32], early: impl Fn(u32)) -> usize {
        let size = (raw.len() * SLOTS).next_power_of_two().max(2);
        if self.slots.len() < size {
            self.slots.resize(size, 0);
        }
        self.stands.resize(raw.len(), 0);
        self.pairs.resize(self.pairs.len().max(raw.len() + 1), 0);
        let (slots, pairs) = (&mut self.slots[..size], &mut self.pairs[..]);
        let shift = u64::BITS - size.trailing_zeros();
        // A multiplicative hash: the top bits of a product with the golden ratio.
        let hash =
            |key: u32| (u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize;
        for (&key, index) in raw.iter().zip(0..) {
            early(key);
            slots[hash(key)] = index;
        }
        let mut count = 0;
        for ((&key, index), deduplicate) in raw.iter().zip(0..).zip(&mut self.stands) {
            let last = slots[hash(key)];
            *deduplicate = select_unpredictable(raw[last as usize] == key, last, index);
            // Written in any case and kept only if it counts.
            pairs[count] = u64::from(key) << 32 | u64::from(index);
            count += usize::from(*deduplicate == index);
        }
        count
    }

    /// Sorts the first pairs by their keys, whose digits are counted all at once.
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

    /// Makes the sorted pairs unique, and tells every raw key its place.
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
        // Those who stand for themselves find their own place again.
        for index in 0..raw {
            places[index] = places[self.stands[index] as usize];
        }
    }

    /// The keys of the last batch, each once, sorted unless that was not asked for, and then the
    /// shared keys.
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

/// The digit of a pair's key that a pass looks at.
#[inline(always)]
fn digit(pair: u64, pass: usize) -> usize {
    (pair >> (u32::BITS as usize + pass * DIGIT)) as usize % DIGITS
}

/// One pass of a radix sort: by a digit, otherwise in the order they are in. `counts` says how
/// often each digit comes.
///
/// It is done from both ends at once, so that the two have not to wait for each other's counts.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(compactor: &mut Compactor, raw: &[u32], bias: u32) {
        compactor.compact(raw, bias..bias + 1);
        let mut keys = raw.to_vec();
        keys.sort_unstable();
        keys.dedup();
        keys.push(bias);
        assert_eq!(compactor.keys(), keys);
        let back: Vec<u32> =
            compactor.places().iter().map(|&place| compactor.keys()[place as usize]).collect();
        assert_eq!(back, raw);
    }

    proptest! {
        #[test]
        fn keys_come_out_sorted_and_once_and_places_lead_back(
            batches in proptest::collection::vec(
                (1u32..=32, proptest::collection::vec(any::<u32>(), 0..600)),
                1..4,
            ),
        ) {
            let mut compactor = Compactor::new();
            for (bits, mut raw) in batches {
                raw.iter_mut().for_each(|key| *key = (*key >> (32 - bits)).min(u32::MAX - 2));
                check(&mut compactor, &raw, u32::MAX - 1);
            }
        }
    }

    #[test]
    fn odd_batches_are_no_exception() {
        let mut compactor = Compactor::new();
        check(&mut compactor, &[], 7);
        check(&mut compactor, &[0; 50], 1);
        check(&mut compactor, &[u32::MAX - 2, 0, u32::MAX - 2], u32::MAX - 1);
        check(&mut compactor, &[], 0);
        let many: Vec<u32> = (0..70_000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 6).collect();
        check(&mut compactor, &many, 1 << 26);
    }

    #[test]
    fn all_shared_keys_come_last() {
        let mut compactor = Compactor::new();
        compactor.compact(&[5, 2, 5], 6..9);
        assert_eq!(compactor.keys(), [2, 5, 6, 7, 8]);
        compactor.compact_unsorted(&[5, 2, 5], 6..6, |_| ());
        assert_eq!(compactor.keys(), [5, 2]);
    }

    #[test]
    #[should_panic(expected = "key 9 is outside a model of 9 features")]
    fn a_key_beyond_the_model_is_no_bias() {
        Compactor::new().compact(&[3, 9], 9..10);
    }
}
