//! A perceptron on the vectors of sparse features, beside a factorization machine or a linear
//! model.

use paceline_model::kernels::each;
use paceline_model::{
    Batch, DenseLayer, DropoutMask, EntryBirth, Group, LayerShape, Layout, LogisticLoss, Model,
    OpNode, OutputMode, Row, ScoreLoss, SparseModel, Tally, fill_uniform, initial_vector,
};

use crate::factorization::{FieldRow, FmShape, RowEntries, RowSlopes};
use crate::split_row::{RowNumber, SplitRow};

/// Examples that go forward and backward together.
const BLOCK: usize = 256;
/// The standard deviation of the vectors that training starts from.
const DEVIATION: f32 = 0.03;

/// The sizes of a [`DeepMachine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeepShape {
    /// The number of features.
    pub features: usize,
    /// The number of fields whose features have vectors; the perceptron has inputs for each.
    pub fields: usize,
    /// The number of fields after them. Each has one feature, whose value is an input of the
    /// perceptron as it is; a row without it has the input 0.
    pub numbers: usize,
    /// The length of a feature's vector.
    pub rank: usize,
    /// The outputs of each of the perceptron's layers before the last.
    pub hidden: Vec<usize>,
    /// Whether pairs of vectors add to the score, as in DeepFM; without, it is wide and deep.
    pub has_pairs: bool,
}

impl DeepShape {
    /// The number of the perceptron's inputs.
    pub fn inputs(&self) -> usize {
        self.fields * self.rank + self.numbers
    }
}

/// DeepFM (Guo et al., 2017), or a wide and deep model (Cheng et al., 2016), of two classes: the
/// score of a row is that of a factorization machine, or of a linear model, and of a perceptron
/// with ReLU on the same vectors. The perceptron's input has a part for each field: the sum of the
/// vectors of the row's features in it, each times its value. Then come the numbers, which have a
/// linear weight, but neither a vector nor pairs. Rows must have [fields](Batch::with_fields).
///
/// Its tensors are `factors` (`[features, 1 + rank]`: each feature's linear weight, then its
/// vector), then a weight and a bias for each layer: `hidden.0.weight` and so on, and
/// `output.weight` and `output.bias`.
#[derive(Clone, Debug)]
pub struct DeepMachine {
    shape: DeepShape,
    pairs: FmShape,
    layout: Layout,
    layers: Vec<DenseLayer>,
    /// The perceptron's parameters alone.
    dense: Layout,
    /// Added to every score in training.
    offset: f32,
    /// What training leaves out of each hidden layer's outputs; empty for nothing.
    dropout: Vec<DropoutMask>,
    /// The perceptron's inputs of a block, or the derivatives with respect to them.
    embedded: Vec<f32>,
    /// The sum of each row's vectors.
    sums: Vec<f32>,
    scores: Vec<f32>,
    split: SplitRow,
}

impl DeepMachine {
    /// A model of these sizes.
    ///
    /// # Panics
    /// If a size other than `numbers` is zero.
    pub fn new(shape: DeepShape) -> Self {
        let DeepShape { features, fields, rank, hidden, .. } = &shape;
        let sizes = [features, fields, rank].into_iter().chain(hidden);
        assert!(sizes.into_iter().all(|&size| size > 0), "a size is zero: {shape:?}");
        let pairs = FmShape { rank: *rank };
        let (mut dense, mut layers, mut inputs) = (Layout::new(), Vec::new(), shape.inputs());
        for (number, &outputs) in hidden.iter().enumerate() {
            let name = format!("hidden.{number}");
            layers.push(DenseLayer::relu(&mut dense, &name, inputs, outputs));
            inputs = outputs;
        }
        layers.push(DenseLayer::linear(&mut dense, "output", inputs, 1));
        let mut layout = Layout::of_width(pairs.width());
        layout.push("factors", &[*features, pairs.width()], Group::Weights);
        for tensor in dense.tensors() {
            layout.push(&tensor.name, &tensor.shape, tensor.group);
        }
        let (offset, dropout, split) = Default::default();
        let (embedded, sums, scores) = Default::default();
        Self { shape, pairs, layout, layers, dense, offset, dropout, embedded, sums, scores, split }
    }

    /// The same model with dropout: training leaves out each output of a hidden layer with the
    /// probability `rate` and scales the others up. Which ones depends on the seed and the
    /// example's position in the plan ([`Batch::draw`]).
    ///
    /// # Panics
    /// If the rate is not at least 0 and less than 1.
    #[must_use]
    pub fn dropout(mut self, rate: f32) -> Self {
        let layers = if rate == 0.0 { 0 } else { self.shape.hidden.len() };
        self.dropout = (0..layers).map(|layer| DropoutMask::new(layer, rate)).collect();
        self
    }

    /// The same model, for training on rows after only this share of class 0 was kept; see
    /// [`Logistic::sampled_negatives`](paceline_model::Logistic::sampled_negatives).
    ///
    /// # Panics
    /// If `share` is not above 0 and at most 1.
    #[must_use]
    pub fn sampled_negatives(mut self, share: f64) -> Self {
        assert!(share > 0.0 && share <= 1.0, "a share of {share} of the negative rows");
        self.offset = -share.ln() as f32;
        self
    }

    /// Where the perceptron's parameters are in a compact slice, or in all parameters.
    fn dense_at(&self, params: usize) -> usize {
        let width = self.layout.width();
        (params.div_ceil(width) - self.dense.len().div_ceil(width)) * width
    }

    /// Computes the scores of a block. Dropout is drawn from `draw`; without it nothing is left
    /// out.
    fn forward(&mut self, params: &[f32], block: Batch<'_>, draw: Option<u64>) {
        let dense = &params[self.dense_at(params.len())..];
        let (pairs, inputs) = (self.pairs, self.shape.inputs());
        let DeepShape { fields, numbers, rank, has_pairs, .. } = self.shape;
        let split = &mut self.split;
        self.embedded.clear();
        self.embedded.resize(block.len() * inputs, 0.0);
        self.sums.resize(block.len() * rank, 0.0);
        self.scores.clear();
        let (embedded, sums, scores) = (&mut self.embedded, &mut self.sums, &mut self.scores);
        each(
            #[inline(always)]
            || {
                let places = embedded.chunks_exact_mut(inputs).zip(sums.chunks_exact_mut(rank));
                for (row, (embedded, sums)) in block.sparse_rows().zip(places) {
                    let all = row;
                    let (row, of_row) = match numbers {
                        0 => (row, &[][..]),
                        _ => split.split(row, fields),
                    };
                    of_row.iter().for_each(|number| {
                        embedded[fields * rank + number.at] += number.value;
                    });
                    let by_pairs = pairs.embed_here(
                        field_row(params, &row),
                        sums,
                        &mut embedded[..fields * rank],
                    );
                    scores.push(if has_pairs {
                        linear(&row, params, rank) + by_pairs + linear_numbers(of_row, params, rank)
                    } else {
                        linear(&all, params, rank)
                    });
                }
            },
        );
        for at in 0..self.layers.len() {
            let (before, rest) = self.layers.split_at_mut(at);
            let inputs = match before.last_mut() {
                Some(layer) => layer.values_mut(),
                None => &mut self.embedded,
            };
            rest[0].forward(dense, inputs);
            if let (Some(draw), Some(mask)) = (draw, self.dropout.get(at)) {
                leave_out(*mask, draw, &mut rest[0]);
            }
        }
        let outputs = self.layers.iter_mut().next_back().map(DenseLayer::values_mut);
        let outputs = outputs.unwrap_or_default();
        self.scores.iter_mut().zip(outputs).for_each(|(score, output)| *score += *output);
    }

    /// Goes back through the perceptron, from the derivatives with respect to its output to those
    /// with respect to its inputs.
    fn backward(&mut self, dense: &[f32], draw: u64, grad: &mut [f32]) {
        for at in (0..self.layers.len()).rev() {
            let (before, rest) = self.layers.split_at_mut(at);
            let inputs = match before.last_mut() {
                Some(layer) => layer.values_mut(),
                None => &mut self.embedded,
            };
            rest[0].backward(dense, inputs, OutputMode::Add, grad);
            if let (Some(layer), Some(mask)) = (before.last_mut(), self.dropout.get(at.max(1) - 1))
            {
                leave_out(*mask, draw, layer);
            }
        }
    }
}

/// Leaves out some of a layer's outputs, or of the derivatives with respect to them.
fn leave_out(mask: DropoutMask, draw: u64, layer: &mut DenseLayer) {
    let outputs = layer.outputs();
    for (values, example) in layer.values_mut().chunks_exact_mut(outputs).zip(0..) {
        mask.leave_out(draw.wrapping_add(example), values);
    }
}

/// The score of a row by its linear weights alone.
#[inline(always)]
fn linear(row: &Row<'_>, params: &[f32], rank: usize) -> f32 {
    row.dot_with(|key| params[key as usize * (1 + rank)])
}

/// What the linear weights of numbers add to a score.
#[inline(always)]
fn linear_numbers(numbers: &[RowNumber], params: &[f32], rank: usize) -> f32 {
    numbers.iter().map(|number| number.value * params[number.key as usize * (1 + rank)]).sum()
}

/// A row with the entries and the fields of its keys.
#[inline(always)]
fn field_row<'a>(params: &'a [f32], row: &Row<'a>) -> FieldRow<'a> {
    let entries = RowEntries { params, places: row.keys, values: row.values };
    FieldRow { entries, fields: row.fields }
}

impl Model for DeepMachine {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.shape.features
    }

    fn max_block(&self) -> usize {
        BLOCK
    }

    fn initialise(&self, seed: u64, params: &mut [f32]) {
        let features = self.shape.features * self.layout.width();
        let (entries, dense) = params.split_at_mut(features);
        for (entry, key) in entries.chunks_exact_mut(self.layout.width()).zip(0u64..) {
            entry[0] = 0.0;
            initial_vector(seed, key, DEVIATION, &mut entry[1..]);
        }
        dense.copy_from_slice(&self.birth(seed).shared);
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
        self.forward(params, block, Some(block.draw));
        let mut loss = 0.0;
        let offset = self.offset;
        // The scores become the derivatives with respect to them.
        for (row, score) in block.sparse_rows().zip(&mut self.scores) {
            let point = LogisticLoss.loss(*score + offset, row.label);
            *score = share * row.weight * point.slope;
            loss += row.weight * point.loss;
        }
        let outputs = self.layers.iter_mut().next_back().map(DenseLayer::values_mut);
        outputs.unwrap_or_default().copy_from_slice(&self.scores);
        let at = self.dense_at(params.len());
        let (grad, dense_grad) = grad.split_at_mut(at);
        self.backward(&params[at..], block.draw, dense_grad);

        let (pairs, inputs) = (self.pairs, self.shape.inputs());
        let DeepShape { fields, numbers, rank, has_pairs, .. } = self.shape;
        let split = &mut self.split;
        let (embedded, sums, deltas) = (&self.embedded, &self.sums, &self.scores);
        each(
            #[inline(always)]
            || {
                let places = embedded.chunks_exact(inputs).zip(sums.chunks_exact(rank));
                for ((row, (slopes, sums)), &delta) in block.sparse_rows().zip(places).zip(deltas) {
                    let (row, of_row) = match numbers {
                        0 => (row, &[][..]),
                        _ => split.split(row, fields),
                    };
                    of_row.iter().for_each(|number| {
                        grad[number.key as usize * (1 + rank)] += delta * number.value;
                    });
                    row.for_each_scaled(delta, |key, slope| {
                        grad[key as usize * (1 + rank)] += slope;
                    });
                    let sums = has_pairs.then_some(sums);
                    let slopes = RowSlopes { delta, sums, inputs: &slopes[..fields * rank] };
                    pairs.add_embedded_gradient_here(field_row(params, &row), slopes, grad);
                }
            },
        );
        loss * share
    }

    fn uses_weights(&self) -> bool {
        true
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        let name = if self.shape.has_pairs { "deepfm" } else { "wide-deep" };
        vec![LayerShape { name: name.into(), output: vec![1] }]
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        self.forward(params, block, None);
        for (&score, &label) in self.scores.iter().zip(block.labels) {
            tally.count_two_class(score, label, LogisticLoss.loss(score, label).loss);
        }
    }

    fn graph(&self) -> Vec<OpNode> {
        let (features, width) = (self.shape.features as i64, self.layout.width() as i64);
        let mut nodes = vec![
            OpNode::new("input/examples", "Placeholder", &[], &[-1, features]),
            OpNode::new("input/labels", "Placeholder", &[], &[-1]),
            OpNode::new("factors", "VariableV2", &[], &[features, width]),
            OpNode::new("embedded", "Embedding", &["input/examples", "factors"], &[-1, width]),
        ];
        let mut last = "embedded".to_owned();
        for (at, layer) in self.layers.iter().enumerate() {
            let name = format!("layer/{at}");
            nodes.push(OpNode::new(&name, "MatMul", &[&last], &[-1, layer.outputs() as i64]));
            last = name;
        }
        nodes.push(OpNode::new(
            "loss/cross_entropy",
            LogisticLoss.operation(),
            &[&last, "embedded", "input/labels"],
            &[-1],
        ));
        nodes.push(OpNode::new("loss/mean", "Mean", &["loss/cross_entropy"], &[]));
        nodes
    }
}

impl SparseModel for DeepMachine {
    fn birth(&self, seed: u64) -> EntryBirth {
        let mut shared = vec![0.0; self.dense.len()];
        for (index, tensor) in self.dense.tensors().iter().enumerate() {
            if let (Group::Weights, [_, inputs]) = (tensor.group, &tensor.shape[..]) {
                let bound = 1.0 / (*inputs as f32).sqrt();
                fill_uniform(seed, 1 + index, bound, &mut shared[tensor.range.clone()]);
            }
        }
        EntryBirth { seed, linear: 1, deviation: DEVIATION, shared }
    }

    fn fields(&self) -> usize {
        self.shape.fields + self.shape.numbers
    }
}

#[cfg(test)]
mod tests;
