//! The layers that networks are made of.
//!
//! A [`Layer`] is a description: a name, by which files and graphs refer to it, and a
//! [`LayerKind`] with its sizes. [`Network`](crate::Network) checks that each output fits the next
//! input and plans the work; the other modules compute each kind forward and backward.

pub(crate) mod activation;
pub(crate) mod conv;
mod conv_grad_tiles;
mod conv_weight_grad;
pub(crate) mod dense;
pub(crate) mod dropout;
pub(crate) mod flatten;
pub(crate) mod grouped_conv;
mod layer;
pub(crate) mod layer_op;
pub(crate) mod loss;
pub(crate) mod plane_conv;
pub(crate) mod pool;
mod shape;
mod windows;
pub(crate) mod winograd;

pub use crate::kernels::{softmax_cross_entropy, weighted_cross_entropy};
pub use dropout::DropoutMask;
pub(crate) use layer::LayerTensors;
pub use layer::{Layer, LayerKind};
pub(crate) use shape::PaddedShape;
pub use shape::Shape;
pub use windows::Windows;
