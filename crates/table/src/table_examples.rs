//! The rows of a table as dense vectors.

use std::cell::RefCell;

use paceline_data::sparse::{MAX_DENSE_FEATURES, StoredRow};
use paceline_data::{DataError, Examples, SparseRows, TrainTest};

use crate::column_error::refused;
use crate::open::OpenTable;

thread_local! {
    /// The row that a thread expands, so that it allocates nothing per example.
    static ROW: RefCell<StoredRow> = RefCell::default();
}

/// Rows of a table as vectors with a number for each feature of the featuriser.
#[derive(Clone, Debug)]
pub struct TableExamples {
    rows: SparseRows,
    classes: usize,
}

impl OpenTable {
    /// The rows as dense vectors.
    ///
    /// # Errors
    /// If the vectors would be too long.
    pub fn into_dense(self) -> Result<TrainTest<TableExamples>, DataError> {
        let features = self.featurizer.features();
        if features > MAX_DENSE_FEATURES {
            let mut columns: Vec<_> =
                self.featurizer.columns.iter().map(|c| (c.role.width(), &c.name)).collect();
            columns.sort();
            let (width, widest) = columns.pop().unwrap_or((0, &self.rows.origin));
            let what = format!(
                "the columns make up {features} inputs, and a dense model takes at most \
                 {MAX_DENSE_FEATURES}; the widest is {widest:?} with {width}: give it fewer bits \
                 or a greater min_count, or set model.kind = \"logistic\""
            );
            return Err(refused(what));
        }
        let classes = self.featurizer.classes().len();
        Ok(self.rows.map(|rows| TableExamples { rows, classes }))
    }
}

impl Examples for TableExamples {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn shape(&self) -> [usize; 3] {
        [1, 1, self.rows.features()]
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        Some(self.rows.label(example as usize))
    }

    fn has_weights(&self) -> bool {
        self.rows.has_weights()
    }

    fn weight_of(&self, example: u32) -> f32 {
        self.rows.stored_weight(self.rows.locate(example as usize)).unwrap_or(1.0)
    }

    fn fill(&self, example: u32, _epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        ROW.with_borrow_mut(|row| {
            self.rows.read_row(example as usize, row);
            out.fill(0.0);
            for (index, &key) in row.keys.iter().enumerate() {
                out[key as usize] = row.value(index);
            }
            Ok(row.label)
        })
    }
}
