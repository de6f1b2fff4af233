//! The values that the training of a network starts from.

use crate::layout::{Layout, Tensor};
use crate::seed::fill_uniform;

/// How the initial weights of a network are spread.
///
/// Each weight is uniform between a bound and its negative. The bound depends on the layer's
/// number of inputs and outputs: the values that enter one output, and those that one input
/// enters.
///
/// A layer changes the variance of its values by `inputs * bound² / 3`, and ReLU halves what
/// comes out of it, as far as its inputs are independent. Neighbours in a picture are not: there
/// [`He`](Self::He) makes values grow from layer to layer, and [`Glorot`](Self::Glorot) keeps
/// them in range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initialisation {
    /// `sqrt(6 / (inputs + outputs))`, and biases of zero: keeps the variance of values and of
    /// gradients through layers without ReLU.
    #[default]
    Glorot,
    /// `sqrt(6 / inputs)`, and biases of zero: keeps the variance of independent values through
    /// ReLU.
    He,
    /// `1 / sqrt(inputs)`, for weights and biases: as PyTorch's layers start. The variance shrinks
    /// to a sixth in every layer with ReLU, so deep networks learn slowly at first.
    PyTorch,
}

impl Initialisation {
    /// The initial values of all tensors, which are pairs of weights and biases. `groups` has the
    /// number of groups of each pair's layer.
    pub(super) fn fill(
        self,
        layout: &Layout,
        groups: impl Iterator<Item = usize>,
        seed: u64,
        params: &mut [f32],
    ) {
        for ((index, pair), groups) in layout.tensors().chunks_exact(2).enumerate().zip(groups) {
            let (weights, biases) = (&pair[0], &pair[1]);
            let bound = self.bound(weights, groups);
            fill_uniform(seed, 2 * index, bound, &mut params[weights.range.clone()]);
            let biases_bound = if self == Self::PyTorch { bound } else { 0.0 };
            fill_uniform(seed, 2 * index + 1, biases_bound, &mut params[biases.range.clone()]);
        }
    }

    fn bound(self, weights: &Tensor, groups: usize) -> f32 {
        let inputs = weights.shape[1..].iter().product::<usize>() as f32;
        // One input of a convolution enters every output of its group, once for each place in the
        // kernel.
        let kernel = weights.shape.iter().skip(2).product::<usize>() as f32;
        let outputs = (weights.shape[0] / groups) as f32 * kernel;
        match self {
            Self::He => (6.0 / inputs).sqrt(),
            Self::Glorot => (6.0 / (inputs + outputs)).sqrt(),
            Self::PyTorch => 1.0 / inputs.sqrt(),
        }
    }
}
