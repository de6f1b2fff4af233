//! The parameters of a trained model that training starts from.
//!
//! A run may have more features than the model it starts from: then the tensors whose last
//! dimension is the number of features are longer, and the new values are those of a run without
//! a start. In a model with several parameters for each feature, it is the first dimension of the
//! first tensor. Anything else that differs is an error.
//!
//! Features are found by their numbers, or by [`FeatureMove`]s if their numbers changed.

use std::fmt;
use std::io;
use std::ops::Range;

use paceline_model::{KeyRun, Layout, Model, ParamTable, Tensor};

use crate::error::CheckpointError;

/// Parameters read at a time.
const PIECE: usize = 1 << 20;

/// Reads some values of a tensor, by its number and that of the first value.
type ReadTensor = dyn Fn(usize, usize, &mut [f32]) -> io::Result<()> + Send + Sync;

/// A trained model that training starts from.
pub struct StartModel {
    name: String,
    tensors: Vec<StartTensor>,
    read: Box<ReadTensor>,
    /// Where features are found, if they are not found by their numbers.
    moves: Option<FeatureMoves>,
}

/// Where the features of a run are in the model it starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FeatureMoves {
    /// The number of features of the model that training starts from.
    inputs: usize,
    moves: Vec<FeatureMove>,
}

/// Features of a run, and the first of them in the model it starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureMove {
    /// The features.
    pub to: Range<usize>,
    /// The first of them in the model that training starts from.
    pub from: usize,
}

/// A tensor of a [`StartModel`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartTensor {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl fmt::Debug for StartModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartModel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl StartModel {
    /// A model of these tensors. `name` is for messages, usually a path; `read` fills a slice with
    /// the values of a tensor, given the tensor's number and that of the first value.
    pub fn new(
        name: impl Into<String>,
        tensors: Vec<StartTensor>,
        read: impl Fn(usize, usize, &mut [f32]) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), tensors, read: Box::new(read), moves: None }
    }

    /// Finds features by these moves and not by their numbers. The model that training starts from
    /// has `inputs` features; features that no move names are new.
    #[must_use]
    pub fn moving_features(mut self, inputs: usize, moves: Vec<FeatureMove>) -> Self {
        self.moves = Some(FeatureMoves { inputs, moves });
        self
    }

    /// The model whose parameters a program has.
    ///
    /// # Panics
    /// If the layout is not that of the parameters.
    pub fn of_params(layout: &Layout, params: Vec<f32>) -> Self {
        assert_eq!(layout.len(), params.len(), "parameters");
        let (ranges, tensors) = layout
            .tensors()
            .iter()
            .map(|tensor| {
                let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
                (tensor.range.clone(), StartTensor { name, shape })
            })
            .collect::<(Vec<Range<usize>>, _)>();
        Self::new("the model that training starts from", tensors, move |tensor, from, out| {
            let values = &params[ranges[tensor].clone()];
            out.copy_from_slice(&values[from..from + out.len()]);
            Ok(())
        })
    }

    /// Replaces the initial parameters of `range`, which are in `params`.
    ///
    /// # Errors
    /// If the models differ in more than features, or values cannot be read.
    pub fn read_range(
        &self,
        model: &dyn Model,
        range: Range<usize>,
        params: &mut [f32],
    ) -> Result<(), CheckpointError> {
        for part in self.parts(model)? {
            let (rows, tensor) = (part.rows(), &part.tensor.range);
            let first = range.start.saturating_sub(tensor.start) / part.width.max(1);
            for row in first..rows {
                let start = tensor.start + row * part.width;
                if start >= range.end {
                    break;
                }
                for FeatureMove { to, from: known } in &part.moves {
                    let from = (start + to.start).max(range.start);
                    let end = (start + to.end).min(range.end);
                    if from >= end {
                        continue;
                    }
                    let at = row * part.known + known + from - start - to.start;
                    let out = &mut params[from - range.start..end - range.start];
                    (self.read)(part.number, at, out).map_err(|source| CheckpointError::Io {
                        what: format!("cannot read {}", self.name),
                        source,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Fills a table of zeros.
    ///
    /// # Errors
    /// As for [`StartModel::read_range`].
    pub fn fill(&self, model: &dyn Model, table: &ParamTable) -> Result<(), CheckpointError> {
        let width = table.width();
        let mut values = Vec::new();
        for KeyRun { keys, place } in table.key_runs() {
            let all = model.layout().params_of(keys);
            for from in all.clone().step_by(PIECE) {
                let piece = from..(from + PIECE).min(all.end);
                let at = place * width + from - all.start;
                values.clear();
                values.resize(piece.len(), 0.0);
                self.read_range(model, piece, &mut values)?;
                table.write_range(at..at + values.len(), &values);
            }
        }
        Ok(())
    }

    /// Where the values of each tensor of the model come from.
    fn parts<'m>(&'m self, model: &'m dyn Model) -> Result<Vec<TensorPart<'m>>, CheckpointError> {
        let (layout, inputs) = (model.layout(), model.inputs());
        let wrong = |text: String| CheckpointError::Refused(format!("{}: {text}", self.name));
        let known = |name: &str| layout.tensors().iter().any(|tensor| tensor.name == name);
        if let Some(other) = self.tensors.iter().find(|tensor| !known(&tensor.name)) {
            let StartTensor { name, shape } = other;
            return Err(wrong(format!(
                "it has a tensor {name:?} {shape:?}, which the model lacks"
            )));
        }
        let part = |(index, tensor): (usize, &'m Tensor)| {
            let (name, shape) = (&tensor.name, &tensor.shape);
            let Some(number) = self.tensors.iter().position(|found| found.name == *name) else {
                return Err(wrong(format!("it has no tensor {name:?}, which is {shape:?}")));
            };
            let found = &self.tensors[number].shape;
            let is_first = index == 0;
            let has_entries = layout.width() > 1;
            let [axes, found_axes] =
                [shape, found].map(|shape| Axes::of(shape, is_first && has_entries));
            let is_like =
                axes.features == inputs && axes.is_like(&found_axes) && (is_first || !has_entries);
            // Only the first tensor is applied to features.
            if let Some(FeatureMoves { inputs, moves }) = self.moves.as_ref().filter(|_| is_first) {
                if !is_like || found_axes.features != *inputs {
                    return Err(wrong(format!(
                        "tensor {name:?} is {found:?}, but the model has {shape:?}; features are \
                         matched by their columns only if each has as many parameters as before"
                    )));
                }
                return Ok(TensorPart::new(tensor, number, &axes, &found_axes, moves));
            }
            let is_grown = is_like && found_axes.features < axes.features;
            if shape != found && !is_grown {
                return Err(wrong(format!(
                    "tensor {name:?} is {found:?}, but the model has {shape:?}; only features may \
                     be added"
                )));
            }
            let same = FeatureMove { to: 0..found_axes.features, from: 0 };
            Ok(TensorPart::new(tensor, number, &axes, &found_axes, &[same]))
        };
        layout.tensors().iter().enumerate().map(part).collect()
    }
}

/// The dimensions of a tensor, before, along and after its features.
struct Axes<'s> {
    before: &'s [usize],
    features: usize,
    after: &'s [usize],
}

impl<'s> Axes<'s> {
    /// The first dimension, or the last one, may be that of the features.
    fn of(shape: &'s [usize], is_first: bool) -> Self {
        let (before, features, after) = match shape {
            [features, after @ ..] if is_first => (&[][..], *features, after),
            [before @ .., features] => (before, *features, &[][..]),
            [] => (&[][..], 1, &[][..]),
        };
        Self { before, features, after }
    }

    /// Whether the two differ in nothing but the number of features.
    fn is_like(&self, other: &Axes<'_>) -> bool {
        self.before == other.before && self.after == other.after
    }

    /// Numbers of a feature that lie side by side.
    fn numbers(&self) -> usize {
        self.after.iter().product()
    }
}

/// A tensor of the model, and where its values come from.
struct TensorPart<'m> {
    tensor: &'m Tensor,
    /// Its number in the model that training starts from.
    number: usize,
    /// The values of a row, which has all features.
    width: usize,
    /// The values of a row in the model that training starts from.
    known: usize,
    /// Where the values of a row come from.
    moves: Vec<FeatureMove>,
}

impl<'m> TensorPart<'m> {
    fn new(
        tensor: &'m Tensor,
        number: usize,
        axes: &Axes<'_>,
        found: &Axes<'_>,
        moves: &[FeatureMove],
    ) -> Self {
        let numbers = axes.numbers();
        let moves = moves.iter().map(|FeatureMove { to, from }| FeatureMove {
            to: to.start * numbers..to.end * numbers,
            from: from * numbers,
        });
        let [width, known] = [axes, found].map(|axes| axes.features * numbers);
        Self { tensor, number, width, known, moves: moves.collect() }
    }

    fn rows(&self) -> usize {
        self.tensor.range.len() / self.width.max(1)
    }
}

#[cfg(test)]
mod tests;
