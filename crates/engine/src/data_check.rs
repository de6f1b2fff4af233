//! Checks that a model can be trained on its data: the sizes, and the weights.

use paceline_data::{Images, SparseRows, TrainTest};

use crate::error::TrainError;
use crate::workload::{TrainingData, Workload};

impl Workload {
    /// Refuses examples that have more or fewer values than the model takes.
    pub(crate) fn check_inputs(&self) -> Result<(), TrainError> {
        let takes = self.small_model()?.inputs();
        let has = match &self.data {
            TrainingData::Images(set) => sizes(set, Images::inputs),
            TrainingData::Examples(set) => sizes(set, |examples| examples.inputs()),
            TrainingData::Rows(set) => sizes(set, SparseRows::features),
        };
        // Features that no row has do no harm.
        let fits =
            |has: usize| has == takes || has < takes && matches!(self.data, TrainingData::Rows(_));
        let Some(has) = has.into_iter().flatten().find(|&has| !fits(has)) else { return Ok(()) };
        let values = if takes == 1 { "value" } else { "values" };
        Err(TrainError::Settings(format!(
            "the model takes {takes} {values} per example, but the data has {has}"
        )))
    }

    /// Refuses weights that do not fit the classes, or that the model would not use.
    pub(crate) fn check_weights(&self, class_weights: &[f32]) -> Result<(), TrainError> {
        let (classes, has_weights) = match &self.data {
            TrainingData::Images(set) => (Images::classes(&set.train), false),
            TrainingData::Examples(set) => (set.train.classes(), set.train.has_weights()),
            TrainingData::Rows(set) => (set.train.classes(), SparseRows::has_weights(&set.train)),
        };
        let wrong = |text: String| Err(TrainError::Settings(text));
        if !class_weights.is_empty() && class_weights.len() != classes {
            let given = class_weights.len();
            return wrong(format!(
                "class_weights has {given} numbers, but the data has {classes} classes; \
                 write one for each, in the order of the labels"
            ));
        }
        if (has_weights || !class_weights.is_empty()) && !self.small_model()?.uses_weights() {
            let whose = if has_weights { "examples" } else { "classes" };
            return wrong(format!(
                "the {whose} have weights, but this model ignores them; let Model::gradient \
                 multiply by Batch::weights, and Model::uses_weights return true"
            ));
        }
        Ok(())
    }
}

/// The number of values of an example, of each set.
fn sizes<T>(set: &TrainTest<T>, inputs: impl Fn(&T) -> usize) -> [Option<usize>; 3] {
    [Some(inputs(&set.train)), Some(inputs(&set.test)), set.validation.as_ref().map(inputs)]
}
