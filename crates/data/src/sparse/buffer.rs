//! A batch of sparse rows, gathered from wherever they lie.
//!
//! Shuffled rows lie anywhere in the map. A row takes two reads, one for its bounds and one for
//! its keys, and each may have to wait for memory; so bounds are asked for some rows ahead, and
//! keys a few rows behind those.

use super::rows::SparseRows;

/// A reusable buffer for one batch of sparse rows. It allocates only while it grows.
#[derive(Debug, Default)]
pub struct SparseBuffer {
    /// Where each row begins in `keys` and `values`, and at last where they end.
    pub starts: Vec<u32>,
    /// The rows' keys, row after row.
    pub keys: Vec<u32>,
    /// The values of the keys; empty if all of them are 1.
    pub values: Vec<f32>,
    /// The rows' labels, 0 or 1.
    pub labels: Vec<u32>,
}

/// How many rows before its use a row's bounds, and then its keys, are asked for.
const BOUNDS_AHEAD: usize = 16;
const KEYS_AHEAD: usize = 8;

impl SparseBuffer {
    /// Replaces the buffer's contents by the given rows.
    ///
    /// # Panics
    /// If one of the rows is not there, or they have together more entries than 32 bits count.
    pub fn fill(
        &mut self,
        rows: &SparseRows,
        examples: impl ExactSizeIterator<Item = usize> + Clone,
    ) {
        self.starts.clear();
        self.keys.clear();
        self.values.clear();
        self.labels.clear();
        self.starts.push(0);
        let (mut bounds, mut keys) = (examples.clone(), examples.clone());
        bounds.by_ref().take(BOUNDS_AHEAD).for_each(|example| rows.prefetch_bounds(example));
        keys.by_ref().take(KEYS_AHEAD).for_each(|example| rows.prefetch_keys(example));
        for example in examples {
            if let Some(later) = bounds.next() {
                rows.prefetch_bounds(later);
            }
            if let Some(later) = keys.next() {
                rows.prefetch_keys(later);
            }
            let row = rows.row(example);
            self.keys.extend_from_slice(row.keys);
            self.values.extend_from_slice(row.values);
            self.labels.push(row.label);
            self.starts.push(self.keys.len() as u32);
        }
        assert!(u32::try_from(self.keys.len()).is_ok(), "too many entries for one batch");
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}
