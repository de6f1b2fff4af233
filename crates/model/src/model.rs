//! What every model must be able to do. The way in for models of your own.

use std::ops::Range;

use crate::kernels::Onto;
use crate::{Batch, InPlace, LayerShape, Layout, Moment, Node, Tally};

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

    /// The largest block of examples that [`Model::gradient`] and [`Model::evaluate`] take.
    /// Scratch memory is planned for it, and a good model chooses it so that a block's values
    /// are still in the cache when the gradient needs them again.
    fn max_block(&self) -> usize;

    /// Writes the values that training starts from; equal seeds give equal values.
    fn initialise(&self, seed: u64, params: &mut [f32]);

    /// Puts `share` times the gradient of the summed loss of a block's examples onto `grad`,
    /// and returns `share` times that loss.
    ///
    /// A batch of n examples is as many blocks as it takes, each with a share of 1/n: the
    /// first onto zero, the rest onto what is there.
    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        onto: Onto,
        grad: &mut [f32],
    ) -> f32;

    /// The same as [`Model::gradient`], with a call at every [`Moment`], which may come from
    /// another thread. A model of one layer goes forward and back together, and says so at the end.
    fn gradient_followed(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        (onto, grad): (Onto, &mut [f32]),
        watch: &mut (dyn FnMut(Moment<'_>) + Send),
    ) -> f32 {
        let loss = self.gradient(params, block, share, onto, grad);
        watch(Moment::Forward { layer: 0 });
        watch(Moment::Final { range: 0..grad.len(), values: grad });
        loss
    }

    /// The same as [`Model::gradient`], with a call as soon as part of the gradient will not
    /// change any more in this call: which part, and what it holds. So it can be sent while the
    /// rest is computed. Parts come with the end of the slice first, without gaps, each once.
    fn gradient_watched(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        onto_grad: (Onto, &mut [f32]),
        finished: &mut (dyn FnMut(Range<usize>, &[f32]) + Send),
    ) -> f32 {
        self.gradient_followed(params, block, share, onto_grad, &mut |moment| {
            if let Moment::Final { range, values } = moment {
                finished(range, values);
            }
        })
    }

    /// The layers that [`Moment`]s name by their numbers.
    fn layer_shapes(&self) -> Vec<LayerShape> {
        Vec::new()
    }

    /// This model as one that makes whole steps where the parameters live; none if it has no use
    /// for that, as small ones, for which a gradient is no burden.
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }

    /// Counts loss and hits over a block, without a gradient.
    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally);

    /// The model as a graph of operations, for people to look at.
    fn graph(&self) -> Vec<Node>;
}
