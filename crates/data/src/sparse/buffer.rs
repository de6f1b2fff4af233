//! A batch of sparse rows, copied together from anywhere in the data.
//!
//! Shuffled rows lie anywhere in the map. A row takes two dependent reads, its part of the index
//! and its keys, and each may wait for memory. So the index is prefetched some rows ahead, and keys
//! fewer rows ahead, when their part of the index has arrived.

use super::row_store::RowPlace;
use super::rows::SparseRows;
use super::segment::KeyBuffer;

/// A reusable buffer for one batch of sparse rows. It allocates only while it grows.
#[derive(Debug, Default)]
pub struct SparseBuffer {
    /// The index in `keys` and `values` at which each row begins, and after the last row their
    /// length.
    pub starts: Vec<u32>,
    /// The rows' keys, row after row.
    pub keys: KeyBuffer,
    /// The values of the keys; empty if all are 1.
    pub values: Vec<f32>,
    /// The fields of the keys; empty if rows are stored without.
    pub fields: Vec<u16>,
    /// The rows' labels, 0 or 1, or the numbers of their classes.
    pub labels: Vec<u32>,
    /// The rows' weights; empty if they have none.
    pub weights: Vec<f32>,
    /// Where the rows lie in their store, those that are not read yet included.
    places: Vec<u32>,
    /// Rows that were found, by the index of the row.
    found: [RowPlace; INDEX_AHEAD],
}

/// How many rows before its use a row's part of the index, and then its keys, are
/// prefetched.
const INDEX_AHEAD: usize = 16;
const KEYS_AHEAD: usize = 8;

impl SparseBuffer {
    /// Replaces the buffer's contents with the given rows.
    ///
    /// # Panics
    /// If an index is out of range, or the rows have more than 2^32 - 1 entries.
    pub fn fill(&mut self, rows: &SparseRows, examples: impl ExactSizeIterator<Item = usize>) {
        self.places.clear();
        self.places.extend(examples.map(|example| rows.locate(example) as u32));
        self.begin_places(rows);
        while self.read_next(rows) {}
    }

    /// Replaces the buffer's contents with rows that are yet to be read, each by a call to
    /// [`read_next`](Self::read_next). `places` say where they lie in their store
    /// ([`SparseRows::locate_all`]).
    ///
    /// # Panics
    /// If the store has no such place.
    pub fn begin(&mut self, rows: &SparseRows, places: &[u32]) {
        self.places.clear();
        self.places.extend_from_slice(places);
        self.begin_places(rows);
    }

    fn begin_places(&mut self, rows: &SparseRows) {
        self.starts.clear();
        self.keys.clear();
        self.values.clear();
        self.fields.clear();
        self.labels.clear();
        self.weights.clear();
        self.starts.push(0);
        for index in 0..self.places.len().min(INDEX_AHEAD) {
            self.find(rows, index);
        }
        for index in 0..self.places.len().min(KEYS_AHEAD) {
            rows.store().prefetch_row(self.found[index]);
        }
    }

    /// Finds a row and prefetches its part of the index.
    #[inline]
    fn find(&mut self, rows: &SparseRows, index: usize) {
        let found = rows.store().find(self.places[index] as usize);
        rows.store().prefetch_index(found);
        self.found[index % INDEX_AHEAD] = found;
    }

    /// Reads the next row of those that were begun; false if there are no more.
    ///
    /// # Panics
    /// If the rows have more than 2^32 - 1 entries, or are not those of `begin`.
    #[inline]
    pub fn read_next(&mut self, rows: &SparseRows) -> bool {
        let index = self.labels.len();
        let Some(&place) = self.places.get(index) else { return false };
        let row = self.found[index % INDEX_AHEAD];
        if index + INDEX_AHEAD < self.places.len() {
            self.find(rows, index + INDEX_AHEAD);
        }
        if index + KEYS_AHEAD < self.places.len() {
            rows.store().prefetch_row(self.found[(index + KEYS_AHEAD) % INDEX_AHEAD]);
        }
        let start = self.keys.len();
        let label = rows.store().read(row, &mut self.keys, &mut self.values);
        rows.store().read_fields(row, self.keys.len() - start, &mut self.fields);
        self.labels.push(rows.class_of(label.into()));
        // Only the values of a damaged row are not those that its segment states.
        if rows.all_ones() {
            self.values.clear();
        } else {
            self.values.resize(self.keys.len(), 1.0);
        }
        self.weights.extend(rows.stored_weight(place as usize));
        assert!(self.keys.len() <= u32::MAX as usize, "too many entries for one batch");
        self.starts.push(self.keys.len() as u32);
        true
    }

    /// The keys of a row that was read.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row_keys(&self, row: usize) -> &[u32] {
        &self.keys[self.starts[row] as usize..self.starts[row + 1] as usize]
    }

    /// The number of rows that were read.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}
