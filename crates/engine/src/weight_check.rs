//! Checks that weights of examples and classes can be used.

use paceline_data::{Images, SparseRows};

use crate::error::TrainError;
use crate::workload::{TrainingData, Workload};

/// Rows are of two classes.
const ROW_CLASSES: usize = 2;

impl Workload {
    /// Refuses weights that do not fit the classes, or that the model would not use.
    pub(crate) fn check_weights(&self, class_weights: &[f32]) -> Result<(), TrainError> {
        let (classes, has_weights) = match &self.data {
            TrainingData::Images(set) => (Images::classes(&set.train), false),
            TrainingData::Examples(set) => (set.train.classes(), set.train.has_weights()),
            TrainingData::Rows(set) => (ROW_CLASSES, SparseRows::has_weights(&set.train)),
        };
        let wrong = |text: String| Err(TrainError::Settings(text));
        if !class_weights.is_empty() && class_weights.len() != classes {
            let given = class_weights.len();
            return wrong(format!(
                "train.class_weights has {given} numbers, but the data has {classes} classes; \
                 write one for each, in the order of the labels"
            ));
        }
        if (has_weights || !class_weights.is_empty()) && !self.small_model()?.uses_weights() {
            let whose = if has_weights { "the examples have weights" } else { "classes have" };
            return wrong(format!(
                "{whose}, but this model ignores them; let Model::gradient multiply by \
                 Batch::weights, and Model::uses_weights return true"
            ));
        }
        Ok(())
    }
}
