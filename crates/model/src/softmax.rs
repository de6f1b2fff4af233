//! Softmax regression: one dense layer, softmax and cross-entropy, with a closed-form gradient.

use crate::kernels::{Onto, dense_backward_weights, dense_forward};
use crate::layers::loss::{count, softmax_delta};
use crate::{Batch, Group, LayerShape, Layout, Model, Moment, Node, Tally};

/// Examples that go forward and backward together: 28x28 pixels of so many fill half a
/// processor's second-level cache.
const BLOCK: usize = 64;

/// Softmax regression over any number of inputs and classes, from an all-zero start.
///
/// Its tensors are `weight` (`[classes, inputs]`) and `bias` (`[classes]`), the shapes that
/// PyTorch's `Linear` has.
pub struct Softmax {
    inputs: usize,
    classes: usize,
    layout: Layout,
    /// Scores of a block of examples, then the gradient of the loss by them.
    scores: Vec<f32>,
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
        Self { inputs, classes, layout, scores: vec![0.0; BLOCK * classes] }
    }

    /// The scores of a block of examples, in scratch memory.
    fn score(&mut self, params: &[f32], block: Batch<'_>) -> &mut [f32] {
        assert_eq!(params.len(), self.layout.len(), "parameters");
        assert_eq!(block.values().len(), block.len() * self.inputs, "inputs of the block");
        assert!(block.len() <= BLOCK, "a block of {} examples is too large", block.len());
        let scores = &mut self.scores[..block.len() * self.classes];
        let (weights, bias) = params.split_at(self.classes * self.inputs);
        dense_forward(self.inputs, block.values(), weights, bias, scores);
        scores
    }

    /// The gradient, for somebody who may want to follow it.
    #[inline]
    fn follow(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        (onto, grad): (Onto, &mut [f32]),
        mut watch: impl FnMut(Moment<'_>),
    ) -> f32 {
        let (inputs, classes) = (self.inputs, self.classes);
        let (weights, bias) = grad.split_at_mut(classes * inputs);
        if onto == Onto::Zero {
            bias.fill(0.0);
        }
        let delta = self.score(params, block);
        watch(Moment::Forward { layer: 0 });
        let mut loss = 0.0;
        for (row, &label) in delta.chunks_exact_mut(classes).zip(block.labels) {
            loss += softmax_delta(row, label as usize, share);
            bias.iter_mut().zip(&*row).for_each(|(sum, delta)| *sum += delta);
        }
        watch(Moment::Loss);
        dense_backward_weights(inputs, classes, block.values(), delta, onto, weights);
        watch(Moment::Backward { layer: 0 });
        loss * share
    }
}

impl Model for Softmax {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn max_block(&self) -> usize {
        BLOCK
    }

    fn initialise(&self, _seed: u64, params: &mut [f32]) {
        params.fill(0.0);
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        onto: Onto,
        grad: &mut [f32],
    ) -> f32 {
        self.follow(params, block, share, (onto, grad), |_| {})
    }

    fn gradient_followed(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        (onto, grad): (Onto, &mut [f32]),
        watch: &mut (dyn FnMut(Moment<'_>) + Send),
    ) -> f32 {
        let loss = self.follow(params, block, share, (onto, grad), &mut *watch);
        watch(Moment::Final { range: 0..grad.len(), values: grad });
        loss
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        vec![LayerShape { name: "softmax".into(), output: vec![self.classes] }]
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        count(self.score(params, block), block, tally);
    }

    fn graph(&self) -> Vec<Node> {
        let (inputs, classes) = (self.inputs as i64, self.classes as i64);
        vec![
            Node::new("input/examples", "Placeholder", &[], &[-1, inputs]),
            Node::new("input/labels", "Placeholder", &[], &[-1]),
            Node::new("softmax/weight", "VariableV2", &[], &[classes, inputs]),
            Node::new("softmax/bias", "VariableV2", &[], &[classes]),
            Node::new(
                "softmax/scores",
                "MatMul",
                &["input/examples", "softmax/weight"],
                &[-1, classes],
            ),
            Node::new(
                "softmax/add",
                "BiasAdd",
                &["softmax/scores", "softmax/bias"],
                &[-1, classes],
            ),
            Node::new(
                "loss/cross_entropy",
                "SparseSoftmaxCrossEntropyWithLogits",
                &["softmax/add", "input/labels"],
                &[-1],
            ),
            Node::new("loss/mean", "Mean", &["loss/cross_entropy"], &[]),
            Node::new("accuracy/class", "ArgMax", &["softmax/add"], &[-1]),
            Node::new("accuracy/hit", "Equal", &["accuracy/class", "input/labels"], &[-1]),
            Node::new("accuracy/mean", "Mean", &["accuracy/hit"], &[]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(len: usize, salt: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|i| (((i * 37 + salt * 101) % 64) as f32 / 32.0 - 1.0) * scale).collect()
    }

    /// Mean loss and its gradient over a batch, block by block, as a worker does it.
    fn whole_gradient(
        model: &mut Softmax,
        params: &[f32],
        batch: Batch<'_>,
        grad: &mut [f32],
    ) -> f32 {
        let (share, mut onto, mut loss) = (1.0 / batch.len() as f32, Onto::Zero, 0.0);
        let inputs = batch.values().chunks(BLOCK * model.inputs);
        for (inputs, labels) in inputs.zip(batch.labels.chunks(BLOCK)) {
            loss += model.gradient(params, Batch::dense(inputs, labels), share, onto, grad);
            onto = Onto::Present;
        }
        loss
    }

    /// The loss again, in f64 and with none of the model's code.
    fn plain_loss(params: &[f64], inputs: usize, classes: usize, batch: Batch<'_>) -> f64 {
        let mut loss = 0.0;
        for (x, &label) in batch.values().chunks(inputs).zip(batch.labels) {
            let score = |c: usize| -> f64 {
                let dot: f64 =
                    x.iter().enumerate().map(|(i, &x)| params[c * inputs + i] * f64::from(x)).sum();
                dot + params[classes * inputs + c]
            };
            let sum: f64 = (0..classes).map(|c| score(c).exp()).sum();
            loss += sum.ln() - score(label as usize);
        }
        loss / batch.len() as f64
    }

    #[test]
    fn the_gradient_agrees_with_finite_differences() {
        for (batch, inputs, classes) in
            [(1, 1, 2), (3, 5, 4), (10, 17, 10), (7, 33, 11), (150, 9, 3)]
        {
            let mut model = Softmax::new(inputs, classes);
            let params = values(model.layout().len(), 1, 0.5);
            let x = values(batch * inputs, 2, 1.0);
            let labels: Vec<u32> = (0..batch).map(|b| (b * 3 % classes) as u32).collect();
            let batch = Batch::dense(&x, &labels);
            let mut grad = vec![f32::NAN; params.len()];
            let loss = whole_gradient(&mut model, &params, batch, &mut grad);

            let mut wide: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
            let plain = plain_loss(&wide, inputs, classes, batch);
            assert!((f64::from(loss) - plain).abs() < 1e-5, "loss {loss}, not {plain}");
            for i in 0..wide.len() {
                let (here, step) = (wide[i], 1e-5);
                wide[i] = here + step;
                let above = plain_loss(&wide, inputs, classes, batch);
                wide[i] = here - step;
                let below = plain_loss(&wide, inputs, classes, batch);
                wide[i] = here;
                let slope = (above - below) / (2.0 * step);
                let got = f64::from(grad[i]);
                assert!((got - slope).abs() < 1e-5, "parameter {i}: {got}, not {slope}");
            }
        }
    }

    #[test]
    fn loss_and_gradient_stay_finite_at_huge_scores() {
        let mut model = Softmax::new(2, 3);
        let params = values(model.layout().len(), 1, 1e30);
        let batch = Batch::dense(&[1e5, -1e5], &[2]);
        let mut grad = vec![0.0; params.len()];
        assert!(whole_gradient(&mut model, &params, batch, &mut grad).is_finite());
        assert!(grad.iter().all(|g| g.is_finite()));
        let mut tally = Tally::default();
        model.evaluate(&params, batch, &mut tally);
        assert!(tally.loss().is_finite());
    }

    #[test]
    fn evaluation_counts_what_the_gradient_sees() {
        let mut model = Softmax::new(6, 4);
        let params = values(model.layout().len(), 5, 1.0);
        let x = values(8 * 6, 6, 1.0);
        let labels: Vec<u32> = (0..8).map(|b| b % 4).collect();
        let batch = Batch::dense(&x, &labels);
        let mut grad = vec![0.0; params.len()];
        let loss = whole_gradient(&mut model, &params, batch, &mut grad);
        let mut tally = Tally::default();
        model.evaluate(&params, batch, &mut tally);
        assert_eq!(tally.examples, 8);
        assert!((tally.loss() - f64::from(loss)).abs() < 1e-6);
    }

    #[test]
    fn the_first_of_equal_scores_counts() {
        let mut model = Softmax::new(1, 3);
        let mut tally = Tally::default();
        let batch = Batch::dense(&[1.0; 3], &[0, 1, 2]);
        model.evaluate(&[0.0; 6], batch, &mut tally);
        assert_eq!(tally.correct, 1);
    }
}
