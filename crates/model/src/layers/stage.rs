//! What a planned layer does in a step.

use crate::OutputMode;
use crate::crew::Crew;

/// What every layer works with.
pub(crate) struct Pass<'a> {
    /// The threads that share the work.
    pub(crate) crew: &'a Crew,
    /// How many examples there are.
    pub(crate) count: usize,
    /// What chance hangs on; none if nothing shall be left to it.
    pub(crate) draw: Option<u64>,
    /// Memory that holds nothing from one call to the next.
    pub(crate) scratch: &'a mut [f32],
}

/// A layer whose output lies elsewhere than its input.
pub(crate) trait Stage: Send + Sync {
    /// How much scratch memory it wants for so many examples.
    fn scratch(&self, _count: usize) -> usize {
        0
    }

    /// Output from input. What is there of the output's border stays as it is.
    fn forward(&self, pass: &mut Pass<'_>, params: &[f32], x: &[f32], y: &mut [f32]);

    /// The gradient by the parameters, from the one by the output.
    fn slope(
        &self,
        _pass: &mut Pass<'_>,
        _x: &[f32],
        _dy: &[f32],
        _onto: OutputMode,
        _: &mut [f32],
    ) {
    }

    /// How many numbers of the gradient by its so many parameters it makes at a time for
    /// [`Stage::slope_in_pieces`], with so many threads.
    fn piece(&self, params: usize, _threads: usize) -> usize {
        params
    }

    /// The same gradient as [`Stage::slope`] puts onto zero, made and handed on piece by piece:
    /// where each begins among the layer's parameters, and what it holds.
    fn slope_in_pieces(
        &self,
        pass: &mut Pass<'_>,
        x: &[f32],
        dy: &[f32],
        piece: &mut [f32],
        hand_on: &mut dyn FnMut(usize, &[f32]),
    ) {
        self.slope(pass, x, dy, OutputMode::Overwrite, piece);
        hand_on(0, piece);
    }

    /// The gradient by the input, from the one by the output. What it leaves in the border of
    /// `dx` has no meaning.
    fn back(&self, pass: &mut Pass<'_>, params: &[f32], from: Seen<'_>, dx: &mut [f32]);
}

/// What a layer's way back starts from.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// The input it had.
    pub(crate) x: &'a [f32],
    /// The output it gave.
    pub(crate) y: &'a [f32],
    /// The gradient by that output.
    pub(crate) dy: &'a [f32],
}

/// A layer that changes each value by itself, where it lies.
pub(crate) trait Map: Send + Sync {
    /// Turns input into output.
    fn forward(&self, pass: &mut Pass<'_>, y: &mut [f32]);

    /// Turns the gradient by the output into the one by the input, by what the output was.
    fn back(&self, pass: &mut Pass<'_>, y: &[f32], dy: &mut [f32]);
}
