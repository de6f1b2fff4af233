//! The parameters of a trained model that training starts from.
//!
//! A run may have more features than the model it starts from: then the tensors whose last
//! dimension is the number of features are longer, and the new values are those of a run without
//! a start. Anything else that differs is an error.
//!
//! Features are found by their numbers, or by [`FeatureMove`]s if their numbers changed.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;

use paceline_model::{KeyRun, Layout, Model, ParamTable, Tensor};

use crate::error::TrainError;

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
    pub(crate) fn read_range(
        &self,
        model: &dyn Model,
        range: Range<usize>,
        params: &mut [f32],
    ) -> Result<(), TrainError> {
        for part in self.parts(model)? {
            let (rows, tensor) = (part.rows(), &part.tensor.range);
            let first = range.start.saturating_sub(tensor.start) / part.width.max(1);
            for row in first..rows {
                let start = tensor.start + row * part.width;
                if start >= range.end {
                    break;
                }
                for FeatureMove { to, from: known } in &*part.moves {
                    let from = (start + to.start).max(range.start);
                    let end = (start + to.end).min(range.end);
                    if from >= end {
                        continue;
                    }
                    let at = row * part.known + known + from - start - to.start;
                    let out = &mut params[from - range.start..end - range.start];
                    (self.read)(part.number, at, out).map_err(|source| TrainError::Io {
                        what: format!("cannot read {}", self.name),
                        source,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Fills a table of zeros.
    pub(crate) fn fill(&self, model: &dyn Model, table: &ParamTable) -> Result<(), TrainError> {
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
    fn parts<'m>(&'m self, model: &'m dyn Model) -> Result<Vec<TensorPart<'m>>, TrainError> {
        let (layout, inputs) = (model.layout(), model.inputs());
        let wrong = |text: String| TrainError::Settings(format!("{}: {text}", self.name));
        let known = |name: &str| layout.tensors().iter().any(|tensor| tensor.name == name);
        if let Some(other) = self.tensors.iter().find(|tensor| !known(&tensor.name)) {
            let StartTensor { name, shape } = other;
            return Err(wrong(format!(
                "it has a tensor {name:?} {shape:?}, and the model has not"
            )));
        }
        let part = |(index, tensor): (usize, &'m Tensor)| {
            let (name, shape) = (&tensor.name, &tensor.shape);
            let Some(number) = self.tensors.iter().position(|found| found.name == *name) else {
                return Err(wrong(format!("it has no tensor {name:?}, which is {shape:?}")));
            };
            let found = &self.tensors[number].shape;
            let [width, known] = [shape, found].map(|shape| shape.last().copied().unwrap_or(1));
            let leading = |shape: &[usize]| shape[..shape.len().saturating_sub(1)].to_vec();
            let is_like = width == inputs && leading(shape) == leading(found);
            // Only the first tensor is applied to features.
            if let Some(FeatureMoves { inputs, moves }) = self.moves.as_ref().filter(|_| index == 0)
            {
                if !is_like || known != *inputs {
                    return Err(wrong(format!(
                        "tensor {name:?} is {found:?}, but the model has {shape:?}; features are \
                         matched by their columns only if the model begins with a dense layer \
                         of the same size"
                    )));
                }
                return Ok(TensorPart {
                    tensor,
                    number,
                    width,
                    known,
                    moves: Cow::Borrowed(moves),
                });
            }
            let is_grown = is_like && known < width;
            if shape != found && !is_grown {
                return Err(wrong(format!(
                    "tensor {name:?} is {found:?}, but the model has {shape:?}; only features may \
                     be added"
                )));
            }
            let moves = Cow::Owned(vec![FeatureMove { to: 0..known, from: 0 }]);
            Ok(TensorPart { tensor, number, width, known, moves })
        };
        layout.tensors().iter().enumerate().map(part).collect()
    }
}

/// A tensor of the model, and where its values come from.
struct TensorPart<'m> {
    tensor: &'m Tensor,
    /// Its number in the model that training starts from.
    number: usize,
    /// Its last dimension.
    width: usize,
    /// The last dimension in the model that training starts from.
    known: usize,
    /// Where the values of a row come from.
    moves: Cow<'m, [FeatureMove]>,
}

impl TensorPart<'_> {
    fn rows(&self) -> usize {
        self.tensor.range.len() / self.width.max(1)
    }
}

#[cfg(test)]
mod tests;
