//! Dense examples from any iterator, held in memory.

use crate::error::DataError;
use crate::examples::Examples;
use crate::hold_out::{choose_by_class, test_order};
use crate::train_test::TrainTest;

/// Dense examples held in memory: the way to train on data that a program already has.
///
/// ```
/// use paceline_data::InMemoryExamples;
///
/// // Any iterator of (values, label) does; values are arrays, vectors or slices of `f32`.
/// let points = (0..100).map(|i| {
///     let x = i as f32 / 100.0;
///     ([x, 1.0 - x], u32::from(x > 0.5))
/// });
/// let data = InMemoryExamples::from_rows(points)?.hold_out(20, 1)?;
/// assert_eq!((data.train.len(), data.test.len()), (80, 20));
/// assert_eq!((data.train.inputs(), data.train.classes()), (2, 2));
/// # use paceline_data::Examples as _;
/// # Ok::<(), paceline_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct InMemoryExamples {
    shape: [usize; 3],
    classes: usize,
    values: Vec<f32>,
    labels: Vec<u32>,
    /// A weight for each example; empty if they have none.
    weights: Vec<f32>,
}

impl InMemoryExamples {
    /// Collects examples, each its values and its label.
    ///
    /// The first example decides how many values every example has; the shape is `[1, 1, values]`
    /// until [`with_shape`](Self::with_shape) changes it. There are as many classes as the
    /// greatest label needs, unless [`with_classes`](Self::with_classes) says otherwise.
    ///
    /// # Errors
    /// If there is no example or more than 2^32 - 1 of them, the examples differ in length or
    /// have no values, or a value is infinite or not a number.
    pub fn from_rows<V: AsRef<[f32]>>(
        rows: impl IntoIterator<Item = (V, u32)>,
    ) -> Result<Self, DataError> {
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        let mut width = 0;
        for (index, (row, label)) in rows.into_iter().enumerate() {
            let row = row.as_ref();
            if index == 0 {
                width = row.len();
            }
            check_row(index, row, width)?;
            values.extend_from_slice(row);
            labels.push(label);
        }
        let Some(&greatest) = labels.iter().max() else {
            return Err(bad_examples("there is no example"));
        };
        let classes = greatest as usize + 1;
        Ok(Self { shape: [1, 1, width], classes, values, labels, weights: Vec::new() })
    }

    /// The same examples as images of these channels, rows and columns.
    ///
    /// # Errors
    /// If the product of the three is not the number of values of an example.
    pub fn with_shape(self, shape: [usize; 3]) -> Result<Self, DataError> {
        let [channels, rows, cols] = shape;
        let product = channels.checked_mul(rows).and_then(|area| area.checked_mul(cols));
        let width = self.inputs();
        if product != Some(width) {
            return Err(bad_examples(format!(
                "{width} values do not make up {channels} x {rows} x {cols}"
            )));
        }
        Ok(Self { shape, ..self })
    }

    /// The same examples with this number of classes, for data that lacks examples of some.
    ///
    /// # Errors
    /// If a label is not below `classes`.
    pub fn with_classes(self, classes: usize) -> Result<Self, DataError> {
        let beyond = self.labels.iter().position(|&label| label as usize >= classes);
        if let Some(index) = beyond {
            let label = self.labels[index];
            return Err(bad_examples(format!(
                "the label of example {index} is {label}, but there are only {classes} classes"
            )));
        }
        Ok(Self { classes, ..self })
    }

    /// The same examples with a weight each, by which loss and gradient are multiplied in training.
    ///
    /// # Errors
    /// If there is not a weight for each example, or one is negative, infinite or not a number.
    pub fn with_weights(self, weights: Vec<f32>) -> Result<Self, DataError> {
        let all = self.labels.len();
        if weights.len() != all {
            let given = weights.len();
            return Err(bad_examples(format!("{given} weights for {all} examples")));
        }
        match weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
            Some(at) => Err(bad_examples(format!("the weight of example {at} is {}", weights[at]))),
            None => Ok(Self { weights, ..self }),
        }
    }

    /// Splits off `test_examples` randomly drawn examples as a test set, from each class in
    /// proportion to its size. Equal seeds choose equal examples. The other examples keep their
    /// order.
    ///
    /// # Errors
    /// If no example would be left to train on.
    pub fn hold_out(self, test_examples: usize, seed: u64) -> Result<TrainTest<Self>, DataError> {
        let all = self.len();
        if test_examples >= all {
            return Err(bad_examples(format!(
                "{test_examples} of {all} examples cannot be held out to test on"
            )));
        }
        let held = choose_by_class(self.labels.iter().copied(), test_examples, seed);
        let mut is_held = vec![false; all];
        held.iter().for_each(|&example| is_held[example as usize] = true);
        let kept = (0..all).filter(|&example| !is_held[example]);
        let tested = test_order(held, seed).into_iter().map(|example| example as usize);
        Ok(TrainTest::new(self.select(kept), self.select(tested)))
    }

    /// A copy of these examples, in this order.
    fn select(&self, examples: impl Iterator<Item = usize> + Clone) -> Self {
        let width = self.inputs();
        let values = examples.clone().flat_map(|at| &self.values[at * width..(at + 1) * width]);
        Self {
            shape: self.shape,
            classes: self.classes,
            values: values.copied().collect(),
            labels: examples.clone().map(|at| self.labels[at]).collect(),
            weights: examples.filter_map(|at| self.weights.get(at).copied()).collect(),
        }
    }
}

fn check_row(index: usize, row: &[f32], width: usize) -> Result<(), DataError> {
    if u32::try_from(index).is_err() || index == u32::MAX as usize {
        return Err(bad_examples(format!("there are more than {} examples", u32::MAX)));
    }
    if row.is_empty() || row.len() != width {
        let len = row.len();
        return Err(bad_examples(match width {
            0 => "example 0 has no values".into(),
            _ => format!("example {index} has {len} values, but example 0 has {width}"),
        }));
    }
    match row.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(bad_examples(format!("value {at} of example {index} is {}", row[at]))),
        None => Ok(()),
    }
}

fn bad_examples(what: impl Into<String>) -> DataError {
    DataError::Examples { what: what.into() }
}

impl Examples for InMemoryExamples {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        Some(self.labels[example as usize])
    }

    fn has_weights(&self) -> bool {
        !self.weights.is_empty()
    }

    fn weight_of(&self, example: u32) -> f32 {
        self.weights.get(example as usize).copied().unwrap_or(1.0)
    }

    fn fill(&self, example: u32, _epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        let (example, width) = (example as usize, self.inputs());
        out.copy_from_slice(&self.values[example * width..(example + 1) * width]);
        Ok(self.labels[example])
    }
}

#[cfg(test)]
mod tests;
