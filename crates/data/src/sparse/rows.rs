//! Sparse rows as training takes them: by index, shared between threads.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::held_rows::HeldRows;
use super::limits::{MAX_FEATURES, MAX_ROWS};
use super::row::{RowBuffer, SparseRow};
use super::row_store::{CollectedRows, RowStore};
use crate::batch::prefetch;
use crate::error::DataError;
use crate::hold_out::{choose_by_class, test_order};
use crate::train_test::TrainTest;

/// Rows of sparse data, in a mapped file or in memory.
///
/// This is a view: cloning it, slicing it or sending it to another thread copies no row.
///
/// ```
/// use paceline_data::SparseRows;
///
/// // Any iterator of (keys, values, label) does. Without values, every value is 1.
/// let rows = [(vec![3, 7], vec![0.5, 2.0], 1), (vec![1, 2], vec![], 0)];
/// let rows = SparseRows::from_rows(10, rows)?;
/// assert_eq!((rows.len(), rows.features()), (2, 10));
/// assert_eq!(rows.row(0).keys, [3, 7]);
/// assert_eq!(rows.row(1).value(1), 1.0);
/// # Ok::<(), paceline_data::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SparseRows {
    store: Arc<RowStore>,
    order: RowOrder,
    /// The rows of the order that this view has.
    rows: Range<usize>,
}

/// Where in the store the rows of a view are.
#[derive(Clone, Debug)]
enum RowOrder {
    /// All rows of the store, as they lie there.
    Stored,
    /// The same without those that are held out.
    Rest(Arc<HeldRows>),
    /// These rows.
    Listed(Arc<[u32]>),
}

impl SparseRows {
    pub(crate) fn new(store: Arc<RowStore>, rows: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= store.labels().len(), "rows out of range");
        SparseRows { store, order: RowOrder::Stored, rows }
    }

    /// Collects rows in memory, each its keys, the values of the keys and its label.
    ///
    /// A label is 0 or 1, and a key is below `features`. Without values, every value is 1. Keys
    /// need not be sorted; the values of a repeated key are added up.
    ///
    /// # Errors
    /// If `features` is not from 1 to [`MAX_FEATURES`], or the number of rows is not from 1 to
    /// [`MAX_ROWS`]. Also if a row has a label other than 0 and 1, a key that is not below
    /// `features`, a value that is infinite or not a number, or a number of values that is neither
    /// 0 nor the number of keys; then the error names the row.
    pub fn from_rows<K: AsRef<[u32]>, V: AsRef<[f32]>>(
        features: usize,
        rows: impl IntoIterator<Item = (K, V, u32)>,
    ) -> Result<Self, DataError> {
        if !(1..=MAX_FEATURES).contains(&features) {
            let what = format!("{features} features; there must be from 1 to {MAX_FEATURES}");
            return Err(DataError::Examples { what });
        }
        let (mut collected, mut buffer) = (CollectedRows::new(), RowBuffer::default());
        for (index, (keys, values, label)) in rows.into_iter().enumerate() {
            let (keys, values) = (keys.as_ref(), values.as_ref());
            buffer.clear();
            buffer.keys.extend_from_slice(keys);
            if values.is_empty() {
                buffer.values.resize(keys.len(), 1.0);
            } else {
                buffer.values.extend_from_slice(values);
            }
            let checked = buffer.set_label(label.into()).and_then(|()| buffer.finish(features));
            let row = checked
                .map_err(|fault| DataError::MemoryRow { row: index, what: fault.to_string() })?;
            collected.push(row.label, row.keys, row.values);
        }
        let count = collected.len();
        if count == 0 || count as u64 > MAX_ROWS {
            let what = format!("{count} rows; there must be from 1 to {MAX_ROWS}");
            return Err(DataError::Examples { what });
        }
        let store = RowStore::in_memory(&collected, features)
            .map_err(DataError::io("map", Path::new("memory for rows")))?;
        Ok(Self::new(Arc::new(store), 0..count))
    }

    /// Splits off the last `test_rows` rows as a test set. That is fair only if the order of the
    /// rows means nothing; [`hold_out`](Self::hold_out) always is.
    ///
    /// # Errors
    /// If no row would be left to train on.
    pub fn hold_out_last(&self, test_rows: usize) -> Result<TrainTest<Self>, DataError> {
        self.check_hold_out(test_rows)?;
        let (train, all) = (self.len() - test_rows, self.len());
        Ok(TrainTest::new(self.slice(0..train), self.slice(train..all)))
    }

    /// Splits off `test_rows` randomly drawn rows as a test set, from each class in proportion to
    /// its size. Equal seeds choose equal rows. The other rows keep their order, and no row is
    /// copied.
    ///
    /// # Errors
    /// If no row would be left to train on.
    ///
    /// # Panics
    /// If these rows are not the first ones of their store, as after another `hold_out`.
    pub fn hold_out(&self, test_rows: usize, seed: u64) -> Result<TrainTest<Self>, DataError> {
        self.check_hold_out(test_rows)?;
        assert!(matches!(self.order, RowOrder::Stored) && self.rows.start == 0, "part of the rows");
        let labels = self.store.labels()[self.rows.clone()].iter();
        let held = choose_by_class(labels.map(|&label| label.into()), test_rows, seed);
        let rest = HeldRows::new(&held, self.len());
        let view = |order, len| SparseRows { store: self.store.clone(), order, rows: 0..len };
        let train_rows = rest.rest();
        let train = view(RowOrder::Rest(Arc::new(rest)), train_rows);
        let test = view(RowOrder::Listed(test_order(held, seed).into()), test_rows);
        Ok(TrainTest::new(train, test))
    }

    fn check_hold_out(&self, test_rows: usize) -> Result<(), DataError> {
        let all = self.len();
        if test_rows < all {
            return Ok(());
        }
        let what = format!("{test_rows} of {all} rows cannot be held out to test on");
        Err(DataError::Examples { what })
    }

    /// The number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of features; every key is below it.
    pub fn features(&self) -> usize {
        self.store.features
    }

    /// The number of entries (pairs of key and value) of all rows.
    pub fn entries(&self) -> u64 {
        let starts = self.store.starts();
        if let RowOrder::Stored = self.order {
            return starts[self.rows.end] - starts[self.rows.start];
        }
        let places = (0..self.len()).map(|index| self.locate(index));
        places.map(|place| starts[place + 1] - starts[place]).sum()
    }

    /// The number of rows of each class: 0 and 1.
    pub fn class_counts(&self) -> [usize; 2] {
        let labels = self.store.labels();
        let ones = match &self.order {
            RowOrder::Stored => count_ones(&labels[self.rows.clone()]),
            _ => (0..self.len()).map(|index| usize::from(labels[self.locate(index)])).sum(),
        };
        [self.len() - ones, ones]
    }

    /// Whether every value is 1, in these rows and in all others of the same store. The store then
    /// keeps only keys, and a model may skip the multiplication.
    pub fn all_ones(&self) -> bool {
        self.store.values().is_empty()
    }

    /// The number of rows of the source that could not be read and were left out, training and
    /// test set together.
    pub fn skipped(&self) -> u64 {
        self.store.skipped
    }

    /// The index of key 0 in the source: 1 for LIBSVM text whose indices count from 1, else 0.
    pub fn first_index(&self) -> u32 {
        self.store.first_index
    }

    /// The row at an index.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    pub fn row(&self, index: usize) -> SparseRow<'_> {
        self.stored_row(self.locate(index))
    }

    /// Where the row at an index lies in the store.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    pub fn locate(&self, index: usize) -> usize {
        assert!(index < self.len(), "there is no row {index}");
        let index = self.rows.start + index;
        match &self.order {
            RowOrder::Stored => index,
            RowOrder::Rest(rest) => rest.locate(index),
            RowOrder::Listed(list) => list[index] as usize,
        }
    }

    /// Replaces indices of rows by their places in the store. A loop that needs each row several
    /// times, for prefetching, finds it once this way and then uses
    /// [`stored_row`](Self::stored_row).
    ///
    /// # Panics
    /// If an index is not below [`len`](Self::len).
    pub fn locate_all(&self, indices: &mut [u32]) {
        if let RowOrder::Stored = self.order
            && self.rows.start == 0
        {
            return;
        }
        indices.iter_mut().for_each(|index| *index = self.locate(*index as usize) as u32);
    }

    /// The row at a place in the store, whichever rows this view has.
    ///
    /// # Panics
    /// If the store has no such place.
    #[inline]
    pub fn stored_row(&self, place: usize) -> SparseRow<'_> {
        let starts = self.store.starts();
        let (start, end) = (starts[place] as usize, starts[place + 1] as usize);
        let values = self.store.values();
        SparseRow {
            label: self.store.labels()[place].into(),
            keys: &self.store.keys()[start..end],
            values: if values.is_empty() { values } else { &values[start..end] },
        }
    }

    /// A view of a range of the rows.
    ///
    /// # Panics
    /// If the range is not within `0..len`.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "rows out of range");
        let rows = self.rows.start + range.start..self.rows.start + range.end;
        SparseRows { store: Arc::clone(&self.store), order: self.order.clone(), rows }
    }

    /// Prefetches the label and bounds of the row at a place in the store into the processor's
    /// cache.
    ///
    /// # Panics
    /// If the store has no such place.
    #[inline]
    pub fn prefetch_bounds(&self, place: usize) {
        prefetch(bytemuck::cast_slice(&self.store.starts()[place..place + 2]));
        prefetch(&self.store.labels()[place..=place]);
    }

    /// Prefetches the keys and values of the row at a place in the store into the processor's
    /// cache. This reads the row's bounds, so it waits for memory unless they were prefetched
    /// before.
    ///
    /// # Panics
    /// If the store has no such place.
    #[inline]
    pub fn prefetch_keys(&self, place: usize) {
        let row = self.stored_row(place);
        prefetch(bytemuck::cast_slice(row.keys));
        prefetch(bytemuck::cast_slice(row.values));
    }
}

fn count_ones(labels: &[u8]) -> usize {
    // Blocks short enough for a sum of bytes, which is many times faster than one of words.
    labels.chunks(255).map(|block| usize::from(block.iter().sum::<u8>())).sum()
}
