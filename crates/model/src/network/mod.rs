//! A network: a list of layers whose shapes fit, as a model.
//!
//! Everything is settled when a network is built: shapes, layout, cost, graph, and all the
//! memory a step needs. What comes out does not depend on the number of threads, because every
//! sum is taken by one thread in an order that the sizes fix.

mod graph;
mod memory;
mod plan;
mod run;

use std::ops::Range;

use crate::crew::Crew;
use crate::kernels::OutputMode;
use crate::layers::{Layer, LayerKind, Shape};
use crate::seed::fill_uniform;
use crate::{Batch, Descent, Group, InPlace, LayerShape, Layout, Model, OpNode, StepEvent, Tally};
use run::{Machine, Sink};

/// Why a list of layers is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A layer cannot take what the one before it gives.
    #[error("layer {name} ({word}), given {input}: {why}")]
    Layer {
        /// The layer's name.
        name: String,
        /// What it does.
        word: &'static str,
        /// The shape it is given.
        input: Shape,
        /// What is wrong with it.
        why: String,
    },
    /// Two layers could not be told apart.
    #[error("two layers are called {0}")]
    Twice(String),
    /// The last layer's output has no place for scores.
    #[error("the network ends in {0}, not in a flat row of scores: add a dense layer")]
    Scores(Shape),
    /// Nothing to train.
    #[error("the network has no parameters")]
    Empty,
    /// A size that must not be zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// The system gave no threads.
    #[error("no threads to compute with: {0}")]
    Threads(String),
}

/// A model made of layers, with softmax and cross-entropy at its end.
///
/// Parameters start as PyTorch's do: weights and biases of a layer evenly spread between
/// `-1 / sqrt(n)` and `1 / sqrt(n)`, where n is the number of inputs of one of its outputs.
pub struct Network {
    layers: Vec<Layer>,
    /// The input's shape, and each layer's output.
    shapes: Vec<Shape>,
    layout: Layout,
    block: usize,
    crew: Crew,
    machine: Machine,
}

/// What a layer costs, an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerCost {
    /// The layer's name.
    pub name: String,
    /// What it does.
    pub kind: &'static str,
    /// Floating-point operations forward; a multiplication and an addition are two. Layers
    /// without parameters count as one for each value that they read.
    pub forward: u64,
    /// The same backward. The first layer needs no gradient by its input.
    pub backward: u64,
    /// Its parameters.
    pub params: Range<usize>,
    /// The product that its way forward is, an example: `[rows, columns, depth]`; for layers
    /// that are none, zeros.
    pub product: [usize; 3],
}

impl Network {
    /// Checks the layers and plans the work for blocks of at most `block` examples.
    pub fn new(
        input: Shape,
        layers: Vec<Layer>,
        block: usize,
        threads: usize,
    ) -> Result<Self, NetworkError> {
        let zeros = [(input.values(), "the input"), (block, "the block"), (threads, "threads")];
        if let Some((_, what)) = zeros.into_iter().find(|&(size, _)| size == 0) {
            return Err(NetworkError::Zero(what));
        }
        let shapes = shapes(input, &layers)?;
        let mut layout = Layout::new();
        for (layer, &input) in layers.iter().zip(&shapes) {
            if let Some((weights, biases)) = layer.kind.tensors(input) {
                layout.push(&format!("{}.weight", layer.name), &weights, Group::Weights);
                layout.push(&format!("{}.bias", layer.name), &[biases], Group::Biases);
            }
        }
        if layout.is_empty() {
            return Err(NetworkError::Empty);
        }
        let (tasks, places) = plan::plan(&layers, &shapes, &layout);
        let crew = Crew::new(threads).map_err(NetworkError::Threads)?;
        let machine = Machine::new(tasks, places, block, threads);
        Ok(Self { layers, shapes, layout, block, crew, machine })
    }

    /// The layers.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The input's shape, and that of each layer's output.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// How many classes it tells apart.
    pub fn classes(&self) -> usize {
        self.shapes.last().map_or(0, Shape::values)
    }

    /// What each layer costs.
    pub fn cost(&self) -> Vec<LayerCost> {
        let mut tensors = self.layout.tensors().chunks_exact(2);
        let mut is_first = true;
        let mut cost = |(index, layer): (usize, &Layer)| {
            let (input, output) = (self.shapes[index], self.shapes[index + 1]);
            let mut cost = LayerCost {
                name: layer.name.clone(),
                kind: layer.kind.word(),
                forward: reads(layer.kind, input, output) as u64,
                backward: 0,
                params: 0..0,
                product: [0; 3],
            };
            cost.backward = if is_first { 0 } else { cost.forward };
            if let Some((weights, _)) = layer.kind.tensors(input) {
                let depth = weights[1..].iter().product::<usize>();
                let pixels = output.height * output.width;
                cost.product = [pixels, output.channels, depth];
                cost.forward = 2 * (pixels * output.channels * depth) as u64;
                cost.backward = cost.forward * if is_first { 1 } else { 2 };
                is_first = false;
                if let Some(pair) = tensors.next() {
                    cost.params = pair[0].range.start..pair[1].range.end;
                }
            }
            cost
        };
        self.layers.iter().enumerate().map(&mut cost).collect()
    }

    /// Stops at once if a call makes no sense.
    fn check(&self, params: &[f32], block: Batch<'_>) {
        assert_eq!(params.len(), self.layout.len(), "parameters");
        assert_eq!(block.values().len(), block.len() * self.inputs(), "inputs of the block");
        assert!(block.len() <= self.block, "a block of {} examples is too large", block.len());
    }
}

impl Model for Network {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.shapes[0].values()
    }

    fn max_block(&self) -> usize {
        self.block
    }

    fn initialise(&self, seed: u64, params: &mut [f32]) {
        assert_eq!(params.len(), self.layout.len(), "parameters");
        for (index, pair) in self.layout.tensors().chunks_exact(2).enumerate() {
            let inputs = pair[0].shape[1..].iter().product::<usize>();
            let bound = 1.0 / (inputs as f32).sqrt();
            for (tensor, number) in pair.iter().zip(2 * index..) {
                fill_uniform(seed, number, bound, &mut params[tensor.range.clone()]);
            }
        }
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
        assert_eq!(grad.len(), self.layout.len(), "gradient");
        if block.is_empty() {
            mode.prepare(grad);
            observe(StepEvent::Final { range: 0..grad.len(), values: grad });
            return 0.0;
        }
        let Self { crew, machine, .. } = self;
        let sink = Sink::Gradient { params, mode, grad };
        crew.enter(|| machine.gradient(crew, (block, share), sink, observe))
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        let layer = |(layer, shape): (&Layer, &Shape)| LayerShape {
            name: format!("{} {}", layer.name, layer.kind.word()),
            output: match shape.is_flat() {
                true => vec![shape.channels],
                false => vec![shape.channels, shape.height, shape.width],
            },
        };
        self.layers.iter().zip(&self.shapes[1..]).map(layer).collect()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        Some(self)
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        self.check(params, block);
        if block.is_empty() {
            return;
        }
        let Self { crew, machine, .. } = self;
        crew.enter(|| machine.evaluate(crew, params, block, tally));
    }

    fn graph(&self) -> Vec<OpNode> {
        graph::graph(&self.layers, &self.shapes)
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
        assert!(!block.is_empty(), "no examples to make a step with");
        let Self { crew, machine, .. } = self;
        let share = 1.0 / block.len() as f32;
        let sink = Sink::Parameters(descent);
        crew.enter(|| machine.gradient(crew, (block, share), sink, observe))
    }
}

/// The shapes from the input to the scores, if all layers fit.
fn shapes(input: Shape, layers: &[Layer]) -> Result<Vec<Shape>, NetworkError> {
    let mut shapes = vec![input];
    let mut last = input;
    for (index, Layer { name, kind }) in layers.iter().enumerate() {
        if layers[..index].iter().any(|other| other.name == *name) {
            return Err(NetworkError::Twice(name.clone()));
        }
        last = kind.output(last).map_err(|why| NetworkError::Layer {
            name: name.clone(),
            word: kind.word(),
            input: last,
            why,
        })?;
        shapes.push(last);
    }
    if last.is_flat() { Ok(shapes) } else { Err(NetworkError::Scores(last)) }
}

/// How many values a layer without parameters reads.
fn reads(kind: LayerKind, input: Shape, output: Shape) -> usize {
    match kind {
        LayerKind::MaxPool(windows) | LayerKind::AveragePool(windows) => {
            output.values() * windows.kernel[0] * windows.kernel[1]
        }
        LayerKind::Flatten => 0,
        _ => input.values(),
    }
}
