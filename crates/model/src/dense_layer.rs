//! A dense layer as a building block of hand-written models.

use std::ops::Range;

use crate::kernels::{
    OutputMode, dense_backward_bias, dense_backward_inputs, dense_backward_weights, dense_forward,
};
use crate::layout::{Group, Layout};

/// A dense layer for a model of your own: it adds its tensors to the layout, and computes its part
/// of the gradient.
///
/// The layer holds the outputs of its last forward pass. On the way back they are replaced with the
/// derivative of the loss by them, layer by layer, from the last to the first:
///
/// ```
/// use paceline_model::{DenseLayer, Layout, OutputMode, softmax_cross_entropy};
///
/// let mut layout = Layout::new();
/// let mut hidden = DenseLayer::relu(&mut layout, "hidden", 2, 8);
/// let mut output = DenseLayer::linear(&mut layout, "output", 8, 3);
/// assert_eq!(layout.tensors()[3].name, "output.bias");
///
/// // Two examples of classes 0 and 2.
/// let (params, mut grad) = (vec![0.1; layout.len()], vec![0.0; layout.len()]);
/// let (values, labels) = ([0.5, 1.0, 2.0, 0.0], [0, 2]);
/// let hidden_values = hidden.forward(&params, &values);
/// let scores = output.forward(&params, hidden_values);
/// let loss = softmax_cross_entropy(scores, &labels, 0.5); // `scores` now hold derivatives,
/// output.backward(&params, hidden_values, OutputMode::Overwrite, &mut grad); // and so do these
/// hidden.param_gradient(&values, OutputMode::Overwrite, &mut grad);
/// assert!(loss > 0.0 && grad.iter().any(|&slope| slope != 0.0));
/// ```
#[derive(Clone, Debug)]
pub struct DenseLayer {
    inputs: usize,
    weight: Range<usize>,
    bias: Range<usize>,
    is_relu: bool,
    /// The outputs of the last forward pass, or the derivatives with respect to them.
    outputs: Vec<f32>,
    /// Which outputs the ReLU let through.
    active: Vec<bool>,
}

impl DenseLayer {
    /// A layer whose outputs are weighted sums of its inputs. Adds `<name>.weight` and
    /// `<name>.bias` to the layout.
    ///
    /// # Panics
    /// If the layout already has a tensor of that name.
    pub fn linear(layout: &mut Layout, name: &str, inputs: usize, outputs: usize) -> Self {
        layout.push(&format!("{name}.weight"), &[outputs, inputs], Group::Weights);
        layout.push(&format!("{name}.bias"), &[outputs], Group::Biases);
        let [.., weight, bias] = layout.tensors() else { unreachable!("two tensors were added") };
        Self {
            inputs,
            weight: weight.range.clone(),
            bias: bias.range.clone(),
            is_relu: false,
            outputs: Vec::new(),
            active: Vec::new(),
        }
    }

    /// As [`DenseLayer::linear`], with negative outputs replaced by zero.
    ///
    /// # Panics
    /// In the same case.
    pub fn relu(layout: &mut Layout, name: &str, inputs: usize, outputs: usize) -> Self {
        Self { is_relu: true, ..Self::linear(layout, name, inputs, outputs) }
    }

    /// Inputs per example.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Outputs per example.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// The outputs of the last forward pass, or the derivatives with respect to them.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.outputs
    }

    /// The outputs for a block of examples, one example after another. `params` are all parameters
    /// of the model.
    ///
    /// # Panics
    /// If `inputs` is not whole examples.
    pub fn forward(&mut self, params: &[f32], inputs: &[f32]) -> &mut [f32] {
        assert_eq!(inputs.len() % self.inputs, 0, "whole examples");
        self.outputs.resize(inputs.len() / self.inputs * self.bias.len(), 0.0);
        let (weight, bias) = (&params[self.weight.clone()], &params[self.bias.clone()]);
        dense_forward(self.inputs, inputs, weight, bias, &mut self.outputs);
        if self.is_relu {
            self.active.clear();
            self.active.extend(self.outputs.iter().map(|&output| output > 0.0));
            self.outputs.iter_mut().for_each(|output| *output = output.max(0.0));
        }
        &mut self.outputs
    }

    /// Writes the gradient of the layer's tensors to `grad`, the gradient of the whole model, and
    /// replaces `inputs` with the derivative of the loss by them.
    ///
    /// Before the call, the outputs of the last [`forward`](DenseLayer::forward) have been replaced
    /// with the derivative of the loss by them.
    pub fn backward(
        &mut self,
        params: &[f32],
        inputs: &mut [f32],
        mode: OutputMode,
        grad: &mut [f32],
    ) {
        self.param_gradient(inputs, mode, grad);
        dense_backward_inputs(self.inputs, &params[self.weight.clone()], &self.outputs, inputs);
    }

    /// As [`backward`](DenseLayer::backward), for the first layer: a model has no use for the
    /// derivative with respect to its examples.
    pub fn param_gradient(&mut self, inputs: &[f32], mode: OutputMode, grad: &mut [f32]) {
        for (delta, is_active) in self.outputs.iter_mut().zip(&self.active) {
            *delta = if *is_active { *delta } else { 0.0 };
        }
        let (outputs, delta) = (self.bias.len(), &self.outputs);
        let weight = &mut grad[self.weight.clone()];
        dense_backward_weights(self.inputs, outputs, inputs, delta, mode, weight);
        dense_backward_bias(delta, mode, &mut grad[self.bias.clone()]);
    }
}

#[cfg(test)]
mod tests;
