//! Activations: ReLU and tanh, value by value, in place.

use super::layer_op::ElementwiseLayer;
use crate::kernels::{each, relu, relu_gradient, tanh};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    Relu,
    Tanh,
}

impl ElementwiseLayer for Activation {
    fn forward(&self, _: Option<u64>, y: &mut [f32]) {
        match self {
            Activation::Relu => relu(y),
            Activation::Tanh => tanh(y),
        }
    }

    fn input_gradient(&self, _: Option<u64>, y: &[f32], dy: &mut [f32]) {
        match self {
            Activation::Relu => relu_gradient(y, dy),
            Activation::Tanh => each(
                #[inline(always)]
                || dy.iter_mut().zip(y).for_each(|(dy, y)| *dy *= 1.0 - y * y),
            ),
        }
    }
}
