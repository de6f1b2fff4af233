//! What every model must be able to do. The way in for models of your own.

use crate::{Batch, Layout, Node, Tally};

/// A pure function from parameters and a batch to a loss and its gradient.
///
/// A model holds no parameters: they are lent to it for each call, because they live where
/// the mode keeps them, in this process or on servers. What it does hold is scratch memory,
/// planned once when it is built, which is why the calls take `&mut self`. A call with equal
/// arguments gives equal bits.
pub trait Model: Send {
    /// The named tensors of the flat parameter slice.
    fn layout(&self) -> &Layout;

    /// How many values one example has.
    fn inputs(&self) -> usize;

    /// The largest batch that [`Model::gradient`] and [`Model::evaluate`] take.
    fn max_batch(&self) -> usize;

    /// Writes the values that training starts from; equal seeds give equal values.
    fn initialise(&self, seed: u64, params: &mut [f32]);

    /// Writes the gradient of the batch's mean loss into `grad` and returns that loss.
    fn gradient(&mut self, params: &[f32], batch: Batch<'_>, grad: &mut [f32]) -> f32;

    /// Counts loss and hits over the batch, without a gradient.
    fn evaluate(&mut self, params: &[f32], batch: Batch<'_>, tally: &mut Tally);

    /// The model as a graph of operations, for people to look at.
    fn graph(&self) -> Vec<Node>;
}
