//! Sparse rows as dense examples, for models that take vectors.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use super::row::StoredRow;
use super::row_classes::RowClasses;
use super::rows::SparseRows;
use crate::error::DataError;
use crate::examples::{ElementForm, Examples};
use crate::train_test::TrainTest;

/// The most features of a dense example: a softmax of ten classes then has 655,370 parameters.
pub const MAX_DENSE_FEATURES: usize = 1 << 16;

thread_local! {
    /// The row that a thread expands, so that it allocates nothing per example.
    static ROW: RefCell<StoredRow> = RefCell::default();
}

/// Rows that were opened with [`LabelRule::Classes`](super::LabelRule::Classes), as vectors with a
/// value for each feature.
#[derive(Clone, Debug)]
pub struct DenseRows {
    rows: SparseRows,
    classes: Arc<RowClasses>,
}

impl DenseRows {
    /// Both sets as dense examples. The classes are the labels of the training set, in ascending
    /// order.
    ///
    /// # Errors
    /// If there are more than [`MAX_DENSE_FEATURES`] features, fewer than two classes, or the test
    /// set has a label that the training set lacks.
    pub fn of(
        set: TrainTest<SparseRows>,
        test_path: Option<&Path>,
    ) -> Result<TrainTest<Self>, DataError> {
        let wrong = |what: String| DataError::Sparse { path: (&set.origin).into(), what };
        let features = set.train.features();
        if features > MAX_DENSE_FEATURES {
            return Err(wrong(format!(
                "{features} features, and a dense model takes at most {MAX_DENSE_FEATURES}; \
                 set model.kind = \"sparse-softmax\", or \"logistic\" for two classes, which take \
                 any number"
            )));
        }
        let classes = Arc::new(RowClasses::of(set.train.stored_labels(), &set.origin, test_path)?);
        Ok(set.map(|rows| DenseRows { rows, classes: classes.clone() }))
    }
}

impl Examples for DenseRows {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn shape(&self) -> [usize; 3] {
        [1, 1, self.rows.features()]
    }

    fn classes(&self) -> usize {
        self.classes.names().len()
    }

    fn class_names(&self) -> &[String] {
        self.classes.names()
    }

    fn element_form(&self) -> ElementForm {
        ElementForm::Rows { first_index: self.rows.first_index() }
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        Some(self.classes.class(self.rows.label(example as usize)))
    }

    fn fill(&self, example: u32, _epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        assert_eq!(out.len(), self.rows.features(), "the buffer must hold exactly one example");
        ROW.with_borrow_mut(|row| {
            self.rows.read_row(example as usize, row);
            out.fill(0.0);
            for (index, &key) in row.keys.iter().enumerate() {
                out[key as usize] = row.value(index);
            }
            Ok(self.classes.class(row.label))
        })
    }
}
