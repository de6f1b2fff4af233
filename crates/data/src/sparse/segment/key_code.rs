//! How the keys of a row are stored: in few bits, and quick to read.
//!
//! Click data is skewed: a few thousand *popular* keys make up most entries. The cache lists them
//! once, in ascending order, and a row has 12 bits for each: its place in that list. Any other key
//! has as many bits as the greatest key of its segment needs. A bit for each entry says which kind
//! it is. Entries are stored in blocks of 64:
//!
//! ```text
//! row   = head, block, block, …, values
//! head  = 2 * number of entries + (1 if the row has values), 7 bits a byte, the lowest first
//! block = kinds (a bit each, 1 for a key that is not popular), places (12 bits each), other keys
//! ```
//!
//! Each of the three begins at a byte, and fills its bytes from the lowest bit on. Values are
//! floats, four bytes each; a row whose values are all 1 has none.
//!
//! No part depends on the one before it, so several are read at a time and no branch depends on
//! the data. Gaps between keys would save a few bits, but each has to wait for the key before it.

/// The most popular keys that a cache lists: a table that stays in the processor's first cache.
pub(crate) const MAX_POPULAR: usize = 1 << PLACE_BITS;

/// The bits of a popular key's place.
pub(super) const PLACE_BITS: usize = 12;

/// The entries of a block.
pub(super) const BLOCK_ENTRIES: usize = 64;

/// How many entries of a sample decide which keys are popular, at most.
const SAMPLE_ENTRIES: usize = 1 << 18;

/// A key must occur this often in the sample to be popular.
const MIN_COUNT: usize = 3;

/// The popular keys of a cache.
#[derive(Clone, Debug)]
pub(crate) struct KeyCode {
    /// The popular keys, ascending; zeros after the last.
    pub(super) table: Box<[u32; MAX_POPULAR]>,
    count: usize,
}

impl KeyCode {
    /// The code of a cache with these popular keys; `None` if they are too many or not ascending.
    pub(crate) fn new(popular: &[u32]) -> Option<Self> {
        let mut table = Box::new([0; MAX_POPULAR]);
        table.get_mut(..popular.len())?.copy_from_slice(popular);
        let is_sound = popular.is_sorted_by(|a, b| a < b);
        is_sound.then_some(KeyCode { table, count: popular.len() })
    }

    /// A code for rows like these: `keys` are those of all rows, `ends` the index after each row's
    /// last.
    pub(crate) fn for_sample(keys: &[u32], ends: &[u32]) -> Self {
        let rows = ends.partition_point(|&end| end as usize <= SAMPLE_ENTRIES).max(1);
        let entries = ends[..rows.min(ends.len())].last().map_or(0, |&end| end as usize);
        match KeyCode::new(&popular_keys(&keys[..entries])) {
            Some(code) => code,
            None => unreachable!("popular keys are ascending, and not too many"),
        }
    }

    /// The same code for a reader of rows without keys above `last`: one that is becomes `last`.
    pub(super) fn bounded(mut self, last: u32) -> Self {
        self.table.iter_mut().for_each(|key| *key = (*key).min(last));
        self
    }

    /// The popular keys, ascending.
    pub(crate) fn popular(&self) -> &[u32] {
        &self.table[..self.count]
    }
}

/// The number of bits of a segment's other keys, if all are below `features`. It is even, and not
/// 30, so that four keys begin at a byte and each lies within four bytes.
pub(crate) fn key_bits(features: u64) -> usize {
    let greatest = features.saturating_sub(1).min(u32::MAX.into()) as u32;
    let bits = (32 - greatest.leading_zeros()).next_multiple_of(2) as usize;
    if bits == 30 { 32 } else { bits }
}

/// The keys that occur most often, ascending.
fn popular_keys(keys: &[u32]) -> Vec<u32> {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a == b).filter(|run| run.len() >= MIN_COUNT);
    let mut found: Vec<(usize, u32)> = runs.map(|run| (run.len(), run[0])).collect();
    if found.len() > MAX_POPULAR {
        found.select_nth_unstable_by(MAX_POPULAR, |a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        found.truncate(MAX_POPULAR);
    }
    let mut popular: Vec<u32> = found.into_iter().map(|(_, key)| key).collect();
    popular.sort_unstable();
    popular
}
