//! A share of a batch of images in patches: the unit of work of one thread.
//!
//! A batch is cut into *lanes* by its size alone. A lane sums its gradient in memory of its own,
//! and the sums are added in the order of the lanes. So the bits of the result depend neither on
//! which thread takes which lane nor on the number of threads.

use std::ops::Range;

use crate::kernels::{
    OutputMode, PATCH_BLOCK, PatchScratch, PatchView, dense_backward_bias, patches_backward,
    patches_forward,
};
use crate::layers::loss::count_examples;
use crate::layers::weighted_cross_entropy;
use crate::tally::Tally;

/// The least examples of a batch of two lanes; larger batches have one lane for this many. Adding
/// up the lanes' sums makes more of them slower.
const LANE_EXAMPLES: usize = 256;
/// The most lanes of a block.
pub(super) const LANES: usize = 4;

/// A batch with the parameters and sizes of the model.
#[derive(Clone, Copy)]
pub(super) struct LaneTask<'a> {
    pub(super) inputs: usize,
    pub(super) classes: usize,
    pub(super) params: &'a [f32],
    pub(super) images: PatchView<'a>,
    pub(super) labels: &'a [u32],
    /// Empty if every weight is 1.
    pub(super) weights: &'a [f32],
    pub(super) share: f32,
}

impl LaneTask<'_> {
    /// The number of lanes of the batch.
    pub(super) fn lanes(&self) -> usize {
        match self.labels.len() {
            0..LANE_EXAMPLES => 1,
            many => (many / LANE_EXAMPLES).clamp(2, LANES),
        }
    }

    /// The examples of a lane.
    fn lane(&self, lane: usize) -> Range<usize> {
        even_part(self.labels.len(), lane, self.lanes())
    }

    /// A part of the examples.
    fn slice(&self, range: Range<usize>) -> Self {
        let images = PatchView { which: &self.images.which[range.clone()], ..self.images };
        let weights = if self.weights.is_empty() { &[] } else { &self.weights[range.clone()] };
        Self { images, labels: &self.labels[range], weights, ..*self }
    }
}

/// One of `parts` parts of `len` elements, as even as possible.
fn even_part(len: usize, index: usize, parts: usize) -> Range<usize> {
    index * len / parts..(index + 1) * len / parts
}

/// The memory of a lane and its results.
#[derive(Default)]
pub(super) struct Lane {
    scores: Vec<f32>,
    scratch: PatchScratch,
    /// Its gradient, unless it was written elsewhere.
    pub(super) grad: Vec<f32>,
    /// The sum of its losses.
    pub(super) loss: f32,
    pub(super) tally: Tally,
}

impl Lane {
    /// Computes the gradient of a lane into the lane's own memory.
    pub(super) fn gradient(&mut self, task: &LaneTask<'_>, lane: usize) {
        let mut grad = std::mem::take(&mut self.grad);
        grad.resize(task.params.len(), 0.0);
        self.gradient_into(task, lane, OutputMode::Overwrite, &mut grad);
        self.grad = grad;
    }

    /// Computes the gradient of a lane into a slice, block by block.
    pub(super) fn gradient_into(
        &mut self,
        task: &LaneTask<'_>,
        lane: usize,
        mut mode: OutputMode,
        grad: &mut [f32],
    ) {
        let (weights, bias) = grad.split_at_mut(task.classes * task.inputs);
        mode.prepare(bias);
        self.loss = 0.0;
        let range = task.lane(lane);
        let blocks = range.len().div_ceil(PATCH_BLOCK);
        for block in 0..blocks {
            let within = even_part(range.len(), block, blocks);
            let block = task.slice(range.start + within.start..range.start + within.end);
            self.score(&block);
            let scores = &mut self.scores;
            self.loss += weighted_cross_entropy(scores, block.labels, block.weights, block.share);
            dense_backward_bias(&self.scores, OutputMode::Add, bias);
            let scratch = &mut self.scratch;
            patches_backward(task.inputs, block.images, &self.scores, scratch, mode, weights);
            mode = OutputMode::Add;
        }
    }

    /// Counts the losses and correct answers of a lane. Its tally keeps scores if it did before.
    pub(super) fn evaluate(&mut self, task: &LaneTask<'_>, lane: usize) {
        self.tally.clear();
        let block = task.slice(task.lane(lane));
        self.score(&block);
        count_examples(&mut self.scores, block.labels, &mut self.tally);
    }

    fn score(&mut self, block: &LaneTask<'_>) {
        let (weights, bias) = block.params.split_at(block.classes * block.inputs);
        self.scores.resize(block.labels.len() * block.classes, 0.0);
        patches_forward(block.inputs, block.images, weights, bias, &mut self.scores);
    }
}
