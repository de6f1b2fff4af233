//! Which server holds which keys of a sparse model.
//!
//! Keys count features first and then the parameters that every example touches, such as the
//! tensors of a perceptron. Equal ranges of keys would leave all of these to the last server, which
//! would send and receive them in every step, beside its part of the features. So each server has
//! an equal part of either: its keys have *places*, and the places of server *i* are the range *i*
//! of equal ranges, first those of its features and then those of its shared keys. Requests and
//! gradients name places; models, files and users know keys alone.

use std::ops::Range;

/// The places of a sparse model's keys on servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlaces {
    features: usize,
    parts: Vec<KeyPart>,
}

/// The keys that one table holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// Their places, first those of features.
    places: Range<usize>,
    features: Range<usize>,
    shared: Range<usize>,
}

/// Keys that lie side by side, and their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRun {
    /// The keys.
    pub keys: Range<usize>,
    /// The place of the first.
    pub place: usize,
}

impl KeyPlaces {
    /// Divides the keys of a model, of which the first `features` are features, among servers whose
    /// places are `shards`.
    ///
    /// If a key has one parameter (`width`), or there are fewer shared keys or features than
    /// servers, every key is at the place of its number.
    ///
    /// # Panics
    /// If the shards do not follow each other from 0 on.
    pub fn new(features: usize, width: usize, shards: &[Range<usize>]) -> Self {
        let (count, keys) = (shards.len(), shards.last().map_or(0, |last| last.end));
        let is_whole = shards.windows(2).all(|pair| pair[0].end == pair[1].start);
        assert!(is_whole && shards.first().is_none_or(|first| first.start == 0), "{shards:?}");
        let shared = keys.saturating_sub(features);
        if width == 1 || count < 2 || shared < count || features < count {
            let parts = shards.iter().map(|shard| KeyPart::contiguous(shard.clone(), features));
            return Self { features, parts: parts.collect() };
        }
        let shared_start = |server: usize| features + shared * server / count;
        let mut first = 0;
        let part = |(server, places): (usize, &Range<usize>)| {
            let shared = shared_start(server)..shared_start(server + 1);
            let own = first..first + places.len() - shared.len();
            first = own.end;
            KeyPart { places: places.clone(), features: own, shared }
        };
        Self { features, parts: shards.iter().enumerate().map(part).collect() }
    }

    /// Whether every key is at the place of its number.
    pub fn is_plain(&self) -> bool {
        self.parts.iter().all(|part| part.runs().all(|run| run.keys.start == run.place))
    }

    /// The keys of a server.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn part(&self, server: usize) -> &KeyPart {
        &self.parts[server]
    }

    /// Calls `visit` with the parts of a rising list of keys that lie side by side on a server, in
    /// the order of their places: where they are in the list, and what to add to a key (with
    /// wrapping) for its place.
    fn for_each_run(&self, keys: &[u32], mut visit: impl FnMut(Range<usize>, u32)) {
        let mut shared = keys.partition_point(|&key| (key as usize) < self.features);
        let (mut feature, features) = (0, &keys[..shared]);
        for part in &self.parts {
            let [own, its_shared] = part.both();
            let below = |list: &[u32], end: usize| list.partition_point(|&k| (k as usize) < end);
            let to = feature + below(&features[feature..], own.keys.end);
            visit(feature..to, own.offset());
            feature = to;
            let to = shared + below(&keys[shared..], its_shared.keys.end);
            visit(shared..to, its_shared.offset());
            shared = to;
        }
    }

    /// Replaces `places` with those of a rising list of keys, in rising order.
    pub fn place_keys(&self, keys: &[u32], places: &mut Vec<u32>) {
        places.clear();
        places.reserve(keys.len());
        self.for_each_run(keys, |run, offset| {
            places.extend(keys[run].iter().map(|key| key.wrapping_add(offset)));
        });
    }

    /// Replaces `out` with the numbers of a rising list of keys in the order of their places.
    pub fn gather(&self, keys: &[u32], numbers: &[f32], out: &mut Vec<f32>) {
        let width = numbers.len().checked_div(keys.len()).unwrap_or(0);
        out.clear();
        out.reserve(numbers.len());
        self.for_each_run(keys, |run, _| {
            out.extend_from_slice(&numbers[run.start * width..run.end * width]);
        });
    }

    /// The reverse of [`gather`](Self::gather).
    ///
    /// # Panics
    /// If `out` has another length than `numbers`.
    pub fn scatter(&self, keys: &[u32], numbers: &[f32], out: &mut [f32]) {
        let (width, mut from) = (numbers.len().checked_div(keys.len()).unwrap_or(0), 0);
        assert_eq!(numbers.len(), out.len(), "numbers of the keys");
        self.for_each_run(keys, |run, _| {
            let some = &numbers[from..from + run.len() * width];
            out[run.start * width..run.end * width].copy_from_slice(some);
            from += some.len();
        });
    }
}

impl KeyPart {
    /// A range of keys of which those below `features` are features, at the places of their
    /// numbers.
    pub fn contiguous(keys: Range<usize>, features: usize) -> Self {
        let split = features.clamp(keys.start, keys.end);
        Self { features: keys.start..split, shared: split..keys.end, places: keys }
    }

    /// The places of the keys.
    pub fn places(&self) -> Range<usize> {
        self.places.clone()
    }

    /// The place of the first shared key, or behind the last if there is none.
    pub(super) fn shared_place(&self) -> usize {
        self.places.start + self.features.len()
    }

    /// The key at a place.
    pub(super) fn key_at(&self, place: usize) -> usize {
        match place.checked_sub(self.shared_place()) {
            Some(nth) => self.shared.start + nth,
            None => place - self.places.start + self.features.start,
        }
    }

    fn both(&self) -> [KeyRun; 2] {
        [
            KeyRun { keys: self.features.clone(), place: self.places.start },
            KeyRun { keys: self.shared.clone(), place: self.shared_place() },
        ]
    }

    /// The keys, features first.
    pub fn runs(&self) -> impl Iterator<Item = KeyRun> + use<> {
        self.both().into_iter().filter(|run| !run.keys.is_empty())
    }
}

impl KeyRun {
    /// What to add to a key, with wrapping, for its place.
    pub fn offset(&self) -> u32 {
        (self.place as u32).wrapping_sub(self.keys.start as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal ranges, as servers have them.
    fn shards(keys: usize, servers: usize) -> Vec<Range<usize>> {
        (0..servers).map(|at| keys * at / servers..keys * (at + 1) / servers).collect()
    }

    #[test]
    fn every_server_has_an_equal_part_of_the_features_and_of_the_shared_keys() {
        for (features, shared, servers) in [(1_000, 37, 2), (10, 10, 3), (7, 100, 4), (5, 5, 5)] {
            let order = KeyPlaces::new(features, 9, &shards(features + shared, servers));
            assert!(!order.is_plain());
            let mut seen: Vec<usize> = Vec::new();
            for server in 0..servers {
                let part = order.part(server);
                let even = |all: usize, own: usize| own.abs_diff(all / servers) <= 2;
                let (own, its_shared) = (part.features.len(), part.shared.len());
                assert!(even(features, own) && even(shared, its_shared), "{part:?}");
                let places = part.places();
                assert_eq!(places.len(), own + its_shared);
                seen.extend(places.clone().map(|place| part.key_at(place)));
                for run in part.runs() {
                    let at = |key: usize| (key as u32).wrapping_add(run.offset()) as usize;
                    assert!(run.keys.clone().all(|key| part.key_at(at(key)) == key));
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..features + shared).collect::<Vec<_>>());
        }
    }

    #[test]
    fn keys_are_at_the_places_of_their_numbers_if_there_is_little_to_divide() {
        for (features, shared, width, servers) in
            [(100, 50, 4, 1), (100, 1, 4, 2), (100, 50, 1, 2), (1, 50, 4, 2)]
        {
            let order = KeyPlaces::new(features, width, &shards(features + shared, servers));
            assert!(order.is_plain(), "{order:?}");
        }
    }

    #[test]
    fn numbers_in_the_order_of_places_come_back_in_the_order_of_keys() {
        let order = KeyPlaces::new(100, 2, &shards(112, 3));
        let keys: Vec<u32> = (0..112).filter(|key| key % 3 != 1 || *key >= 100).collect();
        let mut places = Vec::new();
        order.place_keys(&keys, &mut places);
        assert!(places.is_sorted() && places.len() == keys.len(), "{places:?}");
        let numbers: Vec<f32> = (0..2 * keys.len()).map(|at| at as f32).collect();
        let (mut placed, mut back) = (Vec::new(), vec![0.0; numbers.len()]);
        order.gather(&keys, &numbers, &mut placed);
        for (place, pair) in places.iter().zip(placed.chunks(2)) {
            let server = (0..3).find(|&at| order.part(at).places().contains(&(*place as usize)));
            let key = order.part(server.unwrap()).key_at(*place as usize);
            let nth = keys.iter().position(|&known| known as usize == key).unwrap();
            assert_eq!(pair, [2.0 * nth as f32, 2.0 * nth as f32 + 1.0]);
        }
        order.scatter(&keys, &placed, &mut back);
        assert_eq!(back, numbers);
        order.place_keys(&[], &mut places);
        order.gather(&[], &[], &mut placed);
        order.scatter(&[], &[], &mut []);
        assert!(places.is_empty() && placed.is_empty());
    }
}
