//! A share of a batch of patchy examples: what one thread does at a time.
//!
//! A batch is cut into *lanes* by its size alone. A lane sums its gradient in memory of its own, and
//! the lanes' sums are added in their order. So it does not matter which thread takes which lane,
//! nor how many threads there are: what comes out has the same bits.

use std::ops::Range;

use crate::kernels::{
    OutputMode, PATCH_BLOCK, PatchScratch, PatchView, patches_backward, patches_forward,
};
use crate::layers::loss::{count, softmax_cross_entropy};
use crate::{Batch, Tally};

/// From so many examples on there are two lanes; from three times as many, one for so many. Each
/// lane is one more to add up.
const WORTH: usize = 256;
/// The most lanes of a block.
pub(super) const LANES: usize = 4;

/// A batch, and what it is to be worked on with.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) inputs: usize,
    pub(super) classes: usize,
    pub(super) params: &'a [f32],
    pub(super) images: PatchView<'a>,
    pub(super) labels: &'a [u32],
    pub(super) share: f32,
}

impl Task<'_> {
    /// How many lanes the batch has.
    pub(super) fn lanes(&self) -> usize {
        match self.labels.len() {
            0..WORTH => 1,
            many => (many / WORTH).clamp(2, LANES),
        }
    }

    /// The examples of a lane.
    fn lane(&self, lane: usize) -> Range<usize> {
        part(self.labels.len(), lane, self.lanes())
    }

    /// Some of the examples.
    fn cut(&self, range: Range<usize>) -> Self {
        let images = PatchView { which: &self.images.which[range.clone()], ..self.images };
        Self { images, labels: &self.labels[range], ..*self }
    }
}

/// One of so many parts of `len` things, which are as even as can be.
fn part(len: usize, index: usize, parts: usize) -> Range<usize> {
    index * len / parts..(index + 1) * len / parts
}

/// The memory of a lane, with what came of it.
#[derive(Default)]
pub(super) struct Lane {
    scores: Vec<f32>,
    scratch: PatchScratch,
    /// Its gradient, unless it was put elsewhere.
    pub(super) grad: Vec<f32>,
    /// The sum of its losses.
    pub(super) loss: f32,
    pub(super) tally: Tally,
}

impl Lane {
    /// The gradient of a lane, in the lane's own memory.
    pub(super) fn gradient(&mut self, task: &Task<'_>, lane: usize) {
        let mut grad = std::mem::take(&mut self.grad);
        grad.resize(task.params.len(), 0.0);
        self.gradient_onto(task, lane, OutputMode::Overwrite, &mut grad);
        self.grad = grad;
    }

    /// The same, put onto something, block by block.
    pub(super) fn gradient_onto(
        &mut self,
        task: &Task<'_>,
        lane: usize,
        mut onto: OutputMode,
        grad: &mut [f32],
    ) {
        let (weights, bias) = grad.split_at_mut(task.classes * task.inputs);
        if onto == OutputMode::Overwrite {
            bias.fill(0.0);
        }
        self.loss = 0.0;
        let range = task.lane(lane);
        let blocks = range.len().div_ceil(PATCH_BLOCK);
        for block in 0..blocks {
            let within = part(range.len(), block, blocks);
            let block = task.cut(range.start + within.start..range.start + within.end);
            self.score(&block);
            self.loss += softmax_cross_entropy(&mut self.scores, block.labels, task.share);
            for row in self.scores.chunks_exact(task.classes) {
                bias.iter_mut().zip(row).for_each(|(sum, delta)| *sum += delta);
            }
            let scratch = &mut self.scratch;
            patches_backward(task.inputs, block.images, &self.scores, scratch, onto, weights);
            onto = OutputMode::Add;
        }
    }

    /// Counts losses and hits of a lane.
    pub(super) fn evaluate(&mut self, task: &Task<'_>, lane: usize) {
        self.tally = Tally::default();
        let block = task.cut(task.lane(lane));
        self.score(&block);
        count(&mut self.scores, Batch::dense(&[], block.labels), &mut self.tally);
    }

    fn score(&mut self, block: &Task<'_>) {
        let (weights, bias) = block.params.split_at(block.classes * block.inputs);
        self.scores.resize(block.labels.len() * block.classes, 0.0);
        patches_forward(block.inputs, block.images, weights, bias, &mut self.scores);
    }
}
