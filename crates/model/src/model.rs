//! The trait that every model implements.

use std::sync::Arc;

use crate::batch::Batch;
use crate::descent::InPlace;
use crate::graph::{OpNode, plain_graph};
use crate::kernels::OutputMode;
use crate::layered::Layered;
use crate::layout::{Group, Layout};
use crate::seed::fill_uniform;
use crate::step_event::{LayerShape, StepEvent};
use crate::tally::Tally;

/// Says whether the step that is being computed is not needed any more.
pub type StopCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// A function from parameters and a batch to a loss and its gradient.
///
/// A model holds no parameters: every call borrows them, because they live where the sharing mode
/// keeps them, in this process or on servers. It does hold scratch memory, allocated once when it
/// is built, which is why calls take `&mut self`. Calls with equal arguments return equal bits.
///
/// Four methods are required. This is a perceptron with one hidden layer, of two [`DenseLayer`]s:
///
/// ```
/// use paceline_model::{
///     Batch, DenseLayer, Layout, Model, OutputMode, Tally, softmax_cross_entropy,
/// };
///
/// #[derive(Clone)]
/// struct Perceptron {
///     layout: Layout,
///     hidden: DenseLayer,
///     output: DenseLayer,
/// }
///
/// impl Perceptron {
///     fn new(inputs: usize, hidden: usize, classes: usize) -> Self {
///         let mut layout = Layout::new();
///         Self {
///             hidden: DenseLayer::relu(&mut layout, "hidden", inputs, hidden),
///             output: DenseLayer::linear(&mut layout, "output", hidden, classes),
///             layout,
///         }
///     }
/// }
///
/// impl Model for Perceptron {
///     fn layout(&self) -> &Layout {
///         &self.layout
///     }
///
///     fn inputs(&self) -> usize {
///         self.hidden.inputs()
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
///         let hidden = self.hidden.forward(params, block.values());
///         let scores = self.output.forward(params, hidden);
///         let loss = softmax_cross_entropy(scores, block.labels, share);
///         self.output.backward(params, hidden, mode, grad);
///         self.hidden.param_gradient(block.values(), mode, grad);
///         loss * share
///     }
///
///     fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
///         let hidden = self.hidden.forward(params, block.values());
///         tally.count_block(self.output.forward(params, hidden), block.labels);
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
///
/// [`DenseLayer`]: crate::DenseLayer
pub trait Model: Send {
    /// The named tensors of the flat parameter slice.
    fn layout(&self) -> &Layout;

    /// The number of values of one example.
    fn inputs(&self) -> usize;

    /// The number of classes that the model tells apart, if it is known. A session then refuses
    /// data with more classes before it starts.
    fn known_classes(&self) -> Option<usize> {
        None
    }

    /// Writes the values that training starts from; equal seeds give equal values.
    ///
    /// By default biases are zero, and weights are spread evenly between `-1/√n` and `1/√n`, where
    /// `n` is the number of weights that go into one output: all dimensions of the tensor except
    /// the first, or the only one.
    fn initialise(&self, seed: u64, params: &mut [f32]) {
        for (index, tensor) in self.layout().tensors().iter().enumerate() {
            let values = &mut params[tensor.range.clone()];
            if tensor.group == Group::Biases {
                values.fill(0.0);
                continue;
            }
            let inputs: usize = match &tensor.shape[..] {
                [_, inputs @ ..] if !inputs.is_empty() => inputs.iter().product(),
                shape => shape.iter().product(),
            };
            fill_uniform(seed, index, 1.0 / (inputs.max(1) as f32).sqrt(), values);
        }
    }

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

    /// Whether [`Model::gradient`] multiplies the loss and the gradient of each example by its
    /// [weight](Batch::weights). A run with weights refuses a model that does not. The sum is
    /// still multiplied by `share` alone: a mean over examples, not over weights.
    fn uses_weights(&self) -> bool {
        false
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

    /// Asks for an early end of steps that take long: once `stop` says so, [`Model::gradient`] may
    /// return at any point, and a step in place before it changes a parameter. Its loss is then not
    /// a number, and what it has written is not used.
    ///
    /// By default every step is completed.
    fn stop_when(&mut self, _stop: StopCheck) {}

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

    /// This model as one whose step is made layer by layer, if it can be.
    ///
    /// That pays where gradients travel: they do so while others are computed.
    fn layered(&mut self) -> Option<&mut dyn Layered> {
        None
    }

    /// The operations of the model and what feeds what, for TensorBoard's graph tab.
    ///
    /// By default one operation that takes the examples and all tensors of the layout.
    fn graph(&self) -> Vec<OpNode> {
        plain_graph(self.layout(), self.inputs())
    }
}
