//! From the keys of a batch to the compact slice that a sparse model sees.
//!
//! A batch of a sparse model touches a few thousand of many million parameters, the popular
//! ones many times over. Its keys are sorted and made unique once; after that the parameters
//! are read, their gradient is summed and pushed in that compact form, and each value of the
//! batch knows its place in it. Nothing here depends on anything but the keys.

/// Bits that one pass of the sort looks at: its counts fit the first-level cache.
const DIGIT: u32 = 9;
/// How many different digits there are.
const DIGITS: usize = 1 << DIGIT;

/// Sorts the keys of batches and makes them unique, with memory that is used again for the next.
#[derive(Clone, Debug, Default)]
pub struct Compactor {
    keys: Vec<u32>,
    places: Vec<u32>,
    /// Keys with the index they came from in the low half.
    pairs: Vec<u64>,
    /// Where the next pass of the sort puts them.
    sorted: Vec<u64>,
}

impl Compactor {
    /// A compactor without memory; it grows with the first batches.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the keys of a batch, as they stand in its rows, and works out [`Compactor::keys`]
    /// and [`Compactor::places`]. `bias` is the key of the parameter that every batch touches;
    /// it is the model's last.
    ///
    /// # Panics
    /// If a key is not below `bias`: the data and the model do not fit.
    pub fn compact(&mut self, raw: &[u32], bias: u32) {
        self.pairs.clear();
        self.pairs.extend(raw.iter().zip(0u64..).map(|(&key, index)| u64::from(key) << 32 | index));
        self.sorted.resize(raw.len(), 0);
        let top = raw.iter().copied().max().unwrap_or(0);
        assert!(raw.is_empty() || top < bias, "key {top} is outside a model of {bias} features");
        for shift in (0..u32::BITS - top.leading_zeros()).step_by(DIGIT as usize) {
            pass(&self.pairs, &mut self.sorted, 32 + shift);
            std::mem::swap(&mut self.pairs, &mut self.sorted);
        }
        self.keys.clear();
        self.places.resize(raw.len(), 0);
        let mut last = None;
        for &pair in &self.pairs {
            let (key, index) = ((pair >> 32) as u32, pair as u32);
            if last != Some(key) {
                self.keys.push(key);
                last = Some(key);
            }
            self.places[index as usize] = self.keys.len() as u32 - 1;
        }
        self.keys.push(bias);
    }

    /// The keys of the last batch, sorted and each once; the bias is the last.
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// For each raw key of the last batch, its index among [`Compactor::keys`].
    pub fn places(&self) -> &[u32] {
        &self.places
    }
}

/// One pass of a radix sort: by the digit at `shift`, otherwise in the order they are in.
fn pass(from: &[u64], to: &mut [u64], shift: u32) {
    let digit = |pair: u64| (pair >> shift) as usize % DIGITS;
    let mut next = [0u32; DIGITS];
    from.iter().for_each(|&pair| next[digit(pair)] += 1);
    let mut sum = 0;
    for place in &mut next {
        sum += std::mem::replace(place, sum);
    }
    for &pair in from {
        let place = &mut next[digit(pair)];
        to[*place as usize] = pair;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(compactor: &mut Compactor, raw: &[u32], bias: u32) {
        compactor.compact(raw, bias);
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
                (1u32..=32, proptest::collection::vec(any::<u32>(), 0..300)),
                1..4,
            ),
        ) {
            let mut compactor = Compactor::new();
            for (bits, mut raw) in batches {
                raw.iter_mut().for_each(|key| *key = (*key >> (32 - bits)).min(u32::MAX - 1));
                check(&mut compactor, &raw, u32::MAX);
            }
        }
    }

    #[test]
    fn odd_batches_are_no_exception() {
        let mut compactor = Compactor::new();
        check(&mut compactor, &[], 7);
        check(&mut compactor, &[0; 50], 1);
        check(&mut compactor, &[u32::MAX - 1, 0, u32::MAX - 1], u32::MAX);
        check(&mut compactor, &[], 0);
        let many: Vec<u32> = (0..70_000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 6).collect();
        check(&mut compactor, &many, 1 << 26);
    }

    #[test]
    #[should_panic(expected = "key 9 is outside a model of 9 features")]
    fn a_key_beyond_the_model_is_no_bias() {
        Compactor::new().compact(&[3, 9], 9);
    }
}
