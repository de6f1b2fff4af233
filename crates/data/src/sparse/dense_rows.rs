//! Sparse rows as dense examples, for models that take vectors.

use std::cell::RefCell;

use super::label_rule::LabelRule;
use super::row::StoredRow;
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

/// Rows that were opened with [`LabelRule::Classes`], as vectors with a value for each feature.
#[derive(Clone, Debug)]
pub struct DenseRows {
    rows: SparseRows,
    /// The class of each stored label that the training set has.
    classes: Box<[u32; 256]>,
    /// The labels of the classes, as the files have them.
    names: Vec<String>,
}

impl DenseRows {
    /// Both sets as dense examples. The classes are the labels of the training set, in ascending
    /// order.
    ///
    /// # Errors
    /// If there are more than [`MAX_DENSE_FEATURES`] features, fewer than two classes, or the test
    /// set has a label that the training set lacks.
    pub fn of(set: TrainTest<SparseRows>) -> Result<TrainTest<Self>, DataError> {
        let wrong = |what: String| DataError::Sparse { path: (&set.origin).into(), what };
        let features = set.train.features();
        if features > MAX_DENSE_FEATURES {
            return Err(wrong(format!(
                "{features} features, and a dense model takes at most {MAX_DENSE_FEATURES}; \
                 for two classes set model.kind = \"logistic\", which takes any number"
            )));
        }
        let [train, test] = set.train.stored_labels();
        let has = |set: &[u64; 4], label: usize| set[label / 64] >> (label % 64) & 1 == 1;
        let label_of = |stored: usize| stored as i64 + LabelRule::FIRST_CLASS;
        if let Some(unseen) = (0..256).find(|&label| has(&test, label) && !has(&train, label)) {
            let label = label_of(unseen);
            return Err(wrong(format!("the test set has label {label}, the training set has not")));
        }
        let mut classes = Box::new([0; 256]);
        let stored: Vec<usize> = (0..256).filter(|&label| has(&train, label)).collect();
        if stored.len() < 2 {
            let what = "every row has the same label; a model needs at least two classes";
            return Err(wrong(what.into()));
        }
        for (class, &label) in (0..).zip(&stored) {
            classes[label] = class;
        }
        let names: Vec<String> = stored.iter().map(|&label| label_of(label).to_string()).collect();
        let dense = |rows| DenseRows { rows, classes: classes.clone(), names: names.clone() };
        Ok(set.map(dense))
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
        self.names.len()
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn element_form(&self) -> ElementForm {
        ElementForm::Rows { first_index: self.rows.first_index() }
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        Some(self.classes[self.rows.label(example as usize) as usize])
    }

    fn fill(&self, example: u32, _epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        assert_eq!(out.len(), self.rows.features(), "the buffer must hold exactly one example");
        ROW.with_borrow_mut(|row| {
            self.rows.read_row(example as usize, row);
            out.fill(0.0);
            for (index, &key) in row.keys.iter().enumerate() {
                out[key as usize] = row.value(index);
            }
            Ok(self.classes[row.label as usize])
        })
    }
}
