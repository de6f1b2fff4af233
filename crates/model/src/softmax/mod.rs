//! Softmax regression: one dense layer, softmax and cross-entropy, with a closed-form gradient.
//!
//! Examples may be dense, or images of bytes that are mostly zero. Images are read in place,
//! without their empty patches, by several threads.

mod lane;
mod spin_pool;

use self::lane::{LANES, Lane, LaneTask};
pub use self::spin_pool::HELPER_THREADS;
use self::spin_pool::{LaneWork, SpinPool};
use crate::batch::{Batch, Inputs, SharedPatches};
use crate::graph::{OpNode, softmax_graph};
use crate::kernels::{
    OutputMode, PatchView, dense_backward_bias, dense_backward_weights, dense_forward, each,
};
use crate::layers::loss::count_examples;
use crate::layers::weighted_cross_entropy;
use crate::layout::{Group, Layout};
use crate::model::Model;
use crate::step_event::LayerShape;
use crate::tally::Tally;

/// Dense examples that go forward and backward together: this many of 28x28 pixels fill half of
/// the second-level cache.
const BLOCK: usize = 64;
/// Images in patches that threads divide among themselves.
const PATCHED_BLOCK: usize = 1_024;

/// Softmax regression over any number of inputs and classes, from an all-zero start.
///
/// Its tensors are `weight` (`[classes, inputs]`) and `bias` (`[classes]`), the shapes of
/// PyTorch's `Linear`.
pub struct Softmax {
    inputs: usize,
    classes: usize,
    layout: Layout,
    max_block: usize,
    /// The scores of a block of dense examples, later the gradient of the loss by them.
    scores: Vec<f32>,
    /// The lanes that the caller's thread computes.
    lanes: [Lane; LANES],
    spin_pool: Option<SpinPool>,
}

/// A clone computes on its caller's thread alone, with scratch memory of its own.
impl Clone for Softmax {
    fn clone(&self) -> Self {
        Self { max_block: self.max_block, ..Self::new(self.inputs, self.classes) }
    }
}

impl Softmax {
    /// A model for dense examples of `inputs` values.
    ///
    /// # Panics
    /// If one of the sizes is zero.
    pub fn new(inputs: usize, classes: usize) -> Self {
        assert!(inputs > 0 && classes > 0, "sizes must not be zero");
        let mut layout = Layout::new();
        layout.push("weight", &[classes, inputs], Group::Weights);
        layout.push("bias", &[classes], Group::Biases);
        let scores = vec![0.0; BLOCK * classes];
        let lanes = Default::default();
        Self { inputs, classes, layout, max_block: BLOCK, scores, lanes, spin_pool: None }
    }

    /// A model for images of `inputs` bytes in [`SharedPatches`], with `threads` threads.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    ///
    /// # Panics
    /// If one of the sizes is zero.
    pub fn for_patches(inputs: usize, classes: usize, threads: usize) -> Result<Self, String> {
        let spin_pool = (threads > 1).then(|| SpinPool::new(threads - 1)).transpose()?;
        Ok(Self { max_block: PATCHED_BLOCK, spin_pool, ..Self::new(inputs, classes) })
    }

    /// The scores of a block of dense examples, in scratch memory.
    fn score(&mut self, params: &[f32], block: Batch<'_>) -> &mut [f32] {
        assert_eq!(block.values().len(), block.len() * self.inputs, "inputs of the block");
        assert!(block.len() <= BLOCK, "a block of {} examples is too large", block.len());
        let scores = &mut self.scores[..block.len() * self.classes];
        let (weights, bias) = params.split_at(self.classes * self.inputs);
        dense_forward(self.inputs, block.values(), weights, bias, scores);
        scores
    }

    /// Computes the gradient of a block of dense examples; returns the sum of their losses.
    fn dense_gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        let (inputs, classes) = (self.inputs, self.classes);
        let (weights, bias) = grad.split_at_mut(classes * inputs);
        let delta = self.score(params, block);
        let loss = weighted_cross_entropy(delta, block.labels, block.weights, share);
        dense_backward_bias(delta, mode, bias);
        dense_backward_weights(inputs, classes, block.values(), delta, mode, weights);
        loss
    }

    /// Computes the gradient of a block of images: the first lane into `grad`, to which the others
    /// are added in order. Returns the sum of the losses.
    fn patches_gradient(
        &mut self,
        task: &LaneTask<'_>,
        images: SharedPatches<'_>,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        let lanes = task.lanes();
        let (first, rest) = self.lanes.split_at_mut(1);
        match &mut self.spin_pool {
            Some(spin_pool) if lanes > 1 => {
                spin_pool.compute(LaneWork::Gradient, task, images, |task| {
                    first[0].gradient_into(task, 0, mode, grad);
                });
                (1..lanes).fold(first[0].loss, |sum, lane| {
                    let lane = spin_pool.lane(lane);
                    add(&lane.grad, grad);
                    sum + lane.loss
                })
            }
            _ => {
                first[0].gradient_into(task, 0, mode, grad);
                (1..lanes).zip(rest).fold(first[0].loss, |sum, (index, lane)| {
                    lane.gradient(task, index);
                    add(&lane.grad, grad);
                    sum + lane.loss
                })
            }
        }
    }

    fn patches_evaluate(
        &mut self,
        task: &LaneTask<'_>,
        images: SharedPatches<'_>,
        tally: &mut Tally,
    ) {
        let lanes = task.lanes();
        self.lanes.iter_mut().for_each(|lane| lane.tally = tally.like());
        let (first, rest) = self.lanes.split_at_mut(1);
        match &mut self.spin_pool {
            Some(spin_pool) if lanes > 1 => {
                (1..lanes).for_each(|lane| spin_pool.lane(lane).tally = tally.like());
                spin_pool.compute(LaneWork::Score, task, images, |task| first[0].evaluate(task, 0));
                tally.add(&first[0].tally);
                (1..lanes).for_each(|lane| tally.add(&spin_pool.lane(lane).tally));
            }
            _ => {
                for (index, lane) in first.iter_mut().chain(rest).enumerate().take(lanes) {
                    lane.evaluate(task, index);
                    tally.add(&lane.tally);
                }
            }
        }
    }

    /// The task of a block of images.
    fn task<'a>(
        &self,
        params: &'a [f32],
        images: SharedPatches<'a>,
        block: Batch<'a>,
        share: f32,
    ) -> LaneTask<'a> {
        let Batch { labels, weights, .. } = block;
        assert!(
            labels.len() <= self.max_block,
            "a block of {} examples is too large",
            labels.len()
        );
        assert_eq!(images.which.len(), labels.len(), "labels of the block");
        let images = PatchView {
            words: (**images.words).as_ref(),
            starts: images.starts,
            which: images.which,
        };
        let (inputs, classes) = (self.inputs, self.classes);
        LaneTask { inputs, classes, params, images, labels, weights, share }
    }
}

/// Adds `from` to `to`.
fn add(from: &[f32], to: &mut [f32]) {
    each(
        #[inline(always)]
        || to.iter_mut().zip(from).for_each(|(to, from)| *to += from),
    );
}

impl Model for Softmax {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn known_classes(&self) -> Option<usize> {
        Some(self.classes)
    }

    fn max_block(&self) -> usize {
        self.max_block
    }

    fn initialise(&self, _seed: u64, params: &mut [f32]) {
        params.fill(0.0);
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        assert_eq!(params.len(), self.layout.len(), "parameters");
        assert_eq!(grad.len(), self.layout.len(), "gradient");
        let loss = match block.inputs {
            Inputs::Patches(images) => {
                let task = self.task(params, images, block, share);
                self.patches_gradient(&task, images, mode, grad)
            }
            _ => self.dense_gradient(params, block, share, mode, grad),
        };
        loss * share
    }

    fn uses_weights(&self) -> bool {
        true
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        vec![LayerShape { name: "softmax".into(), output: vec![self.classes] }]
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        assert_eq!(params.len(), self.layout.len(), "parameters");
        match block.inputs {
            Inputs::Patches(images) => {
                let task = self.task(params, images, block, 0.0);
                self.patches_evaluate(&task, images, tally);
            }
            _ => count_examples(self.score(params, block), block.labels, tally),
        }
    }

    fn graph(&self) -> Vec<OpNode> {
        let (inputs, classes) = (self.inputs, self.classes);
        let mut nodes = softmax_graph(inputs, classes, "MatMul", &[classes, inputs]);
        nodes.extend([
            OpNode::new("accuracy/class", "ArgMax", &["softmax/add"], &[-1]),
            OpNode::new("accuracy/hit", "Equal", &["accuracy/class", "input/labels"], &[-1]),
            OpNode::new("accuracy/mean", "Mean", &["accuracy/hit"], &[]),
        ]);
        nodes
    }
}

#[cfg(test)]
mod tests;
