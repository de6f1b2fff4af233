//! One row on its way from a reader to whoever takes it.
//!
//! Readers push what they find, in whatever order it stands. [`RowBuffer::finish`] then makes
//! a row of it that everything behind can rely on: keys rise, a repeated key has become one
//! with the sum of its values, every value is finite and every key below the limit.

use super::limits::MAX_ROW_ENTRIES;
use super::row_fault::RowFault;

/// A row as readers hand it over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparseRow<'a> {
    /// 1 for a click, else 0.
    pub label: u32,
    /// Which features are not zero. They never fall; they repeat in Criteo's rows only, where
    /// two columns may share a key, which then counts twice.
    pub keys: &'a [u32],
    /// The features' values; empty if all of them are 1.
    pub values: &'a [f32],
}

impl SparseRow<'_> {
    /// The value of the entry at `index`.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn value(&self, index: usize) -> f32 {
        if self.values.is_empty() { 1.0 } else { self.values[index] }
    }
}

/// A reusable place to put one row together.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    label: u32,
    /// Keys in the order in which they stand. Readers push here, and look at nothing else.
    pub(crate) keys: Vec<u32>,
    /// As many values; none in rows that `finish_ones` ends.
    pub(crate) values: Vec<f32>,
    /// For sorting: a key above, where it stood below.
    order: Vec<u64>,
    sorted: Vec<f32>,
}

impl RowBuffer {
    /// Begins a new row.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.label = 0;
    }

    /// Takes the label as the file has it: 0 or 1, or -1 or +1.
    #[inline]
    pub(crate) fn set_label(&mut self, label: i64) -> Result<(), RowFault> {
        self.label = match label {
            1 => 1,
            0 | -1 => 0,
            _ => return Err(RowFault::Label),
        };
        Ok(())
    }

    /// The row, sorted, with repeated keys left as they are. For rows of ones only.
    pub(crate) fn finish_ones(&mut self) -> SparseRow<'_> {
        debug_assert!(self.values.is_empty(), "a row of ones has no values");
        self.keys.sort_unstable();
        SparseRow { label: self.label, keys: &self.keys, values: &[] }
    }

    /// The row, sorted, with repeated keys summed, all of them below `features`.
    pub(crate) fn finish(&mut self, features: usize) -> Result<SparseRow<'_>, RowFault> {
        let (indices, values) = (self.keys.len(), self.values.len());
        if indices > MAX_ROW_ENTRIES {
            return Err(RowFault::Entries);
        }
        if indices != values {
            return Err(RowFault::Lengths { indices, values });
        }
        // Looking at all of them without stopping early is what vectors are good at.
        let pairs = self.keys.iter().zip(self.keys.iter().skip(1));
        if !pairs.fold(true, |rising, (a, b)| rising & (a < b)) {
            self.sort_and_sum();
        }
        if let Some(&greatest) = self.keys.last()
            && greatest as usize >= features
        {
            return Err(RowFault::Beyond { key: greatest, features });
        }
        if self.values.iter().fold(true, |ones, &value| ones & (value == 1.0)) {
            return Ok(SparseRow { label: self.label, keys: &self.keys, values: &[] });
        }
        if !self.values.iter().fold(true, |finite, value| finite & value.is_finite()) {
            return Err(RowFault::NotFinite);
        }
        Ok(SparseRow { label: self.label, keys: &self.keys, values: &self.values })
    }

    fn sort_and_sum(&mut self) {
        self.order.clear();
        let places = self.keys.iter().zip(0u64..);
        self.order.extend(places.map(|(&key, place)| u64::from(key) << 32 | place));
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(entries: &[(u32, f32)]) -> Result<(Vec<u32>, Vec<f32>), String> {
        let mut buffer = RowBuffer::default();
        buffer.clear();
        for &(key, value) in entries {
            buffer.keys.push(key);
            buffer.values.push(value);
        }
        let row = buffer.finish(10).map_err(|fault| fault.to_string())?;
        Ok((row.keys.to_vec(), row.values.to_vec()))
    }

    #[test]
    fn keys_come_sorted_and_repeats_are_summed() {
        let unsorted = [(5, 1.0), (2, 0.5), (5, 2.0), (0, 4.0)];
        assert_eq!(row(&unsorted).unwrap(), (vec![0, 2, 5], vec![4.0, 0.5, 3.0]));
        assert_eq!(row(&[(1, 1.0), (1, 1.0)]).unwrap(), (vec![1], vec![2.0]));
    }

    #[test]
    fn ones_need_no_values() {
        assert_eq!(row(&[(3, 1.0), (9, 1.0)]).unwrap(), (vec![3, 9], vec![]));
        assert_eq!(row(&[(9, 1.0), (3, 1.0)]).unwrap(), (vec![3, 9], vec![]));
        assert_eq!(row(&[(9, 0.5), (9, 0.5)]).unwrap(), (vec![9], vec![]));
        assert_eq!(row(&[]).unwrap(), (vec![], vec![]));
    }

    #[test]
    fn a_key_beyond_the_features_and_a_sum_beyond_all_bounds_are_faults() {
        assert!(row(&[(10, 1.0), (3, 1.0)]).unwrap_err().contains("10"));
        assert!(row(&[(1, f32::MAX), (1, f32::MAX)]).is_err());
        assert!(row(&[(1, f32::NAN)]).is_err());
    }

    #[test]
    fn labels_are_of_two_kinds() {
        let mut buffer = RowBuffer::default();
        for (label, expected) in [(0, 0), (1, 1), (-1, 0)] {
            buffer.clear();
            buffer.set_label(label).unwrap();
            assert_eq!(buffer.finish(1).unwrap().label, expected);
        }
        assert!(buffer.set_label(2).is_err());
    }
}
