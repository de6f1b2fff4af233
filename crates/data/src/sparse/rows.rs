//! Rows that lie in a mapped cache, as training takes them.

use std::ops::Range;
use std::sync::Arc;

use super::cache::Body;
use super::row::SparseRow;
use crate::batch::prefetch;

/// Rows of sparse data. They lie in a file that is mapped; this is a view of it that costs
/// nothing to clone, to cut or to hand to another thread.
#[derive(Clone, Debug)]
pub struct SparseRows {
    body: Arc<Body>,
    rows: Range<usize>,
}

/// Sparse data, ready for use.
#[derive(Clone, Debug)]
pub struct SparseSet {
    /// What to train on.
    pub train: SparseRows,
    /// What to test on; may be empty.
    pub test: SparseRows,
    /// Where it is from, for people.
    pub origin: String,
    /// Rows that could not be read and were left out.
    pub skipped: u64,
}

impl SparseRows {
    pub(crate) fn new(body: Arc<Body>, rows: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= body.labels().len(), "rows out of range");
        SparseRows { body, rows }
    }

    /// How many rows there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many features there are: every key is below.
    pub fn features(&self) -> usize {
        self.body.features
    }

    /// How many entries the rows have together.
    pub fn entries(&self) -> u64 {
        let starts = self.body.starts();
        starts[self.rows.end] - starts[self.rows.start]
    }

    /// Whether every value is 1, in these rows and the others of the same data.
    pub fn all_ones(&self) -> bool {
        self.body.values().is_empty()
    }

    /// A row.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row(&self, index: usize) -> SparseRow<'_> {
        assert!(index < self.len(), "there is no row {index}");
        let index = self.rows.start + index;
        let starts = self.body.starts();
        let (start, end) = (starts[index] as usize, starts[index + 1] as usize);
        let values = self.body.values();
        SparseRow {
            label: self.body.labels()[index].into(),
            keys: &self.body.keys()[start..end],
            values: if values.is_empty() { values } else { &values[start..end] },
        }
    }

    /// Some of the rows.
    ///
    /// # Panics
    /// If they are not all there.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "rows out of range");
        let rows = self.rows.start + range.start..self.rows.start + range.end;
        SparseRows { body: Arc::clone(&self.body), rows }
    }

    /// Asks for a row's label and bounds to be brought into the cache.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn ask_for_bounds(&self, index: usize) {
        let index = self.rows.start + index;
        prefetch(bytemuck::cast_slice(&self.body.starts()[index..index + 2]));
        prefetch(&self.body.labels()[index..=index]);
    }

    /// Asks for a row's keys and values to be brought into the cache. That waits for its bounds if
    /// they are not there.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn ask_for_keys(&self, index: usize) {
        let row = self.row(index);
        prefetch(bytemuck::cast_slice(row.keys));
        prefetch(bytemuck::cast_slice(row.values));
    }
}
