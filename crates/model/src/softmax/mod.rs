//! Softmax regression: one dense layer, softmax and cross-entropy, with a closed-form gradient.
//!
//! Examples may be dense, or bytes that are mostly zero. Those are worked on where they lie, with
//! their empty patches left out, by as many threads as there are.

mod gang;
mod lane;

use self::gang::{Gang, Wanted};
use self::lane::{LANES, Lane, Task};
use crate::kernels::{OutputMode, PatchView, dense_backward_weights, dense_forward, each};
use crate::layers::loss::{count, softmax_cross_entropy};
use crate::{Batch, Group, Inputs, LayerShape, Layout, Model, OpNode, SharedPatches, Tally};

/// Dense examples that go forward and backward together: 28x28 pixels of so many fill half a
/// processor's second-level cache.
const BLOCK: usize = 64;
/// Patchy examples that are shared out to threads together.
const PATCHY_BLOCK: usize = 1_024;

/// Softmax regression over any number of inputs and classes, from an all-zero start.
///
/// Its tensors are `weight` (`[classes, inputs]`) and `bias` (`[classes]`), the shapes that
/// PyTorch's `Linear` has.
pub struct Softmax {
    inputs: usize,
    classes: usize,
    layout: Layout,
    /// The most examples of a block.
    most: usize,
    /// Scores of a block of dense examples, then the gradient of the loss by them.
    scores: Vec<f32>,
    /// The memory of lanes that are done on the caller's thread.
    lanes: [Lane; LANES],
    gang: Option<Gang>,
}

impl Softmax {
    /// A model for examples of `inputs` values.
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
        Self { inputs, classes, layout, most: BLOCK, scores, lanes, gang: None }
    }

    /// A model for examples that are [`SharedPatches`], with so many threads.
    ///
    /// # Errors
    /// If the system has no more threads.
    ///
    /// # Panics
    /// If one of the sizes is zero.
    pub fn for_patches(inputs: usize, classes: usize, threads: usize) -> Result<Self, String> {
        let gang = (threads > 1).then(|| Gang::new(threads - 1)).transpose()?;
        Ok(Self { most: PATCHY_BLOCK, gang, ..Self::new(inputs, classes) })
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

    /// The gradient of a block of dense examples, put onto `grad`, and the sum of their losses.
    fn dense_gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        onto: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        let (inputs, classes) = (self.inputs, self.classes);
        let (weights, bias) = grad.split_at_mut(classes * inputs);
        if onto == OutputMode::Overwrite {
            bias.fill(0.0);
        }
        let delta = self.score(params, block);
        let loss = softmax_cross_entropy(delta, block.labels, share);
        for row in delta.chunks_exact(classes) {
            bias.iter_mut().zip(row).for_each(|(sum, delta)| *sum += delta);
        }
        dense_backward_weights(inputs, classes, block.values(), delta, onto, weights);
        loss
    }

    /// The same of patchy examples: lane by lane, the first onto `grad`, the others onto that.
    fn patchy_gradient(
        &mut self,
        task: &Task<'_>,
        images: SharedPatches<'_>,
        onto: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        let lanes = task.lanes();
        let (first, rest) = self.lanes.split_at_mut(1);
        match &mut self.gang {
            Some(gang) if lanes > 1 => {
                gang.work(Wanted::Gradient, task, images, |task| {
                    first[0].gradient_onto(task, 0, onto, grad);
                });
                (1..lanes).fold(first[0].loss, |sum, lane| {
                    let lane = gang.lane(lane);
                    add(&lane.grad, grad);
                    sum + lane.loss
                })
            }
            _ => {
                first[0].gradient_onto(task, 0, onto, grad);
                (1..lanes).zip(rest).fold(first[0].loss, |sum, (index, lane)| {
                    lane.gradient(task, index);
                    add(&lane.grad, grad);
                    sum + lane.loss
                })
            }
        }
    }

    fn patchy_evaluate(&mut self, task: &Task<'_>, images: SharedPatches<'_>, tally: &mut Tally) {
        let lanes = task.lanes();
        let (first, rest) = self.lanes.split_at_mut(1);
        match &mut self.gang {
            Some(gang) if lanes > 1 => {
                gang.work(Wanted::Score, task, images, |task| first[0].evaluate(task, 0));
                tally.add(&first[0].tally);
                (1..lanes).for_each(|lane| tally.add(&gang.lane(lane).tally));
            }
            _ => {
                for (index, lane) in first.iter_mut().chain(rest).enumerate().take(lanes) {
                    lane.evaluate(task, index);
                    tally.add(&lane.tally);
                }
            }
        }
    }

    /// What is to be done with patchy examples.
    fn task<'a>(
        &self,
        params: &'a [f32],
        images: SharedPatches<'a>,
        labels: &'a [u32],
        share: f32,
    ) -> Task<'a> {
        assert!(labels.len() <= self.most, "a block of {} examples is too large", labels.len());
        assert_eq!(images.which.len(), labels.len(), "labels of the block");
        let images = PatchView {
            words: (**images.words).as_ref(),
            starts: images.starts,
            which: images.which,
        };
        Task { inputs: self.inputs, classes: self.classes, params, images, labels, share }
    }
}

/// Adds one slice to another.
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

    fn max_block(&self) -> usize {
        self.most
    }

    fn initialise(&self, _seed: u64, params: &mut [f32]) {
        params.fill(0.0);
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        onto: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        assert_eq!(params.len(), self.layout.len(), "parameters");
        assert_eq!(grad.len(), self.layout.len(), "gradient");
        let loss = match block.inputs {
            Inputs::Patches(images) => {
                let task = self.task(params, images, block.labels, share);
                self.patchy_gradient(&task, images, onto, grad)
            }
            _ => self.dense_gradient(params, block, share, onto, grad),
        };
        loss * share
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        vec![LayerShape { name: "softmax".into(), output: vec![self.classes] }]
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        assert_eq!(params.len(), self.layout.len(), "parameters");
        match block.inputs {
            Inputs::Patches(images) => {
                let task = self.task(params, images, block.labels, 0.0);
                self.patchy_evaluate(&task, images, tally);
            }
            _ => count(self.score(params, block), block, tally),
        }
    }

    fn graph(&self) -> Vec<OpNode> {
        let (inputs, classes) = (self.inputs as i64, self.classes as i64);
        vec![
            OpNode::new("input/examples", "Placeholder", &[], &[-1, inputs]),
            OpNode::new("input/labels", "Placeholder", &[], &[-1]),
            OpNode::new("softmax/weight", "VariableV2", &[], &[classes, inputs]),
            OpNode::new("softmax/bias", "VariableV2", &[], &[classes]),
            OpNode::new(
                "softmax/scores",
                "MatMul",
                &["input/examples", "softmax/weight"],
                &[-1, classes],
            ),
            OpNode::new(
                "softmax/add",
                "BiasAdd",
                &["softmax/scores", "softmax/bias"],
                &[-1, classes],
            ),
            OpNode::new(
                "loss/cross_entropy",
                "SparseSoftmaxCrossEntropyWithLogits",
                &["softmax/add", "input/labels"],
                &[-1],
            ),
            OpNode::new("loss/mean", "Mean", &["loss/cross_entropy"], &[]),
            OpNode::new("accuracy/class", "ArgMax", &["softmax/add"], &[-1]),
            OpNode::new("accuracy/hit", "Equal", &["accuracy/class", "input/labels"], &[-1]),
            OpNode::new("accuracy/mean", "Mean", &["accuracy/hit"], &[]),
        ]
    }
}

#[cfg(test)]
mod tests;
