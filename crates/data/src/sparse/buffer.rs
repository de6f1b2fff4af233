//! A batch of sparse rows, copied together from anywhere in the data.
//!
//! Shuffled rows lie anywhere in the map. A row takes two dependent reads, its bounds and its keys,
//! and each may wait for memory. So bounds are prefetched some rows ahead, and keys fewer rows
//! ahead, when their bounds have arrived.

use super::rows::SparseRows;

/// A reusable buffer for one batch of sparse rows. It allocates only while it grows.
#[derive(Debug, Default)]
pub struct SparseBuffer {
    /// The index in `keys` and `values` at which each row begins, and after the last row their
    /// length.
    pub starts: Vec<u32>,
    /// The rows' keys, row after row.
    pub keys: Vec<u32>,
    /// The values of the keys; empty if all are 1.
    pub values: Vec<f32>,
    /// The rows' labels, 0 or 1, or the numbers of their classes.
    pub labels: Vec<u32>,
    /// The rows' weights; empty if they have none.
    pub weights: Vec<f32>,
    /// Where the rows lie in their store.
    places: Vec<u32>,
}

/// How many rows before its use a row's bounds, and then its keys, are prefetched.
const BOUNDS_AHEAD: usize = 16;
const KEYS_AHEAD: usize = 8;

impl SparseBuffer {
    /// Replaces the buffer's contents with the given rows.
    ///
    /// # Panics
    /// If an index is out of range, or the rows have more than 2^32 - 1 entries.
    pub fn fill(&mut self, rows: &SparseRows, examples: impl ExactSizeIterator<Item = usize>) {
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        places.extend(examples.map(|example| rows.locate(example) as u32));
        self.fill_stored(rows, &places);
        self.places = places;
    }

    /// Replaces the buffer's contents with the rows at these places in their store.
    ///
    /// # Panics
    /// If the store has no such place, or the rows have more than 2^32 - 1 entries.
    pub fn fill_stored(&mut self, rows: &SparseRows, places: &[u32]) {
        self.starts.clear();
        self.keys.clear();
        self.values.clear();
        self.labels.clear();
        self.weights.clear();
        self.starts.push(0);
        let has_values = !rows.all_ones();
        let places = places.iter().map(|&place| place as usize);
        let (mut bounds, mut keys) = (places.clone(), places.clone());
        bounds.by_ref().take(BOUNDS_AHEAD).for_each(|place| rows.prefetch_bounds(place));
        keys.by_ref().take(KEYS_AHEAD).for_each(|place| rows.prefetch_keys(place));
        for place in places {
            if let Some(later) = bounds.next() {
                rows.prefetch_bounds(later);
            }
            if let Some(later) = keys.next() {
                rows.prefetch_keys(later);
            }
            self.labels.push(rows.read_stored(place, &mut self.keys, &mut self.values));
            if has_values {
                self.values.resize(self.keys.len(), 1.0);
            }
            self.weights.extend(rows.stored_weight(place));
            self.starts.push(self.keys.len() as u32);
        }
        assert!(u32::try_from(self.keys.len()).is_ok(), "too many entries for one batch");
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}
