//! The events of a step that an observer sees.
//!
//! A model reads no clock. An observer that wants to know how long an operation takes is called
//! at its end ([`Model::gradient_observed`](crate::Model::gradient_observed)) and reads the clock
//! itself. Without an observer the events cost nothing.

use std::ops::Range;

/// A point of a step.
#[derive(Clone, Debug)]
pub enum StepEvent<'a> {
    /// The input has been copied into the model's memory.
    Input,
    /// A layer's output is complete.
    Forward {
        /// The layer's index in [`Model::layer_shapes`](crate::Model::layer_shapes).
        layer: usize,
    },
    /// The loss and its gradient by the scores are complete.
    Loss,
    /// Part of the gradient is final: this call does not change it any more. The parts cover the
    /// gradient without gaps, each once, from its end to its start.
    Final {
        /// Which part of the flat slice.
        range: Range<usize>,
        /// The gradient of that part.
        values: &'a [f32],
    },
    /// A layer's backward pass is complete.
    Backward {
        /// The layer's index in [`Model::layer_shapes`](crate::Model::layer_shapes).
        layer: usize,
    },
}

/// A layer as observers show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// The layer's name and what it does.
    pub name: String,
    /// The sizes of its output for one example.
    pub output: Vec<usize>,
}
