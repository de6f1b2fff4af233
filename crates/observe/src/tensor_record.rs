//! The tensors of a model at one step, for histograms and norms.

/// The tensors of a step.
#[derive(Clone, Copy, Debug)]
pub struct TensorRecord<'a> {
    /// The global step of the parameters.
    pub step: u64,
    /// The tensors.
    pub tensors: &'a [TensorValues<'a>],
}

/// The values of a tensor.
#[derive(Clone, Copy, Debug)]
pub struct TensorValues<'a> {
    /// What the values are.
    pub kind: TensorKind,
    /// The tensor's name, as in `model.safetensors`.
    pub name: &'a str,
    /// The values; of a sparse model those that the batch touched.
    pub values: &'a [f32],
}

/// What the values of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// Parameters.
    Weights,
    /// The gradient of the worker's batch.
    Gradients,
}

impl TensorKind {
    /// The word that tags have for it.
    pub fn name(self) -> &'static str {
        match self {
            TensorKind::Weights => "weights",
            TensorKind::Gradients => "gradients",
        }
    }
}
