//! Rows on their way into memory or into a segment of a cache.

use std::ops::Range;

use super::row::SparseRow;

/// The entries and the rows after which a segment ends, if not with a block of input.
const FULL_ENTRIES: usize = 1 << 20;
const FULL_ROWS: usize = 1 << 16;

/// Rows in the order in which they were pushed.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectedRows {
    keys: Vec<u32>,
    /// Empty as long as every value is 1.
    values: Vec<f32>,
    /// The index in the keys after each row's last.
    ends: Vec<u32>,
    labels: Vec<u8>,
    /// Empty as long as every weight is 1.
    weights: Vec<f32>,
    /// A field for each key; empty if rows have none.
    fields: Vec<u16>,
}

impl CollectedRows {
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.ends.clear();
        self.labels.clear();
        self.weights.clear();
        self.fields.clear();
    }

    /// Whether these are enough rows for a segment.
    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() >= FULL_ENTRIES || self.labels.len() >= FULL_ROWS
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(crate) fn keys(&self) -> &[u32] {
        &self.keys
    }

    pub(crate) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// A value for each key; none if all are 1.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }

    pub(crate) fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// A weight for each row; none if all are 1.
    pub(crate) fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// A field for each key; none if rows have none.
    pub(crate) fn fields(&self) -> &[u16] {
        &self.fields
    }

    /// The fields of a row's keys; none if rows have none.
    pub(crate) fn row_fields(&self, index: usize) -> &[u16] {
        self.fields.get(self.range(index)).unwrap_or_default()
    }

    fn range(&self, index: usize) -> Range<usize> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        start..self.ends[index] as usize
    }

    /// The keys of a row, and its values unless all are 1.
    pub(crate) fn row(&self, index: usize) -> (&[u32], &[f32]) {
        let range = self.range(index);
        let values = self.values.get(range.clone()).unwrap_or_default();
        let ones = values.iter().fold(true, |ones, &value| ones & (value == 1.0));
        (&self.keys[range], if ones { &[] } else { values })
    }

    /// Appends a row whose keys and values are checked.
    #[inline]
    pub(crate) fn push(&mut self, row: SparseRow<'_>) {
        if !row.values.is_empty() && self.values.is_empty() {
            self.values.resize(self.keys.len(), 1.0);
        }
        let has_values = !row.values.is_empty() || !self.values.is_empty();
        self.keys.extend_from_slice(row.keys);
        self.values.extend_from_slice(row.values);
        self.fields.extend_from_slice(row.fields);
        debug_assert!(self.fields.is_empty() || self.fields.len() == self.keys.len());
        if has_values {
            self.values.resize(self.keys.len(), 1.0);
        }
        if row.weight != 1.0 && self.weights.is_empty() {
            self.weights.resize(self.labels.len(), 1.0);
        }
        if row.weight != 1.0 || !self.weights.is_empty() {
            self.weights.push(row.weight);
        }
        self.ends.push(self.keys.len() as u32);
        self.labels.push(row.label as u8);
    }
}
