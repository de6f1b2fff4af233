//! A step in two calls, layer by layer, so that communication overlaps with arithmetic.
//!
//! [`Model::gradient`](crate::Model::gradient) needs all parameters before it begins and gives
//! away nothing before it ends. A [`Layered`] model is less strict. Its forward pass asks for the
//! parameters of a layer when that layer's turn comes, and its backward pass hands out each layer's
//! gradient as soon as it is final, last layer first, and then the layer's parameters as soon as it
//! no longer needs them. So a gradient travels while those of earlier layers are computed, and
//! updated parameters arrive while later layers wait for theirs.
//!
//! The flat parameters are cut into pieces, one for each layer that has any ([`LayerPiece`]).
//! A step is
//!
//! ```text
//! forward_pass(block, share, |piece| wait for the parameters of this piece)
//! backward_pass(sink)
//!     for each piece, the last one first:
//!         sink.gradient(piece)         where the gradient goes, or None for factors
//!         sink.gradient_done(piece)    the gradient is final: send it
//!         sink.params(piece)           the parameters, for the gradient by the layer's input
//!         sink.params_done(piece)      not needed any more: update or overwrite them
//! ```
//!
//! with the loss and the gradient, bit for bit, of one call of `gradient` for the block. Between
//! the two calls no other call of the model is allowed.
//!
//! # Factors
//!
//! The gradient of a dense layer by its weights is the product of two thin matrices: the layer's
//! input and the loss's derivative with respect to its output, a row of each for every example. If
//! the sink has no place for a piece's gradient, it receives these factors ([`LayerSink::factors`])
//! and the gradient is not computed. With the factors of all workers, [`Layered::apply_factors`]
//! makes the update that the mean of their gradients would make, bit for bit.

use std::ops::Range;

use crate::batch::Batch;
use crate::optimizer::OptimizerState;
use crate::step_event::StepEvent;

/// The parameters of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerPiece {
    /// The layer's name.
    pub name: String,
    /// Its range of the flat parameters. Pieces follow each other without gaps.
    pub range: Range<usize>,
    /// The sizes of the layer's factors, if its gradient is a product of two.
    pub factors: Option<FactorSizes>,
}

/// The sizes of a dense layer's factors for one example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactorSizes {
    /// Values of the layer's input.
    pub inputs: usize,
    /// Values of its output.
    pub outputs: usize,
}

impl FactorSizes {
    /// The length of both factors together for `examples` examples.
    pub fn floats(self, examples: usize) -> usize {
        examples * (self.inputs + self.outputs)
    }
}

/// The factors of a layer's gradient over some examples.
#[derive(Clone, Copy, Debug)]
pub struct LayerFactors<'a> {
    /// The layer's input, example after example.
    pub inputs: &'a [f32],
    /// `share` times the derivative of the loss by the layer's output, example after example.
    pub deltas: &'a [f32],
}

/// The factors of one worker, with their weight in the mean.
#[derive(Clone, Copy, Debug)]
pub struct WeightedFactors<'a> {
    /// The factors.
    pub factors: LayerFactors<'a>,
    /// The weight of the worker's gradient.
    pub weight: f32,
}

/// An update of one layer by the mean of all workers' gradients, given as factors.
pub struct FactorUpdate<'a> {
    /// The index of the layer's piece.
    pub piece: usize,
    /// The factors of every worker that contributes, in the order of the mean's sum.
    pub workers: &'a [WeightedFactors<'a>],
    /// The parameters of the piece.
    pub params: &'a mut [f32],
    /// The optimizer, whose range begins with the first parameter of the model.
    pub optimizer: &'a mut OptimizerState,
    /// The number of updates made before this one.
    pub step: u64,
}

/// Gives the parameters of a piece when the forward pass needs them. It may wait; `None` abandons
/// the pass.
pub type PieceParams<'c, 'p> = &'c mut (dyn FnMut(usize) -> Option<&'p [f32]> + Send);

/// A model whose step can be made layer by layer.
pub trait Layered {
    /// The pieces, in the order of the flat parameters.
    fn pieces(&self) -> Vec<LayerPiece>;

    /// Computes `share` times the summed loss of a block of at least one example, and what the
    /// backward pass starts from. `None` if the pass was abandoned, by `params` or by the check of
    /// [`Model::stop_when`](crate::Model::stop_when).
    ///
    /// The calls to `params` and `observe` may come from another thread.
    fn forward_pass(
        &mut self,
        block: Batch<'_>,
        share: f32,
        params: PieceParams<'_, '_>,
        observe: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> Option<f32>;

    /// Computes the gradient of the last forward pass, the last piece first. The calls to `sink`
    /// and `observe` may come from another thread. Returns whether all of it is computed: `false`
    /// if the check of [`Model::stop_when`](crate::Model::stop_when) ended the pass between two
    /// layers.
    ///
    /// # Panics
    /// If the last call was not a forward pass that ended.
    fn backward_pass(
        &mut self,
        sink: &mut dyn LayerSink,
        observe: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> bool;

    /// Updates a layer by the mean of all workers' gradients, without ever holding a whole one.
    /// The bits are those of the gradients' weighted sum in the given order, followed by
    /// [`OptimizerState::apply`].
    ///
    /// # Panics
    /// If the piece has no factors, or factors or parameters do not have its sizes.
    fn apply_factors(&mut self, update: FactorUpdate<'_>);
}

/// Takes what a backward pass produces.
pub trait LayerSink: Send {
    /// Where the gradient of a piece goes, which is overwritten; `None` if the sink takes the
    /// factors instead.
    fn gradient(&mut self, piece: usize) -> Option<&mut [f32]>;

    /// The gradient of the piece is final.
    fn gradient_done(&mut self, piece: usize);

    /// The factors of a piece without a place for its gradient.
    fn factors(&mut self, piece: usize, factors: LayerFactors<'_>);

    /// The parameters of the piece, as the forward pass had them.
    fn params(&self, piece: usize) -> &[f32];

    /// The backward pass no longer needs the parameters of the piece.
    fn params_done(&mut self, piece: usize);
}
