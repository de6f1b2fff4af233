//! The classes of rows that have more than two.

use std::path::Path;

use super::label_rule::LabelRule;
use crate::error::DataError;

/// The class of each stored label, and what the classes are called.
#[derive(Clone, Debug)]
pub(super) struct RowClasses {
    /// The class of each stored label that the training set has.
    of_label: [u32; 256],
    names: Vec<String>,
}

impl RowClasses {
    /// The labels of the training set, in ascending order, of rows that were opened with
    /// [`LabelRule::Classes`]. The sets of stored labels are those of training and test rows from
    /// `origin`, test rows perhaps from `test_path`.
    ///
    /// # Errors
    /// If there are fewer than two classes, or the test set has a label that the training set
    /// lacks.
    pub(super) fn of(
        [train, test]: [[u64; 4]; 2],
        origin: &str,
        test_path: Option<&Path>,
    ) -> Result<Self, DataError> {
        let wrong = |what: String| DataError::Sparse { path: origin.into(), what };
        let has = |set: &[u64; 4], label: usize| set[label / 64] >> (label % 64) & 1 == 1;
        let label_of = |stored: usize| stored as i64 + LabelRule::FIRST_CLASS;
        if let Some(unseen) = (0..256).find(|&label| has(&test, label) && !has(&train, label)) {
            let label = label_of(unseen);
            let path = test_path.unwrap_or(Path::new(origin)).into();
            let what = format!(
                "test rows have the label {label}, which no training row has; train \
                 on rows with it, or leave such rows out"
            );
            return Err(DataError::Sparse { path, what });
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

    /// Classes whose numbers are the stored labels.
    ///
    /// # Panics
    /// If there are more than 256.
    pub(super) fn of_names(names: &[String]) -> Self {
        assert!(names.len() <= 256, "{} classes", names.len());
        Self { of_label: std::array::from_fn(|label| label as u32), names: names.to_vec() }
    }

    #[inline]
    pub(super) fn class(&self, stored: u32) -> u32 {
        self.of_label[stored as usize]
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }
}
