//! A network: a list of layers whose shapes fit, as a model.
//!
//! Shapes, layout, cost, graph and all memory of a step are fixed when a network is built. Results
//! do not depend on the number of threads, because one thread takes each sum, in an order that
//! depends on the sizes alone.

mod architecture;
mod cost;
mod error;
mod executor;
mod graph;
mod initialisation;
mod plan;

use self::executor::{Executor, GradientSink};
use crate::batch::Batch;
use crate::descent::{Descent, InPlace};
use crate::graph::OpNode;
use crate::kernels::OutputMode;
use crate::layered::{FactorUpdate, LayerPiece, LayerSink, Layered, PieceParams};
use crate::layers::{Layer, Shape};
use crate::layout::Layout;
use crate::model::{Model, StopCheck};
use crate::step_event::{LayerShape, StepEvent};
use crate::tally::Tally;
use crate::thread_pool::ThreadPool;

pub use self::architecture::{Architecture, memory_text};
pub use self::cost::LayerCost;
pub use self::error::NetworkError;
pub use self::initialisation::Initialisation;

/// A model made of layers, with softmax and cross-entropy at its end.
///
/// Parameters start as [`Initialisation::Glorot`] has them; [`Network::initialised`] selects
/// another start.
///
/// ```
/// use paceline_model::{Layer, LayerKind, Model, Network, Shape};
///
/// let layers = vec![
///     Layer::dense("hidden", 32),
///     Layer::new("relu", LayerKind::Relu),
///     Layer::dense("scores", 10),
/// ];
/// let network = Network::new(Shape::flat(784), layers, 64, 1)?;
/// assert_eq!(network.layout().len(), 784 * 32 + 32 + 32 * 10 + 10);
/// # Ok::<(), paceline_model::NetworkError>(())
/// ```
pub struct Network {
    architecture: Architecture,
    initialisation: Initialisation,
    block: usize,
    pool: ThreadPool,
    executor: Executor,
}

impl Network {
    /// Checks the layers and plans the work for blocks of at most `block` examples.
    ///
    /// # Errors
    /// As [`Architecture::new`], and if `block` or `threads` is zero or the system refuses threads.
    pub fn new(
        input: Shape,
        layers: Vec<Layer>,
        block: usize,
        threads: usize,
    ) -> Result<Self, NetworkError> {
        Self::of(Architecture::new(input, layers)?, block, threads)
    }

    /// Plans the work of an architecture for blocks of at most `block` examples.
    ///
    /// # Errors
    /// If `block` or `threads` is zero or the system refuses threads.
    pub fn of(
        architecture: Architecture,
        block: usize,
        threads: usize,
    ) -> Result<Self, NetworkError> {
        let zeros = [(block, "the block"), (threads, "threads")];
        if let Some((_, what)) = zeros.into_iter().find(|&(size, _)| size == 0) {
            return Err(NetworkError::Zero(what));
        }
        let plan = plan::plan(architecture.layers(), architecture.shapes(), architecture.layout());
        let pool = ThreadPool::new(threads).map_err(NetworkError::Threads)?;
        let executor = Executor::new(plan, block, threads);
        let initialisation = Initialisation::default();
        Ok(Self { architecture, initialisation, block, pool, executor })
    }

    /// Makes parameters start in this way.
    #[must_use]
    pub fn initialised(self, initialisation: Initialisation) -> Self {
        Self { initialisation, ..self }
    }

    /// The layers, with the shapes between them.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The layers in order.
    pub fn layers(&self) -> &[Layer] {
        self.architecture.layers()
    }

    /// The shape of the input, and of each layer's output.
    pub fn shapes(&self) -> &[Shape] {
        self.architecture.shapes()
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.architecture.classes()
    }

    /// The cost of each layer.
    pub fn cost(&self) -> Vec<LayerCost> {
        self.architecture.cost()
    }

    fn check(&self, params: &[f32], block: Batch<'_>) {
        assert_eq!(params.len(), self.layout().len(), "parameters");
        self.check_block(block);
    }

    fn check_block(&self, block: Batch<'_>) {
        assert_eq!(block.values().len(), block.len() * self.inputs(), "inputs of the block");
        assert!(block.len() <= self.block, "a block of {} examples is too large", block.len());
    }
}

impl Model for Network {
    fn layout(&self) -> &Layout {
        self.architecture.layout()
    }

    fn inputs(&self) -> usize {
        self.shapes()[0].values()
    }

    fn known_classes(&self) -> Option<usize> {
        Some(self.classes())
    }

    fn max_block(&self) -> usize {
        self.block
    }

    fn initialise(&self, seed: u64, params: &mut [f32]) {
        assert_eq!(params.len(), self.layout().len(), "parameters");
        let (layers, shapes) = (self.layers(), self.shapes());
        let layers = layers.iter().zip(shapes);
        let groups = layers
            .filter(|(layer, shape)| layer.kind.tensors(**shape).is_some())
            .map(|(layer, _)| layer.kind.groups());
        self.initialisation.fill(self.layout(), groups, seed, params);
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        self.gradient_observed(params, block, share, mode, grad, &mut |_| {})
    }

    fn gradient_observed(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
        observe: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> f32 {
        self.check(params, block);
        assert_eq!(grad.len(), self.layout().len(), "gradient");
        if block.is_empty() {
            mode.prepare(grad);
            observe(StepEvent::Final { range: 0..grad.len(), values: grad });
            return 0.0;
        }
        let Self { pool, executor, .. } = self;
        let sink = GradientSink::Slice { params, mode, grad };
        pool.run(|| executor.gradient(pool, block, share, sink, observe))
    }

    fn stop_when(&mut self, stop: StopCheck) {
        self.executor.stop = Some(stop);
    }

    fn uses_weights(&self) -> bool {
        true
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        let layer = |(layer, shape): (&Layer, &Shape)| LayerShape {
            name: format!("{} {}", layer.name, layer.kind.name()),
            output: if shape.is_flat() {
                vec![shape.channels]
            } else {
                vec![shape.channels, shape.height, shape.width]
            },
        };
        self.layers().iter().zip(&self.shapes()[1..]).map(layer).collect()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        Some(self)
    }

    fn layered(&mut self) -> Option<&mut dyn Layered> {
        Some(self)
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        self.check(params, block);
        if block.is_empty() {
            return;
        }
        let Self { pool, executor, .. } = self;
        pool.run(|| executor.evaluate(pool, params, block, tally));
    }

    fn graph(&self) -> Vec<OpNode> {
        graph::graph(self.layers(), self.shapes())
    }
}

impl InPlace for Network {
    fn descend_observed(
        &mut self,
        descent: Descent<'_>,
        block: Batch<'_>,
        observe: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> f32 {
        self.check(descent.params, block);
        assert!(!block.is_empty(), "a step needs examples");
        let Self { pool, executor, .. } = self;
        let share = 1.0 / block.len() as f32;
        let sink = GradientSink::Parameters(descent);
        pool.run(|| executor.gradient(pool, block, share, sink, observe))
    }
}

impl Layered for Network {
    fn pieces(&self) -> Vec<LayerPiece> {
        self.executor.layer_pieces(|layer| &self.layers()[layer].name)
    }

    fn forward_pass(
        &mut self,
        block: Batch<'_>,
        share: f32,
        params: PieceParams<'_, '_>,
        observe: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> Option<f32> {
        self.check_block(block);
        assert!(!block.is_empty(), "a step needs examples");
        let Self { pool, executor, .. } = self;
        pool.run(|| executor.forward_pass(pool, block, share, params, observe))
    }

    fn backward_pass(
        &mut self,
        sink: &mut dyn LayerSink,
        observe: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> bool {
        let Self { pool, executor, .. } = self;
        pool.run(|| executor.backward(pool, GradientSink::Layers(sink), observe))
    }

    fn apply_factors(&mut self, update: FactorUpdate<'_>) {
        let Self { pool, executor, .. } = self;
        pool.run(|| executor.apply_factors(pool, update));
    }
}
