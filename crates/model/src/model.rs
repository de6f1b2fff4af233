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
/// Five methods are required. This is a perceptron with one hidden layer:
///
/// ```
/// use paceline_model::kernels::{
///     dense_backward_bias, dense_backward_inputs, dense_backward_weights, dense_forward,
/// };
/// use paceline_model::{
///     Batch, Group, Layout, Model, OutputMode, Tally, fill_uniform, softmax_cross_entropy,
/// };
///
/// #[derive(Clone)]
/// struct Perceptron {
///     sizes: [usize; 3], // inputs, hidden, classes
///     layout: Layout,
///     hidden: Vec<f32>,
///     scores: Vec<f32>,
///     delta: Vec<f32>,
/// }
///
/// impl Perceptron {
///     fn new(inputs: usize, hidden: usize, classes: usize) -> Self {
///         let mut layout = Layout::new();
///         layout.push("hidden.weight", &[hidden, inputs], Group::Weights);
///         layout.push("hidden.bias", &[hidden], Group::Biases);
///         layout.push("scores.weight", &[classes, hidden], Group::Weights);
///         layout.push("scores.bias", &[classes], Group::Biases);
///         let sizes = [inputs, hidden, classes];
///         Self { sizes, layout, hidden: vec![], scores: vec![], delta: vec![] }
///     }
///
///     fn forward(&mut self, params: &[f32], block: Batch<'_>) {
///         let [inputs, hidden, classes] = self.sizes;
///         let [w1, b1, w2, b2] = self.layout.split(params);
///         self.hidden.resize(block.len() * hidden, 0.0);
///         self.scores.resize(block.len() * classes, 0.0);
///         dense_forward(inputs, block.values(), w1, b1, &mut self.hidden);
///         self.hidden.iter_mut().for_each(|value| *value = value.max(0.0));
///         dense_forward(hidden, &self.hidden, w2, b2, &mut self.scores);
///     }
/// }
///
/// impl Model for Perceptron {
///     fn layout(&self) -> &Layout {
///         &self.layout
///     }
///
///     fn inputs(&self) -> usize {
///         self.sizes[0]
///     }
///
///     fn initialise(&self, seed: u64, params: &mut [f32]) {
///         for (index, tensor) in self.layout.tensors().iter().enumerate() {
///             let bound = 1.0 / (self.sizes[index / 2] as f32).sqrt();
///             fill_uniform(seed, index, bound, &mut params[tensor.range.clone()]);
///         }
///     }
///
///     fn gradient(
///         &mut self,
///         params: &[f32],
///         block: Batch<'_>,
///         share: f32,
///         mode: OutputMode,
///         grad: &mut [f32],
///     ) -> f32 {
///         self.forward(params, block);
///         let [inputs, hidden, classes] = self.sizes;
///         let loss = softmax_cross_entropy(&mut self.scores, block.labels, share);
///         let [_, _, w2, _] = self.layout.split(params);
///         let [w1_grad, b1_grad, w2_grad, b2_grad] = self.layout.split_mut(grad);
///         dense_backward_weights(hidden, classes, &self.hidden, &self.scores, mode, w2_grad);
///         dense_backward_bias(&self.scores, mode, b2_grad);
///         self.delta.resize(block.len() * hidden, 0.0);
///         dense_backward_inputs(hidden, w2, &self.scores, &mut self.delta);
///         for (delta, value) in self.delta.iter_mut().zip(&self.hidden) {
///             *delta = if *value > 0.0 { *delta } else { 0.0 };
///         }
///         dense_backward_weights(inputs, hidden, block.values(), &self.delta, mode, w1_grad);
///         dense_backward_bias(&self.delta, mode, b1_grad);
///         loss * share
///     }
///
///     fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
///         self.forward(params, block);
///         for (scores, &label) in self.scores.chunks(self.sizes[2]).zip(block.labels) {
///             tally.count_scores(scores, label);
///         }
///     }
/// }
///
/// // It learns exclusive or.
/// let (inputs, labels) = ([0., 0., 0., 1., 1., 0., 1., 1.], [0, 1, 1, 0]);
/// let batch = Batch::dense(&inputs, &labels);
/// let mut model = Perceptron::new(2, 16, 2);
/// let mut params = vec![0.0; model.layout().len()];
/// let mut grad = params.clone();
/// model.initialise(1, &mut params);
/// for _ in 0..500 {
///     model.gradient(&params, batch, 0.25, OutputMode::Overwrite, &mut grad);
///     params.iter_mut().zip(&grad).for_each(|(param, grad)| *param -= 0.5 * grad);
/// }
/// let mut tally = Tally::default();
/// model.evaluate(&params, batch, &mut tally);
/// assert_eq!(tally.accuracy(), 1.0);
/// ```
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
