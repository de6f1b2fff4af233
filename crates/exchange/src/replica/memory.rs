//! The memory that a step reads and writes.
//!
//! A replica owns its parameters, and the caller the gradient. During a step in pieces the
//! computing thread uses most of both, and gives them away layer by layer; then everything that a
//! step needs is in the caller's hands.

use std::ops::Range;

/// Gives a replica the memory of a step. A replica asks only for ranges inside one piece.
///
/// The *output* of a step is what updated chunks carry: the parameters, or the mean gradient if
/// every worker makes the whole update ([`ReplicaConfig::sends_means`]).
///
/// [`ReplicaConfig::sends_means`]: super::ReplicaConfig::sends_means
pub trait StepMemory {
    /// A range of this worker's gradient, which has been handed in.
    fn gradient(&self, range: Range<usize>) -> &[f32];

    /// A range of the step's output; `None` if the replica has it.
    fn output(&self, _range: Range<usize>) -> Option<&[f32]> {
        None
    }

    /// The same, to be written. It has been handed in and not been released.
    fn output_mut(&mut self, _range: Range<usize>) -> Option<&mut [f32]> {
        None
    }

    /// A range of this worker's factors of a piece, which have been handed in.
    fn own_factors(&self, _piece: usize, _range: Range<usize>) -> &[f32] {
        &[]
    }

    /// A range of the memory for another worker's factors of a piece.
    fn peer_factors(&mut self, _piece: usize, _slot: usize, _range: Range<usize>) -> &mut [f32] {
        &mut []
    }
}

/// The memory of a step at once: a whole gradient, next to the replica's own parameters.
#[derive(Clone, Copy, Debug)]
pub struct WholeGradient<'a>(pub &'a [f32]);

impl WholeGradient<'_> {
    /// No gradient, as between two steps.
    pub fn none() -> Self {
        WholeGradient(&[])
    }
}

impl StepMemory for WholeGradient<'_> {
    fn gradient(&self, range: Range<usize>) -> &[f32] {
        &self.0[range]
    }
}
