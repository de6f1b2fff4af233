//! Softmax regression over sparse rows: one weight for each feature and class.

use paceline_model::kernels::each;
use paceline_model::{
    Batch, Group, LayerShape, Layout, Model, OpNode, OutputMode, Row, SparseModel, Tally,
    softmax_graph, weighted_cross_entropy,
};

/// Examples that go forward and backward together: their scores stay in the cache.
const BLOCK: usize = 256;

/// Softmax regression over sparse rows, from an all-zero start. A step touches the weights of its
/// batch's features alone, so that there may be many features and many classes.
///
/// Its tensors are `weight` (`[features, classes]`) and `bias` (`[classes]`).
///
/// ```
/// use paceline_factor::SparseSoftmax;
/// use paceline_model::{Batch, Model, OutputMode, Rows, Tally};
///
/// // Three rows with one feature each, which is also the class.
/// let rows = Rows { starts: &[0, 1, 2, 3], places: &[0, 1, 2], values: &[] };
/// let batch = Batch::sparse(rows, &[0, 1, 2]);
/// let mut model = SparseSoftmax::new(3, 3);
/// let mut params = vec![0.0; model.layout().len()];
/// let mut grad = params.clone();
/// for _ in 0..100 {
///     model.gradient(&params, batch, 1.0 / 3.0, OutputMode::Overwrite, &mut grad);
///     params.iter_mut().zip(&grad).for_each(|(param, grad)| *param -= grad);
/// }
/// let mut tally = Tally::default();
/// model.evaluate(&params, batch, &mut tally);
/// assert_eq!(tally.accuracy(), 1.0);
/// ```
#[derive(Clone, Debug)]
pub struct SparseSoftmax {
    features: usize,
    classes: usize,
    layout: Layout,
    /// The scores of a block, or their derivatives.
    scores: Vec<f32>,
}

impl SparseSoftmax {
    /// Softmax regression over `features` features and `classes` classes.
    ///
    /// # Panics
    /// If there are no features, or fewer than two classes.
    pub fn new(features: usize, classes: usize) -> Self {
        assert!(features > 0 && classes > 1, "{features} features and {classes} classes");
        let mut layout = Layout::of_width(classes);
        layout.push("weight", &[features, classes], Group::Weights);
        layout.push("bias", &[classes], Group::Biases);
        Self { features, classes, layout, scores: Vec::new() }
    }

    /// Computes the scores of a block.
    fn forward(&mut self, params: &[f32], block: Batch<'_>) {
        let (classes, scores) = (self.classes, &mut self.scores);
        scores.resize(block.len() * classes, 0.0);
        let bias = &params[params.len() - classes..];
        each(
            #[inline(always)]
            || {
                for (row, scores) in block.sparse_rows().zip(scores.chunks_exact_mut(classes)) {
                    scores.copy_from_slice(bias);
                    for_each_entry(&row, classes, |entry, value| {
                        let weights = &params[entry..entry + classes];
                        scores.iter_mut().zip(weights).for_each(|(sum, w)| *sum += value * w);
                    });
                }
            },
        );
    }
}

/// Calls `visit` with where the weights of each of a row's keys begin, and the key's value.
#[inline(always)]
fn for_each_entry(row: &Row<'_>, classes: usize, mut visit: impl FnMut(usize, f32)) {
    for (at, &key) in row.keys.iter().enumerate() {
        let value = if row.values.is_empty() { 1.0 } else { row.values[at] };
        visit(key as usize * classes, value);
    }
}

impl Model for SparseSoftmax {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.features
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
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        assert_eq!(params.len(), grad.len(), "gradient");
        mode.prepare(grad);
        self.forward(params, block);
        let (classes, scores) = (self.classes, &mut self.scores[..]);
        let loss = weighted_cross_entropy(scores, block.labels, block.weights, share);
        let (grad, bias) = grad.split_at_mut(params.len() - classes);
        each(
            #[inline(always)]
            || {
                for (row, deltas) in block.sparse_rows().zip(scores.chunks_exact(classes)) {
                    for_each_entry(&row, classes, |entry, value| {
                        let slopes = &mut grad[entry..entry + classes];
                        slopes.iter_mut().zip(deltas).for_each(|(sum, d)| *sum += value * d);
                    });
                    bias.iter_mut().zip(deltas).for_each(|(sum, delta)| *sum += delta);
                }
            },
        );
        loss * share
    }

    fn uses_weights(&self) -> bool {
        true
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        vec![LayerShape { name: "softmax".into(), output: vec![self.classes] }]
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        self.forward(params, block);
        tally.count_block(&self.scores, block.labels);
    }

    fn graph(&self) -> Vec<OpNode> {
        let (features, classes) = (self.features, self.classes);
        softmax_graph(features, classes, "SparseTensorDenseMatMul", &[features, classes])
    }
}

impl SparseModel for SparseSoftmax {}

#[cfg(test)]
mod tests;
