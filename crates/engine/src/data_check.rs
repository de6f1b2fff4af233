//! Checks that a model can be trained on its data: the sizes, the classes, and the weights.

use paceline_data::{Examples, Images, SparseRows, TrainTest};

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

    /// Refuses data with more classes than the model tells apart, and labels beyond the data's own
    /// classes where they are known without reading examples.
    pub(crate) fn check_labels(&self) -> Result<(), TrainError> {
        let classes = match &self.data {
            TrainingData::Images(set) => sizes(set, Images::classes),
            TrainingData::Examples(set) => {
                let sets = [Some(&set.train), Some(&set.test), set.validation.as_ref()];
                sets.into_iter().flatten().try_for_each(|set| check_known_labels(&**set))?;
                sizes(set, |examples| examples.classes())
            }
            TrainingData::Rows(set) => sizes(set, SparseRows::classes),
        };
        let Some(known) = self.small_model()?.known_classes() else { return Ok(()) };
        let Some(has) = classes.into_iter().flatten().max().filter(|&has| has > known) else {
            return Ok(());
        };
        let classes = if known == 1 { "class" } else { "classes" };
        Err(TrainError::Settings(format!(
            "the model tells {known} {classes} apart, but the data has {has}"
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
            let numbers = if given == 1 { "number" } else { "numbers" };
            return wrong(format!(
                "class_weights has {given} {numbers}, but the data has {classes} classes; \
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

/// Refuses a label that is not below the number of classes, if it is known without reading its
/// example.
fn check_known_labels(examples: &dyn Examples) -> Result<(), TrainError> {
    let classes = examples.classes();
    let labels = (0..examples.len() as u32).map_while(|example| examples.class_of(example));
    match labels.enumerate().find(|(_, label)| *label as usize >= classes) {
        None => Ok(()),
        Some((example, label)) => Err(TrainError::Settings(format!(
            "the label of example {example} is {label}, but there are only {classes} classes"
        ))),
    }
}

/// A number of each set.
fn sizes<T>(set: &TrainTest<T>, size: impl Fn(&T) -> usize) -> [Option<usize>; 3] {
    [Some(size(&set.train)), Some(size(&set.test)), set.validation.as_ref().map(size)]
}
