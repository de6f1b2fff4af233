//! What a planned layer does in a step.

use crate::kernels::{AlignedBuffer, OutputMode};
use crate::layered::{FactorSizes, WeightedFactors};
use crate::thread_pool::ThreadPool;

/// What every layer works with.
pub(crate) struct LayerPass<'a> {
    /// The threads that share the work.
    pub(crate) pool: &'a ThreadPool,
    /// The number of examples.
    pub(crate) count: usize,
    /// Memory whose content is not kept from one call to the next.
    pub(crate) scratch: &'a mut [f32],
    /// What follows in place. A layer calls it once for each example that it has written, with the
    /// example's index and its numbers, while they are in the cache.
    pub(crate) finish: FinishFn<'a>,
}

/// Work on an example that a layer has just written.
pub(crate) type FinishFn<'a> = &'a (dyn Fn(usize, &mut [f32]) + Sync);

/// A layer that writes its output to a buffer other than its input's.
pub(crate) trait BufferedLayer: Send + Sync {
    /// The scratch memory that a pass over `count` examples needs, in numbers.
    fn scratch(&self, _count: usize) -> usize {
        0
    }

    /// Computes the output from the input, and finishes it. It leaves the border of `y` as it is.
    fn forward(&self, pass: &mut LayerPass<'_>, params: &[f32], x: &[f32], y: &mut [f32]);

    /// Computes the gradient by the parameters from the gradient by the output.
    fn param_gradient(
        &self,
        _pass: &mut LayerPass<'_>,
        _x: &[f32],
        _dy: &[f32],
        _mode: OutputMode,
        _grad: &mut [f32],
    ) {
    }

    /// The length of the buffer for [`BufferedLayer::param_gradient_pieces`], for a layer of
    /// `params` parameters.
    fn piece(&self, params: usize, _threads: usize) -> usize {
        params
    }

    /// Computes the same gradient as [`BufferedLayer::param_gradient`] piece by piece. Calls
    /// `emit` with the index of a piece's first parameter in the layer, and its gradient.
    fn param_gradient_pieces(
        &self,
        pass: &mut LayerPass<'_>,
        x: &[f32],
        dy: &[f32],
        piece: &mut [f32],
        emit: &mut dyn FnMut(usize, &[f32]),
    ) {
        self.param_gradient(pass, x, dy, OutputMode::Overwrite, piece);
        emit(0, piece);
    }

    /// The sizes of the factors of the gradient by the parameters, if it is a product of two.
    fn factor_sizes(&self) -> Option<FactorSizes> {
        None
    }

    /// Computes the weighted mean of several workers' gradients from their factors, piece by piece,
    /// as [`BufferedLayer::param_gradient_pieces`] does for one. Only a layer with
    /// [`BufferedLayer::factor_sizes`] is asked.
    fn mean_gradient_pieces(
        &self,
        _pool: &ThreadPool,
        _workers: &[WeightedFactors<'_>],
        _scratch: &mut FactorScratch,
        _emit: &mut dyn FnMut(usize, &[f32]),
    ) {
        unreachable!("a layer without factors")
    }

    /// Computes the gradient by the input from the gradient by the output, and finishes it. The
    /// border of `dx` is unspecified afterwards.
    fn input_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        params: &[f32],
        inputs: BackwardInputs<'_>,
        dx: &mut [f32],
    );
}

/// Memory for [`BufferedLayer::mean_gradient_pieces`], which is allocated at the first update and
/// whose content is not kept from one call to the next.
#[derive(Default)]
pub(crate) struct FactorScratch {
    /// The packed inputs of each worker.
    pub(crate) packed: Vec<AlignedBuffer>,
    /// A piece of the mean.
    pub(crate) mean: AlignedBuffer,
    /// The same piece of one worker's gradient.
    pub(crate) single: AlignedBuffer,
}

/// What a layer's backward pass starts from.
#[derive(Clone, Copy)]
pub(crate) struct BackwardInputs<'a> {
    /// The input of the forward pass.
    pub(crate) x: &'a [f32],
    /// The output of the forward pass.
    pub(crate) y: &'a [f32],
    /// The gradient by that output.
    pub(crate) dy: &'a [f32],
}

/// A layer that changes each value of an example by itself, in place.
///
/// `draw` is the seed of the example's random numbers; `None` outside training.
pub(crate) trait ElementwiseLayer: Send + Sync {
    /// Turns the input into the output.
    fn forward(&self, draw: Option<u64>, y: &mut [f32]);

    /// Turns the gradient by the output into the gradient by the input, given the output.
    fn input_gradient(&self, draw: Option<u64>, y: &[f32], dy: &mut [f32]);
}
