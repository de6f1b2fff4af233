//! A table from words to numbers.
//!
//! Most categories are short. Words of up to eight bytes are found by comparing one number, without
//! reading memory elsewhere; longer ones are in an ordinary map.

use std::collections::HashMap;

use crate::hash::{BuildWordHasher, GOLDEN, short_word};

/// The slots of a table that has a short word.
const FIRST_SLOTS: usize = 64;

/// Numbers by words.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordTable {
    /// A power of two, at most half of them used; or none.
    slots: Vec<WordSlot>,
    used: usize,
    long: HashMap<Box<[u8]>, u64, BuildWordHasher>,
}

/// A short word with its number. Its code is 0 if it is free.
#[derive(Clone, Copy, Debug, Default)]
struct WordSlot {
    code: u64,
    number: u64,
}

impl WordTable {
    /// The number of words.
    pub(crate) fn len(&self) -> usize {
        self.used + self.long.len()
    }

    /// The number of a word.
    #[inline]
    pub(crate) fn get(&self, word: &[u8]) -> Option<u64> {
        let Some(code) = short_code(word) else { return self.long.get(word).copied() };
        if self.slots.is_empty() {
            return None;
        }
        let slot = self.slots[self.place(code)];
        (slot.code == code).then_some(slot.number)
    }

    /// Adds to the number of a word, which is inserted if there are fewer than `most` words.
    #[inline]
    pub(crate) fn add(&mut self, word: &[u8], number: u64, most: usize) {
        match short_code(word) {
            Some(code) => self.add_short(code, number, most),
            None => self.add_long(word, number, most),
        }
    }

    #[inline]
    fn add_short(&mut self, code: u64, number: u64, most: usize) {
        if !self.slots.is_empty() {
            let place = self.place(code);
            let slot = &mut self.slots[place];
            if slot.code == code {
                slot.number += number;
                return;
            }
        }
        if self.len() < most {
            self.insert_short(code, number);
        }
    }

    #[cold]
    fn insert_short(&mut self, code: u64, number: u64) {
        if 2 * (self.used + 1) > self.slots.len() {
            let slots = FIRST_SLOTS.max(2 * self.slots.len());
            let old = std::mem::replace(&mut self.slots, vec![WordSlot::default(); slots]);
            for slot in old.into_iter().filter(|slot| slot.code != 0) {
                let place = self.place(slot.code);
                self.slots[place] = slot;
            }
        }
        let place = self.place(code);
        self.slots[place] = WordSlot { code, number };
        self.used += 1;
    }

    fn add_long(&mut self, word: &[u8], number: u64, most: usize) {
        if let Some(known) = self.long.get_mut(word) {
            *known += number;
        } else if self.len() < most {
            self.long.insert(word.into(), number);
        }
    }

    /// The slot of a short word, or the free one where it would be.
    #[inline]
    fn place(&self, code: u64) -> usize {
        let (mask, bits) = (self.slots.len() - 1, self.slots.len().trailing_zeros());
        // The highest bits of the product depend on all bytes of the word.
        let mut place = (code.wrapping_mul(GOLDEN) >> (64 - bits)) as usize & mask;
        while self.slots[place].code != code && self.slots[place].code != 0 {
            place = (place + 1) & mask;
        }
        place
    }

    /// All words with their numbers, in any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Box<[u8]>, u64)> {
        let short = self.slots.iter().filter(|slot| slot.code != 0);
        let short = short.map(|slot| (short_text(slot.code), slot.number));
        short.chain(self.long.iter().map(|(word, number)| (word.clone(), *number)))
    }

    /// Moves the numbers of another table into this one, which has at most `most` words then.
    pub(crate) fn merge(&mut self, other: &mut Self, most: usize) {
        for slot in &mut other.slots {
            if slot.code != 0 {
                self.add_short(slot.code, slot.number, most);
                *slot = WordSlot::default();
            }
        }
        other.used = 0;
        for (word, number) in other.long.drain() {
            self.add_long(&word, number, most);
        }
    }
}

/// A word of up to eight bytes as a number that is not 0: its bytes, and its length in place of the
/// eighth. `None` if it is longer, empty, or has such an eighth byte.
#[inline]
fn short_code(word: &[u8]) -> Option<u64> {
    match word.len() {
        1..=7 => Some(short_word(word) | (word.len() as u64) << 56),
        8 => {
            let code = u64::from_le_bytes(word.try_into().ok()?);
            (code >> 56 > 7).then_some(code)
        }
        _ => None,
    }
}

fn short_text(code: u64) -> Box<[u8]> {
    let bytes = code.to_le_bytes();
    let len = if bytes[7] <= 7 { usize::from(bytes[7]) } else { 8 };
    bytes[..len].into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_an_ordinary_map(
            words in proptest::collection::vec("[\u{0}\u{1}\u{7}ab]{0,10}", 0..300),
        ) {
            let (mut table, mut parts) = (WordTable::default(), WordTable::default());
            let mut expected: BTreeMap<Box<[u8]>, u64> = BTreeMap::new();
            for (number, word) in (1..).zip(&words) {
                table.add(word.as_bytes(), number, usize::MAX);
                *expected.entry(word.as_bytes().into()).or_default() += number;
                parts.add(word.as_bytes(), number, usize::MAX);
            }
            let mut merged = WordTable::default();
            merged.merge(&mut parts, usize::MAX);
            prop_assert_eq!(parts.len(), 0);
            for table in [&table, &merged] {
                prop_assert_eq!(&table.iter().collect::<BTreeMap<_, _>>(), &expected);
                prop_assert_eq!(table.len(), expected.len());
            }
            for (word, number) in &expected {
                prop_assert_eq!(table.get(word), Some(*number));
            }
            prop_assert_eq!(table.get(b"c"), None);
            prop_assert_eq!(table.get(b"a long word"), None);
        }
    }

    #[test]
    fn a_full_table_takes_no_further_words() {
        let mut table = WordTable::default();
        for word in ["a", "a word of many bytes", "b", "another long word", "a"] {
            table.add(word.as_bytes(), 1, 2);
        }
        assert_eq!((table.len(), table.get(b"a"), table.get(b"b")), (2, Some(2), None));
    }
}
