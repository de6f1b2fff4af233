//! Rows of more than two classes.

use std::path::Path;
use std::sync::Arc;

use super::row_classes::RowClasses;
use super::rows::SparseRows;
use crate::error::DataError;
use crate::train_test::TrainTest;

impl TrainTest<SparseRows> {
    /// Rows that were opened with [`LabelRule::Classes`](super::LabelRule::Classes), with the
    /// labels of the training set, in ascending order, as classes. Errors name `test_path`.
    ///
    /// # Errors
    /// If there are fewer than two classes, or the test set has a label that the training set
    /// lacks.
    pub fn with_label_classes(self, test_path: Option<&Path>) -> Result<Self, DataError> {
        let classes = RowClasses::of(self.train.stored_labels(), &self.origin, test_path)?;
        Ok(self.of_classes(classes))
    }

    /// Rows whose labels are the indices of these classes.
    ///
    /// # Panics
    /// If there are more than 256.
    #[must_use]
    pub fn with_class_names(self, names: &[String]) -> Self {
        self.of_classes(RowClasses::of_names(names))
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
        self.classes.as_ref().map_or(2, |classes| classes.names().len())
    }

    /// The names of the classes; empty if the rows have the labels 0 and 1.
    pub fn class_names(&self) -> &[String] {
        self.classes.as_ref().map_or(&[], |classes| classes.names())
    }

    /// The class of a stored label.
    #[inline]
    pub(crate) fn class_of(&self, stored: u32) -> u32 {
        self.classes.as_ref().map_or(stored, |classes| classes.class(stored))
    }
}
