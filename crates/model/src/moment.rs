//! The points of a step that somebody outside may want to know of.
//!
//! A model reads no clock. Whoever wants to know what its operations take is called at the end of
//! each ([`Model::gradient_followed`](crate::Model::gradient_followed)) and reads one; whoever does
//! not pays nothing for it.

use std::ops::Range;

/// A point of a step, for whoever wants to follow it.
#[derive(Clone, Debug)]
pub enum Moment<'a> {
    /// The input has been taken in.
    Input,
    /// A layer's output is there.
    Forward {
        /// The layer's number.
        layer: usize,
    },
    /// The loss is there, and the gradient by the scores.
    Loss,
    /// Part of the gradient will not change any more in this call. The last layer's comes first.
    Final {
        /// Which part of the flat slice.
        range: Range<usize>,
        /// What it holds.
        values: &'a [f32],
    },
    /// A layer's way back is done.
    Backward {
        /// The layer's number.
        layer: usize,
    },
}

/// A layer as whoever follows a step knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// What it is called, and what it does.
    pub name: String,
    /// The sizes of its output for one example.
    pub output: Vec<usize>,
}
