//! The weights of a batch's examples: their own times those of their classes.

use std::sync::Arc;

use paceline_data::{Images, SparseRows};

use crate::error::TrainError;
use crate::workload::{TrainingData, Workload};

/// Combines the weights of examples with those of classes. Without either, every batch gets an
/// empty slice, and nothing is computed.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchWeights {
    /// A weight for each class; empty if there are none.
    classes: Arc<[f32]>,
    combined: Vec<f32>,
}

impl BatchWeights {
    /// Multiplies weights of examples by these of classes, if there are any.
    pub(crate) fn new(classes: &Arc<[f32]>) -> Self {
        Self { classes: classes.clone(), combined: Vec::new() }
    }

    /// The weights of examples with these labels and weights of their own, which are empty if the
    /// data has none.
    #[inline]
    pub(crate) fn of<'a>(&'a mut self, labels: &[u32], own: &'a [f32]) -> &'a [f32] {
        if self.classes.is_empty() {
            return own;
        }
        self.combined.clear();
        self.combined.extend(labels.iter().map(|&label| self.classes[label as usize]));
        for (weight, own) in self.combined.iter_mut().zip(own) {
            *weight *= own;
        }
        &self.combined
    }

    /// The weight of one example.
    #[inline]
    pub(crate) fn of_one(&self, label: u32, own: Option<f32>) -> f32 {
        let of_class = self.classes.get(label as usize).copied().unwrap_or(1.0);
        own.map_or(of_class, |own| of_class * own)
    }
}

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

/// Rows are of two classes.
const ROW_CLASSES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_classes_multiply_those_of_examples() {
        let mut weights = BatchWeights::new(&Arc::from([1.0, 4.0]));
        assert_eq!(weights.of(&[1, 0, 1], &[]), [4.0, 1.0, 4.0]);
        assert_eq!(weights.of(&[1, 0, 1], &[0.5, 2.0, 0.0]), [2.0, 2.0, 0.0]);
        assert_eq!((weights.of_one(1, None), weights.of_one(1, Some(0.5))), (4.0, 2.0));
        let mut none = BatchWeights::default();
        assert_eq!(none.of(&[1, 0], &[0.5, 2.0]), [0.5, 2.0]);
        assert!(none.of(&[1, 0], &[]).is_empty());
        assert_eq!(none.of_one(1, None), 1.0);
    }
}
