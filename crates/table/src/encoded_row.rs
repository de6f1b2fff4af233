//! One row as keys and values.

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
    /// Scratch space for sorting: a key in the high half, its index in the low half.
    order: Vec<u64>,
    sorted: Vec<f32>,
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
        // Without an early exit, the compiler vectorises this loop.
        let pairs = self.keys.iter().zip(self.keys.iter().skip(1));
        if !pairs.fold(true, |rising, (a, b)| rising & (a < b)) {
            self.sort_and_sum();
        }
    }

    fn sort_and_sum(&mut self) {
        let indices = self.keys.iter().zip(0u64..);
        self.order.clear();
        self.order.extend(indices.map(|(&key, index)| u64::from(key) << 32 | index));
        self.order.sort_unstable();
        self.keys.clear();
        self.sorted.clear();
        for &entry in &self.order {
            let (key, value) = ((entry >> 32) as u32, self.values[entry as u32 as usize]);
            match (self.keys.last(), self.sorted.last_mut()) {
                (Some(&last), Some(sum)) if last == key => *sum += value,
                _ => {
                    self.keys.push(key);
                    self.sorted.push(value);
                }
            }
        }
        std::mem::swap(&mut self.values, &mut self.sorted);
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
