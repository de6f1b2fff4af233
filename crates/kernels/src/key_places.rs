//! Which server holds which keys of a sparse model.
//!
//! Keys count features first and then the parameters that every example touches, such as the
//! tensors of a perceptron. Equal ranges of keys would leave all of these to the last server, which
//! would send and receive them in every step, besides its part of the features. So each server has
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
    /// Divides the keys of a model, the first `features` of which are features, among servers with
    /// the places `shards`.
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
    /// If `out` and `numbers` differ in length.
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
    /// A range of keys at the places of their numbers. The keys below `features` are features.
    pub fn contiguous(keys: Range<usize>, features: usize) -> Self {
        let split = features.clamp(keys.start, keys.end);
        Self { features: keys.start..split, shared: split..keys.end, places: keys }
    }

    /// The places of the keys.
    pub fn places(&self) -> Range<usize> {
        self.places.clone()
    }

    /// The place of the first shared key, or behind the last if there is none.
    pub fn shared_place(&self) -> usize {
        self.places.start + self.features.len()
    }

    /// The key at a place.
    #[inline]
    pub fn key_at(&self, place: usize) -> usize {
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
mod tests;
