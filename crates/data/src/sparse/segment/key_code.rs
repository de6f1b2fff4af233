//! How the keys of a row are stored: as gaps, in few bits.
//!
//! Click data is skewed: a few thousand *popular* keys make up most entries. The cache lists them
//! once, in ascending order. An entry is then a *tag* of two bits and a gap: a popular key is the
//! gap from the last popular key's place in that list, any other key the gap from the key before
//! it. Each of the two has a narrow and a wide form, whose numbers of bits are chosen for the data:
//!
//! ```text
//! row  = head, tags (4 a byte, the first in the lowest bits), gaps (bit after bit), values
//! head = 2 * number of entries + (1 if the row has values), 7 bits a byte, the lowest first
//! tag  = 0, 1: popular key, narrow or wide gap      2, 3: other key, narrow or wide gap
//! ```
//!
//! Values are floats, four bytes each; a row whose values are all 1 has none. Decoding has no
//! branch that depends on the data, and accepts any bytes: checksums tell whether they are right.

/// The most popular keys that a cache lists: a table that stays in the processor's first cache.
pub(crate) const MAX_POPULAR: usize = 4096;

/// How many entries of a sample decide which keys are popular, at most.
const SAMPLE_ENTRIES: usize = 1 << 18;

/// A key must occur this often in the sample to be popular.
const MIN_COUNT: usize = 3;

/// The slots of the table that finds a popular key: a power of two, four for each key.
const SLOTS: usize = 4 * MAX_POPULAR;

/// Four gaps are read from this many bytes.
const WINDOW_BYTES: usize = 32;

/// Bytes that must follow the last row of a segment, so that every window lies within it.
pub(crate) const SLACK_BYTES: usize = WINDOW_BYTES;

/// The popular keys of a cache and the widths of its gaps.
#[derive(Clone, Debug)]
pub(crate) struct KeyCode {
    /// The popular keys, ascending; zeros after the last.
    popular: Box<[u32; MAX_POPULAR]>,
    count: usize,
    /// The number of bits of a gap, for each tag.
    widths: [u8; 4],
    steps: Box<[GroupStep; 256]>,
}

impl KeyCode {
    /// The code of a cache whose header has these widths; `None` if they are impossible.
    pub(crate) fn new(popular: &[u32], widths: [u8; 4]) -> Option<Self> {
        let is_sound = popular.len() <= MAX_POPULAR
            && popular.is_sorted_by(|a, b| a < b)
            && widths.iter().all(|&width| width <= 32);
        let mut table = Box::new([0; MAX_POPULAR]);
        table.get_mut(..popular.len())?.copy_from_slice(popular);
        is_sound.then(|| {
            let (count, steps) = (popular.len(), group_steps(widths));
            KeyCode { popular: table, count, widths, steps }
        })
    }

    /// A code for rows like these: `keys` are those of all rows, `ends` the index after each row's
    /// last. Every key that will be stored must be below `limit`.
    pub(crate) fn for_sample(keys: &[u32], ends: &[u32], limit: u64) -> Self {
        let rows = ends.partition_point(|&end| end as usize <= SAMPLE_ENTRIES).max(1);
        let ends = &ends[..rows.min(ends.len())];
        let keys = &keys[..ends.last().map_or(0, |&end| end as usize)];
        let popular = popular_keys(keys);
        let most_gap = limit.saturating_sub(1).min(u32::MAX.into()) as u32;
        let wide = [bits(popular.len().saturating_sub(1) as u32), bits(most_gap)];
        // How many gaps of each kind need each number of bits.
        let mut needs = [[0u64; 33]; 2];
        let finder = PopularFinder::new(&popular);
        let mut start = 0;
        for &end in ends {
            let mut gaps = Gaps::default();
            for &key in &keys[start..end as usize] {
                let gap = gaps.next(key, &finder);
                needs[usize::from(!gap.is_popular)][usize::from(bits(gap.size))] += 1;
            }
            start = end as usize;
        }
        let narrow = |kind: usize| best_width(&needs[kind], wide[kind]);
        let widths = [narrow(0), wide[0], narrow(1), wide[1]];
        let mut table = Box::new([0; MAX_POPULAR]);
        table[..popular.len()].copy_from_slice(&popular);
        let (count, steps) = (popular.len(), group_steps(widths));
        KeyCode { popular: table, count, widths, steps }
    }

    /// The popular keys, ascending.
    pub(crate) fn popular(&self) -> &[u32] {
        &self.popular[..self.count]
    }

    /// The number of bits of a gap, for each tag.
    pub(crate) fn widths(&self) -> [u8; 4] {
        self.widths
    }

    /// Appends the keys of a row to `keys`, and its values to `values` unless all are 1. `row`
    /// begins with the row and must not end before it.
    #[inline]
    pub(crate) fn decode(&self, row: &[u8], keys: &mut Vec<u32>, values: &mut Vec<f32>) {
        let (head, at) = take_head(row);
        let count = ((head >> 1) as usize).min(4 * row.len());
        let rest = row.get(at..).unwrap_or_default();
        let (tags, gaps) = rest.split_at_checked(count.div_ceil(4)).unwrap_or_default();
        let start = keys.len();
        let unused = 4 * tags.len() - count.min(4 * tags.len());
        keys.resize(start + 4 * tags.len(), 0);
        let bit = self.decode_keys(tags, gaps, unused, &mut keys[start..]);
        keys.truncate(start + count);
        if head & 1 == 1 {
            let bytes = gaps.get(bit.div_ceil(8)..).unwrap_or_default();
            let (floats, _) = bytes.as_chunks::<4>();
            values.extend(floats.iter().take(count).map(|&float| f32::from_le_bytes(float)));
        }
    }

    /// Decodes keys, four at a time, and returns how many bits their gaps have. `out` has room for
    /// four keys for each byte of tags; the last `unused` of them mean nothing.
    #[inline]
    fn decode_keys(&self, tags: &[u8], gaps: &[u8], unused: usize, out: &mut [u32]) -> usize {
        let (mut bit, mut place, mut key) = (0usize, 0u32, 0u32);
        let (groups, _) = out.as_chunks_mut::<4>();
        for (four, &tags) in groups.iter_mut().zip(tags) {
            let step = &self.steps[usize::from(tags)];
            let window = gaps.get(bit / 8..).and_then(|bytes| bytes.first_chunk::<WINDOW_BYTES>());
            let window = window.unwrap_or(&[0; WINDOW_BYTES]);
            let sizes: [u32; 4] = std::array::from_fn(|i| {
                let at = bit % 8 + usize::from(step.offsets[i]);
                // The four gaps begin in the first 16 bytes.
                let from = at / 8 % 16;
                let bytes = window[from..from + 8].try_into().unwrap_or_default();
                (u64::from_le_bytes(bytes) >> (at % 8)) as u32 & step.masks[i]
            });
            for i in 0..4 {
                // Masks instead of branches, which would be mispredicted.
                let other = step.others[i];
                place = place.wrapping_add(sizes[i] & !other);
                let popular = self.popular[place as usize % MAX_POPULAR];
                let term = popular & !other | sizes[i] & other;
                key = (key & other).wrapping_add(term);
                four[i] = key;
            }
            bit += usize::from(step.bits);
        }
        // The widths of tags that no entry has do not count. Damaged bytes may have others there.
        bit.saturating_sub(unused * usize::from(self.widths[0]))
    }
}

/// How the gaps of four entries lie, by the byte of their tags.
#[derive(Clone, Copy, Debug)]
struct GroupStep {
    /// Where each gap begins, in bits.
    offsets: [u8; 4],
    /// The bits of all four.
    bits: u8,
    /// The bits of a gap.
    masks: [u32; 4],
    /// All bits for an entry that is not a popular key, else 0.
    others: [u32; 4],
}

/// How to decode each byte of tags.
fn group_steps(widths: [u8; 4]) -> Box<[GroupStep; 256]> {
    let mut steps =
        Box::new([GroupStep { offsets: [0; 4], bits: 0, masks: [0; 4], others: [0; 4] }; 256]);
    for (tags, step) in steps.iter_mut().enumerate() {
        for i in 0..4 {
            let tag = tags >> (2 * i) & 3;
            step.offsets[i] = step.bits;
            step.masks[i] = ((1u64 << widths[tag]) - 1) as u32;
            step.others[i] = if tag < 2 { 0 } else { u32::MAX };
            step.bits += widths[tag];
        }
    }
    steps
}

/// Encodes rows.
pub(crate) struct KeyEncoder<'a> {
    code: &'a KeyCode,
    finder: PopularFinder,
}

impl<'a> KeyEncoder<'a> {
    pub(crate) fn new(code: &'a KeyCode) -> Self {
        KeyEncoder { code, finder: PopularFinder::new(code.popular()) }
    }

    /// Appends a row to `out`; `values` is empty if all are 1.
    pub(crate) fn encode(&self, keys: &[u32], values: &[f32], out: &mut Vec<u8>) {
        put_head((keys.len() as u64) << 1 | u64::from(!values.is_empty()), out);
        let tags_at = out.len();
        out.resize(tags_at + keys.len().div_ceil(4), 0);
        let widths = self.code.widths;
        let (mut gaps, mut word, mut filled) = (Gaps::default(), 0u64, 0u32);
        for (index, &key) in keys.iter().enumerate() {
            let gap = gaps.next(key, &self.finder);
            let kind = if gap.is_popular { 0 } else { 2 };
            let tag = kind + usize::from(bits(gap.size) > widths[kind]);
            out[tags_at + index / 4] |= (tag as u8) << (2 * (index % 4));
            word |= u64::from(gap.size) << filled;
            filled += u32::from(widths[tag]);
            if filled >= 32 {
                out.extend_from_slice(&(word as u32).to_le_bytes());
                word >>= 32;
                filled -= 32;
            }
        }
        out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
        out.extend_from_slice(bytemuck::cast_slice(values));
    }
}

/// The gap of one entry.
struct Gap {
    is_popular: bool,
    size: u32,
}

/// What the gaps of a row count from.
#[derive(Default)]
struct Gaps {
    place: u32,
    key: u32,
}

impl Gaps {
    #[inline]
    fn next(&mut self, key: u32, finder: &PopularFinder) -> Gap {
        let before = std::mem::replace(&mut self.key, key);
        match finder.place(key) {
            Some(place) => {
                let before = std::mem::replace(&mut self.place, place);
                Gap { is_popular: true, size: place - before }
            }
            None => Gap { is_popular: false, size: key - before },
        }
    }
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

/// The narrow width that makes gaps shortest, if the wide one is `wide`. `needs[n]` gaps need `n`
/// bits.
fn best_width(needs: &[u64; 33], wide: u8) -> u8 {
    let cost = |narrow: u8| -> u64 {
        let width = |need: usize| if need <= narrow.into() { narrow } else { wide };
        needs.iter().enumerate().map(|(need, &count)| count * u64::from(width(need))).sum()
    };
    (0..=wide).min_by_key(|&narrow| cost(narrow)).unwrap_or(wide)
}

/// The number of bits that a gap needs.
#[inline]
fn bits(gap: u32) -> u8 {
    (32 - gap.leading_zeros()) as u8
}

fn put_head(mut head: u64, out: &mut Vec<u8>) {
    while head >= 0x80 {
        out.push(head as u8 | 0x80);
        head >>= 7;
    }
    out.push(head as u8);
}

/// The head of a row, and the number of its bytes.
#[inline]
fn take_head(row: &[u8]) -> (u64, usize) {
    if let Some(&byte) = row.first()
        && byte < 0x80
    {
        return (byte.into(), 1);
    }
    let mut head = 0;
    for (at, &byte) in row.iter().take(5).enumerate() {
        head |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return (head, at + 1);
        }
    }
    (0, row.len())
}

#[cfg(test)]
#[path = "key_code_tests.rs"]
mod tests;
