//! The trait that every model implements.

use crate::batch::Batch;
use crate::descent::InPlace;
use crate::graph::{OpNode, plain_graph};
use crate::kernels::OutputMode;
use crate::layout::Layout;
use crate::step_event::{LayerShape, StepEvent};
use crate::tally::Tally;

/// A function from parameters and a batch to a loss and its gradient.
///
/// A model holds no parameters: every call borrows them, because they live where the sharing mode
/// keeps them, in this process or on servers. It does hold scratch memory, allocated once when it
/// is built, which is why calls take `&mut self`. Calls with equal arguments return equal bits.
///
/// Five methods are required; the crate's documentation shows a whole perceptron.
pub trait Model: Send {
    /// The named tensors of the flat parameter slice.
    fn layout(&self) -> &Layout;

    /// The number of values of one example.
    fn inputs(&self) -> usize;

    /// Writes the values that training starts from; equal seeds give equal values.
    fn initialise(&self, seed: u64, params: &mut [f32]);

    /// Writes `share` times the gradient of the summed loss of a block's examples to `grad`, and
    /// returns `share` times that loss.
    ///
    /// A batch of n examples is cut into blocks of at most [`Model::max_block`], each with a share
    /// of 1/n: the first overwrites `grad`, the others add to it. Call
    /// [`mode.prepare(grad)`](OutputMode::prepare) first to treat both alike.
    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32;

    /// Counts the loss and the correct answers of a block's examples.
    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally);

    /// The largest block of examples that [`Model::gradient`] and [`Model::evaluate`] take.
    ///
    /// A good size keeps a block's values in the cache until the backward pass needs them.
    fn max_block(&self) -> usize {
        256
    }

    /// As [`Model::gradient`], with a call at every [`StepEvent`], which may come from another
    /// thread.
    ///
    /// By default a model counts as one layer, whose forward and backward pass end together.
    fn gradient_observed(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
        observe: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> f32 {
        let loss = self.gradient(params, block, share, mode, grad);
        observe(StepEvent::Forward { layer: 0 });
        observe(StepEvent::Final { range: 0..grad.len(), values: grad });
        loss
    }

    /// The layers that [`StepEvent`]s refer to by index.
    fn layer_shapes(&self) -> Vec<LayerShape> {
        vec![LayerShape { name: "model".into(), output: Vec::new() }]
    }

    /// This model as one that makes whole steps where the parameters live, if it can.
    ///
    /// That pays for large models: the memory of a whole gradient is saved.
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }

    /// The operations of the model and what feeds what, for TensorBoard's graph tab.
    ///
    /// By default one operation that takes the examples and all tensors of the layout.
    fn graph(&self) -> Vec<OpNode> {
        plain_graph(self.layout(), self.inputs())
    }
}
