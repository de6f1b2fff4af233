//! Sparse rows as training takes them: by index, shared between threads.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use paceline_generate::random::Random;

use super::collected_rows::CollectedRows;
use super::held_rows::HeldRows;
use super::limits::{MAX_FEATURES, MAX_ROWS};
use super::row::{RowBuffer, StoredRow};
use super::row_classes::RowClasses;
use super::row_store::RowStore;
use super::segment::KeyBuffer;
use crate::error::DataError;
use crate::hold_out::{choose_by_class, test_order};
use crate::train_test::TrainTest;

/// Keeps the random stream apart from those for other purposes.
const NEGATIVES_STREAM: u64 = 0x6e65_6761_7469_7665;

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
    /// A weight for each row of the store, in place of the store's own.
    weights: Option<Arc<[f32]>>,
    /// The classes of the labels, if there are more than two.
    pub(super) classes: Option<Arc<RowClasses>>,
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
        assert!(rows.start <= rows.end && rows.end <= store.rows(), "rows out of range");
        SparseRows { store, order: RowOrder::Stored, rows, weights: None, classes: None }
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
        let rows = rows.into_iter().map(|(keys, values, label)| (keys, [0u16; 0], values, label));
        Self::collect(features, rows, RowBuffer::default())
    }

    /// As [`from_rows`](Self::from_rows), for models that use fields: each row is its keys, the
    /// field of each key, the values of the keys and its label. The values of a key that is
    /// repeated in the same field are added up.
    ///
    /// ```
    /// use paceline_data::SparseRows;
    ///
    /// let rows = SparseRows::from_field_rows(10, [([7, 3], [0, 1], [], 1)])?;
    /// assert_eq!(rows.fields(), 2);
    /// assert_eq!((&rows.row(0).keys[..], &rows.row(0).fields[..]), (&[3, 7][..], &[1, 0][..]));
    /// # Ok::<(), paceline_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// As [`from_rows`](Self::from_rows), and if there is not a field for each key.
    pub fn from_field_rows<K: AsRef<[u32]>, F: AsRef<[u16]>, V: AsRef<[f32]>>(
        features: usize,
        rows: impl IntoIterator<Item = (K, F, V, u32)>,
    ) -> Result<Self, DataError> {
        Self::collect(features, rows, RowBuffer::default().with_fields(true))
    }

    fn collect<K: AsRef<[u32]>, F: AsRef<[u16]>, V: AsRef<[f32]>>(
        features: usize,
        rows: impl IntoIterator<Item = (K, F, V, u32)>,
        mut buffer: RowBuffer,
    ) -> Result<Self, DataError> {
        if !(1..=MAX_FEATURES).contains(&features) {
            let what = format!("{features} features; there must be from 1 to {MAX_FEATURES}");
            return Err(DataError::Examples { what });
        }
        let (mut parts, mut count) = (vec![CollectedRows::default()], 0);
        for (index, (keys, fields, values, label)) in rows.into_iter().enumerate() {
            let (keys, fields, values) = (keys.as_ref(), fields.as_ref(), values.as_ref());
            buffer.clear();
            buffer.keys.extend_from_slice(keys);
            buffer.fields.extend_from_slice(fields);
            if values.is_empty() {
                buffer.values.resize(keys.len(), 1.0);
            } else {
                buffer.values.extend_from_slice(values);
            }
            if buffer.has_fields() && fields.len() != keys.len() {
                let what = format!("{} keys but {} fields", keys.len(), fields.len());
                return Err(DataError::MemoryRow { row: index, what });
            }
            let checked = buffer.set_label(label.into()).and_then(|()| buffer.finish(features));
            let row = checked
                .map_err(|fault| DataError::MemoryRow { row: index, what: fault.to_string() })?;
            if parts.last().is_none_or(CollectedRows::is_full) {
                parts.push(CollectedRows::default());
            }
            if let Some(part) = parts.last_mut() {
                part.push(row);
            }
            count += 1;
        }
        if count == 0 || count as u64 > MAX_ROWS {
            let what = format!("{count} rows; there must be from 1 to {MAX_ROWS}");
            return Err(DataError::Examples { what });
        }
        let store = RowStore::in_memory(&parts, features)
            .map_err(DataError::io("map", Path::new("memory for rows")))?;
        Ok(Self::new(Arc::new(store), 0..count))
    }

    /// Gives each row a weight, by which its loss and gradient are multiplied in training.
    ///
    /// # Errors
    /// If there is not a weight for each row, a weight is negative, infinite or not a number; then
    /// the error names the row.
    ///
    /// # Panics
    /// If these rows are not all rows of their store, as after a `hold_out` or a `slice`.
    pub fn with_weights(self, weights: Vec<f32>) -> Result<Self, DataError> {
        let all = self.store.rows();
        let is_whole = matches!(self.order, RowOrder::Stored) && self.rows == (0..all);
        assert!(is_whole, "part of the rows");
        if weights.len() != all {
            let what = format!("{} weights for {all} rows; each row needs one", weights.len());
            return Err(DataError::Examples { what });
        }
        let is_bad = |weight: &f32| !(weight.is_finite() && *weight >= 0.0);
        if let Some(row) = weights.iter().position(is_bad) {
            let what = format!("the weight {} is not a number from 0 up", weights[row]);
            return Err(DataError::MemoryRow { row, what });
        }
        Ok(SparseRows { weights: Some(weights.into()), ..self })
    }

    /// Whether rows have weights.
    pub fn has_weights(&self) -> bool {
        self.weights.is_some() || self.store.has_weights
    }

    /// The weight of the row at a place in the store, if rows have weights.
    ///
    /// # Panics
    /// If the store has no such place.
    #[inline]
    pub fn stored_weight(&self, place: usize) -> Option<f32> {
        match &self.weights {
            Some(weights) => Some(weights[place]),
            None => self.store.has_weights.then(|| self.store.weight(place)),
        }
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
    pub fn hold_out(&self, test_rows: usize, seed: u64) -> Result<TrainTest<Self>, DataError> {
        self.check_hold_out(test_rows)?;
        let own = (0..self.len()).map(|index| self.label(index));
        let mut held = choose_by_class(own, test_rows, seed);
        self.locate_all(&mut held);
        let train = self.without(&held);
        Ok(TrainTest::new(train, self.listed(test_order(held, seed))))
    }

    /// Leaves out all but this share of the rows of class 0, drawn by the seed and each row's place
    /// in its store, so that every process draws the same. A model that corrects for it
    /// ([`Logistic::sampled_negatives`]) still gives the probabilities of all rows.
    ///
    /// # Errors
    /// If `share` is not above 0 and at most 1, or no row would be left.
    ///
    /// [`Logistic::sampled_negatives`]:
    ///     https://docs.rs/paceline-model/latest/paceline_model/struct.SparseLinear.html
    pub fn sample_negatives(&self, share: f64, seed: u64) -> Result<Self, DataError> {
        if !(share > 0.0 && share <= 1.0) {
            let what = format!("a share of {share} of the negative rows; it must be above 0");
            return Err(DataError::Examples { what });
        }
        // The greatest number that is drawn for a row that stays.
        let limit = (share * 2f64.powi(32)) as u64;
        let stays = |&place: &u32| {
            let drawn = Random::keyed(&[seed, NEGATIVES_STREAM, place.into()]).range(1 << 32);
            self.store.label(place as usize) != 0 || drawn < limit
        };
        let places = (0..self.len()).map(|index| self.locate(index) as u32);
        let (kept, left): (Vec<u32>, Vec<u32>) = places.partition(stays);
        if kept.is_empty() {
            let what = format!("no row is left of {} with that share of negatives", self.len());
            return Err(DataError::Examples { what });
        }
        let is_sorted = !matches!(self.order, RowOrder::Listed(_));
        // Whichever list is shorter.
        Ok(if left.len() < kept.len() && is_sorted {
            self.without(&left)
        } else {
            self.listed(kept)
        })
    }

    /// These rows without those at these places of the store, which are in increasing order.
    fn without(&self, places: &[u32]) -> Self {
        let (first, last) = (self.rows.start, self.rows.end);
        let all = if last > first { self.locate(last - first - 1) + 1 } else { 0 };
        let held = match &self.order {
            RowOrder::Stored => places.to_vec(),
            RowOrder::Rest(rest) => {
                let before = rest.held().take_while(|&place| (place as usize) < all);
                let mut held: Vec<u32> = before.chain(places.iter().copied()).collect();
                held.sort_unstable();
                held
            }
            RowOrder::Listed(list) => {
                let left: HashSet<u32> = places.iter().copied().collect();
                let rest = list[self.rows.clone()].iter().copied();
                return self.listed(rest.filter(|place| !left.contains(place)).collect());
            }
        };
        let rest = HeldRows::new(&held, all);
        let rows = first..rest.rest();
        SparseRows { order: RowOrder::Rest(Arc::new(rest)), rows, ..self.clone() }
    }

    /// The rows at these places of the store.
    fn listed(&self, places: Vec<u32>) -> Self {
        SparseRows { rows: 0..places.len(), order: RowOrder::Listed(places.into()), ..self.clone() }
    }

    fn check_hold_out(&self, test_rows: usize) -> Result<(), DataError> {
        let all = self.len();
        if test_rows < all {
            return Ok(());
        }
        Err(DataError::HoldOut { wanted: test_rows, all })
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
        if let RowOrder::Stored = self.order
            && self.len() == self.store.rows()
        {
            return self.store.entries;
        }
        let mut row = StoredRow::default();
        (0..self.len()).map(|index| self.read_row(index, &mut row).keys.len() as u64).sum()
    }

    /// The number of rows of each class: of 0, of 1, and of further classes up to the greatest.
    pub fn class_counts(&self) -> Vec<usize> {
        let mut counts = [0usize; 256];
        match &self.order {
            RowOrder::Stored => {
                let labels = self.store.labels().skip(self.rows.start).take(self.len());
                labels.for_each(|label| counts[usize::from(label)] += 1);
            }
            _ => (0..self.len())
                .for_each(|index| counts[usize::from(self.store.label(self.locate(index)))] += 1),
        }
        let classes = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        counts[..classes.max(2)].to_vec()
    }

    /// A bit for each label that the store's training set has, and for those of its test set.
    pub(crate) fn stored_labels(&self) -> [[u64; 4]; 2] {
        self.store.labels
    }

    /// The label of the row at an index.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    pub fn label(&self, index: usize) -> u32 {
        self.store.label(self.locate(index)).into()
    }

    /// Whether every value is 1, in these rows and in all others of the same store. The store then
    /// keeps only keys, and a model may skip the multiplication.
    pub fn all_ones(&self) -> bool {
        !self.store.has_values
    }

    /// One more than the greatest field of the store's keys, or the fields that the reader of its
    /// source knows; 0 if rows are stored without fields.
    pub fn fields(&self) -> usize {
        self.store.fields
    }

    /// How many of the last fields hold a single number each ([`FieldMap`](super::FieldMap)).
    pub fn number_fields(&self) -> usize {
        self.store.number_fields
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

    /// A copy of the row at an index. A loop over many rows fills a
    /// [`SparseBuffer`](super::SparseBuffer), which allocates nothing.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn row(&self, index: usize) -> StoredRow {
        let mut row = StoredRow::default();
        self.read_row(index, &mut row);
        row
    }

    /// Replaces the contents of `row` with the row at an index.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn read_row<'a>(&self, index: usize, row: &'a mut StoredRow) -> &'a StoredRow {
        row.keys.clear();
        row.values.clear();
        row.fields.clear();
        let place = self.store.find(self.locate(index));
        let mut keys = KeyBuffer::default();
        row.label = self.store.read(place, &mut keys, &mut row.values).into();
        self.store.read_fields(place, keys.len(), &mut row.fields);
        row.keys.extend_from_slice(&keys);
        row
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
    /// [`SparseBuffer::begin`](super::SparseBuffer::begin).
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

    /// A view of a range of the rows.
    ///
    /// # Panics
    /// If the range is not within `0..len`.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "rows out of range");
        let rows = self.rows.start + range.start..self.rows.start + range.end;
        SparseRows { rows, ..self.clone() }
    }

    /// What the rows are in.
    #[inline]
    pub(crate) fn store(&self) -> &RowStore {
        &self.store
    }
}
