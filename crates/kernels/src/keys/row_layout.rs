//! Where the entries of a batch lie while it is computed row by row.

use std::ops::Range;

use super::Compactor;

/// Marks a unique key that occurs once.
const ONCE: u32 = u32::MAX;

/// The places of a batch's entries. Those that only the current row has come first, and the next
/// row uses their places again. Those that several rows have lie behind them, and the keys that
/// every example touches are last, as models expect it.
#[derive(Debug, Default)]
pub struct RowLayout {
    /// The place of each key of the batch, in the order of its rows.
    pub places: Vec<u32>,
    /// The keys that occur once in the batch, in the order of its rows.
    own: Vec<u32>,
    /// Where the keys of each row begin among `own`, and their end.
    own_starts: Vec<usize>,
    /// All other keys, in the order of their places.
    pub shared: Vec<u32>,
    /// The most keys of a row that occur once in the batch: the places before the shared ones.
    pub most_own: usize,
    /// For each unique key how often it occurs, then its place or [`ONCE`].
    of_unique: Vec<u32>,
}

impl RowLayout {
    /// Lays out the entries of a batch whose rows begin at `starts` of `keys`. If the gradient has
    /// to be a whole, every key counts as one that several rows have.
    pub fn arrange(&mut self, starts: &[u32], keys: &[u32], compactor: &Compactor, is_whole: bool) {
        let (unique, found) = (compactor.keys(), compactor.places());
        self.of_unique.clear();
        self.of_unique.resize(unique.len(), if is_whole { 2 } else { 0 });
        found.iter().for_each(|&at| self.of_unique[at as usize] += 1);
        self.place_own(starts, keys, found);
        self.shared.clear();
        for (&key, of_key) in unique.iter().zip(&mut self.of_unique) {
            if *of_key == 1 {
                *of_key = ONCE;
            } else {
                *of_key = (self.most_own + self.shared.len()) as u32;
                self.shared.push(key);
            }
        }
        for (place, &at) in self.places.iter_mut().zip(found) {
            let of_key = self.of_unique[at as usize];
            if of_key != ONCE {
                *place = of_key;
            }
        }
    }

    /// Places the keys that occur once.
    fn place_own(&mut self, starts: &[u32], keys: &[u32], found: &[u32]) {
        self.places.clear();
        self.own.clear();
        self.own_starts.clear();
        self.most_own = 0;
        for row in starts.windows(2) {
            let (first, range) = (self.own.len(), row[0] as usize..row[1] as usize);
            self.own_starts.push(first);
            for (&key, &at) in keys[range.clone()].iter().zip(&found[range]) {
                self.places.push((self.own.len() - first) as u32);
                if self.of_unique[at as usize] == 1 {
                    self.own.push(key);
                }
            }
            self.most_own = self.most_own.max(self.own.len() - first);
        }
        self.own_starts.push(self.own.len());
    }

    /// The keys that only this row has.
    pub fn own_keys(&self, row: usize) -> &[u32] {
        &self.own[self.own_range(row)]
    }

    /// The keys that only the row behind this one has, in halves.
    pub fn next_own_keys(&self, row: usize) -> (&[u32], &[u32]) {
        if row + 2 < self.own_starts.len() {
            let keys = self.own_keys(row + 1);
            return keys.split_at(keys.len().div_ceil(2));
        }
        (&[], &[])
    }

    fn own_range(&self, row: usize) -> Range<usize> {
        self.own_starts[row]..self.own_starts[row + 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_row_share_the_first_places_and_the_others_lie_behind_them() {
        let (starts, keys) = ([0, 3, 5, 9], [7, 8, 9, 8, 5, 1, 1, 2, 3]);
        let (mut compactor, mut layout) = (Compactor::new(), RowLayout::default());
        compactor.compact(&keys, 10..11);
        layout.arrange(&starts, &keys, &compactor, false);
        assert_eq!(layout.most_own, 2);
        assert_eq!(layout.shared, [1, 8, 10]);
        assert_eq!(layout.places, [0, 3, 1, 3, 0, 2, 2, 0, 1]);
        assert_eq!([0, 1, 2].map(|row| layout.own_keys(row)), [&[7, 9][..], &[5], &[2, 3]]);
        assert_eq!(layout.next_own_keys(1), (&[2][..], &[3][..]));
        assert_eq!(layout.next_own_keys(2), (&[][..], &[][..]));

        layout.arrange(&starts, &keys, &compactor, true);
        assert_eq!((layout.most_own, &layout.shared[..]), (0, compactor.keys()));
        assert_eq!(layout.places, compactor.places());
    }
}
