//! A two-layer perceptron of your own: what the three `perceptron_*` examples train.

use paceline::model::kernels::{dense_backward_inputs, dense_backward_weights, dense_forward};
use paceline::prelude::*;

#[derive(Clone)]
pub(crate) struct Perceptron {
    layout: Layout,
    sizes: [usize; 3], // inputs, hidden, classes
    zeros: Vec<f32>,   // the biases
    hidden: Vec<f32>,
    scores: Vec<f32>,
    delta: Vec<f32>,
}

impl Perceptron {
    pub(crate) fn new(inputs: usize, hidden: usize, classes: usize) -> Self {
        let mut layout = Layout::new();
        layout.push("hidden", &[hidden, inputs], Group::Weights);
        layout.push("output", &[classes, hidden], Group::Weights);
        let (sizes, zeros) = ([inputs, hidden, classes], vec![0.0; hidden.max(classes)]);
        Self { layout, sizes, zeros, hidden: vec![], scores: vec![], delta: vec![] }
    }

    fn forward(&mut self, params: &[f32], block: Batch<'_>) {
        let [inputs, hidden, classes] = self.sizes;
        let [first, second] = self.layout.split(params);
        self.hidden.resize(block.len() * hidden, 0.0);
        self.scores.resize(block.len() * classes, 0.0);
        dense_forward(inputs, block.values(), first, &self.zeros[..hidden], &mut self.hidden);
        self.hidden.iter_mut().for_each(|value| *value = value.max(0.0));
        dense_forward(hidden, &self.hidden, second, &self.zeros[..classes], &mut self.scores);
    }
}

impl Model for Perceptron {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.sizes[0]
    }

    fn initialise(&self, seed: u64, params: &mut [f32]) {
        let [first, second] = self.layout.split_mut(params);
        fill_uniform(seed, 0, 1.0 / (self.sizes[0] as f32).sqrt(), first);
        fill_uniform(seed, 1, 1.0 / (self.sizes[1] as f32).sqrt(), second);
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        self.forward(params, block);
        let [inputs, hidden, classes] = self.sizes;
        let loss = softmax_cross_entropy(&mut self.scores, block.labels, share);
        let [_, weights] = self.layout.split(params);
        let [first, second] = self.layout.split_mut(grad);
        dense_backward_weights(hidden, classes, &self.hidden, &self.scores, mode, second);
        self.delta.resize(block.len() * hidden, 0.0);
        dense_backward_inputs(hidden, weights, &self.scores, &mut self.delta);
        let pairs = self.delta.iter_mut().zip(&self.hidden);
        pairs.filter(|(_, value)| **value <= 0.0).for_each(|(delta, _)| *delta = 0.0);
        dense_backward_weights(inputs, hidden, block.values(), &self.delta, mode, first);
        loss * share
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        self.forward(params, block);
        for (scores, &label) in self.scores.chunks(self.sizes[2]).zip(block.labels) {
            tally.count_scores(scores, label);
        }
    }
}
