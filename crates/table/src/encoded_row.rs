//! One row as keys and values.

use paceline_data::sparse::KeyOrder;

/// One row as a model takes it; its memory is used again from row to row.
#[derive(Clone, Debug, Default)]
pub struct EncodedRow {
    /// The class, from 0; `None` if the row has no label.
    pub label: Option<u32>,
    /// The weight of the row; `None` if the table has none.
    pub weight: Option<f32>,
    /// The features that are not zero, in ascending order.
    pub keys: Vec<u32>,
    /// The values of the features.
    pub values: Vec<f32>,
    order: KeyOrder,
    /// Scratch space for the hashes of crossed columns.
    pub(crate) cross_hashes: Vec<u64>,
    /// Scratch space for a word in lower case.
    pub(crate) word: Vec<u8>,
    /// Scratch space for the hashes of the last words.
    pub(crate) last_words: Vec<u64>,
}

impl EncodedRow {
    pub(crate) fn clear(&mut self) {
        (self.label, self.weight) = (None, None);
        self.keys.clear();
        self.values.clear();
    }

    #[inline]
    pub(crate) fn push(&mut self, key: u32, value: f32) {
        self.keys.push(key);
        self.values.push(value);
    }

    /// Whether every value is 1.
    #[inline]
    pub fn all_ones(&self) -> bool {
        self.values.iter().fold(true, |ones, &value| ones & (value == 1.0))
    }

    /// Sorts the keys and adds up the values of repeated ones.
    #[inline]
    pub(crate) fn finish(&mut self) {
        self.order.sort(&mut self.keys, &mut self.values);
    }

    /// Writes the row as a vector with a number for each feature.
    ///
    /// # Panics
    /// If `dense` is shorter than the featuriser's number of features.
    pub fn write_dense(&self, dense: &mut [f32]) {
        dense.fill(0.0);
        for (&key, &value) in self.keys.iter().zip(&self.values) {
            dense[key as usize] = value;
        }
    }
}
