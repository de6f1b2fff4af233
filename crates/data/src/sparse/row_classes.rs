//! The classes of rows that have more than two.

use std::sync::Arc;

use super::label_rule::LabelRule;
use super::rows::SparseRows;
use crate::error::DataError;
use crate::train_test::TrainTest;

/// The class of each stored label, and what the classes are called.
#[derive(Clone, Debug)]
pub(super) struct RowClasses {
    /// The class of each stored label that the training set has.
    of_label: [u32; 256],
    names: Vec<String>,
}

impl RowClasses {
    /// The labels of the training set, in ascending order, of rows that were opened with
    /// [`LabelRule::Classes`].
    ///
    /// # Errors
    /// If there are fewer than two classes, or the test set has a label that the training set
    /// lacks.
    pub(super) fn of(set: &TrainTest<SparseRows>) -> Result<Self, DataError> {
        let wrong = |what: String| DataError::Sparse { path: (&set.origin).into(), what };
        let [train, test] = set.train.stored_labels();
        let has = |set: &[u64; 4], label: usize| set[label / 64] >> (label % 64) & 1 == 1;
        let label_of = |stored: usize| stored as i64 + LabelRule::FIRST_CLASS;
        if let Some(unseen) = (0..256).find(|&label| has(&test, label) && !has(&train, label)) {
            let label = label_of(unseen);
            return Err(wrong(format!("the test set has label {label}, the training set has not")));
        }
        let stored: Vec<usize> = (0..256).filter(|&label| has(&train, label)).collect();
        if stored.len() < 2 {
            let what = "every row has the same label; a model needs at least two classes";
            return Err(wrong(what.into()));
        }
        let mut of_label = [0; 256];
        for (class, &label) in (0..).zip(&stored) {
            of_label[label] = class;
        }
        let names = stored.iter().map(|&label| label_of(label).to_string()).collect();
        Ok(Self { of_label, names })
    }

    pub(super) fn class(&self, stored: u32) -> u32 {
        self.of_label[stored as usize]
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }
}

impl TrainTest<SparseRows> {
    /// Rows that were opened with [`LabelRule::Classes`], with the labels of the training set, in
    /// ascending order, as classes.
    ///
    /// # Errors
    /// If there are fewer than two classes, or the test set has a label that the training set
    /// lacks.
    pub fn with_label_classes(self) -> Result<Self, DataError> {
        let classes = RowClasses::of(&self)?;
        Ok(self.of_classes(classes))
    }

    /// Rows whose labels are the indices of these classes.
    ///
    /// # Panics
    /// If there are more than 256.
    #[must_use]
    pub fn with_class_names(self, names: &[String]) -> Self {
        assert!(names.len() <= 256, "{} classes", names.len());
        let of_label = std::array::from_fn(|label| label as u32);
        self.of_classes(RowClasses { of_label, names: names.to_vec() })
    }

    fn of_classes(self, classes: RowClasses) -> Self {
        let classes = Arc::new(classes);
        self.map(|mut rows| {
            rows.classes = Some(classes.clone());
            rows
        })
    }
}

impl SparseRows {
    /// The number of classes: two, unless the rows were given others.
    pub fn classes(&self) -> usize {
        self.classes.as_ref().map_or(2, |classes| classes.names.len())
    }

    /// The names of the classes; empty if the rows have the labels 0 and 1.
    pub fn class_names(&self) -> &[String] {
        self.classes.as_ref().map_or(&[], |classes| &classes.names)
    }

    /// The class of a stored label.
    #[inline]
    pub(crate) fn class_of(&self, stored: u32) -> u32 {
        self.classes.as_ref().map_or(stored, |classes| classes.class(stored))
    }
}
