//! Factorization machines over sparse rows, plain and field-aware, as models.

use paceline_model::kernels::each;
use paceline_model::{
    Batch, EntryBirth, Group, LayerShape, Layout, LogisticLoss, Model, OpNode, OutputMode,
    ScoreLoss, SparseModel, Tally, initial_vector,
};

use std::fmt::Debug;

use crate::factorization::{FfmShape, FmShape, RowEntries};

/// Examples that go forward and backward together; only the sums of one row are kept.
const BLOCK: usize = 4_096;
/// The standard deviation of the vectors that training starts from.
const DEVIATION: f32 = 0.03;

/// A factorization machine (Rendle, 2010) of two classes: logistic regression whose score also has,
/// for every pair of a row's features, the product of their vectors.
pub type FactorMachine = Factorization<FmShape>;

/// A field-aware factorization machine (Juan et al., 2016) of two classes: a feature has a vector
/// for each field, and a pair of features uses those for each other's fields. Rows must have
/// [fields](Batch::with_fields).
pub type FieldMachine = Factorization<FfmShape>;

/// Logistic regression with a score that entries of some shape give.
///
/// Its tensors are `factors` (`[features, width]`: each feature's linear weight, then its vectors)
/// and `bias` (`[1]`).
#[derive(Clone, Debug)]
pub struct Factorization<S> {
    features: usize,
    shape: S,
    layout: Layout,
    /// Added to every score in training.
    offset: f32,
    /// What the score of a row leaves for its gradient: sums of its vectors.
    sums: Vec<f32>,
}

/// Entries that give a row a score.
pub trait EntryScore: Copy + Debug + Send + Sync + 'static {
    /// The name of the model's layer in graphs and timelines.
    const NAME: &'static str;

    /// The numbers of an entry.
    fn numbers(self) -> usize;

    /// The length of a vector.
    fn rank(self) -> usize;

    /// The number of fields; 0 if the score does not depend on fields.
    fn field_count(self) -> usize;

    /// The score of a row, without a bias. `sums` is scratch memory, at first of the rank's length,
    /// for [`EntryScore::add_to_gradient`].
    fn score_of(self, row: RowEntries<'_>, fields: &[u16], sums: &mut Vec<f32>) -> f32;

    /// Adds the gradient of `delta` times the score to `grad`.
    fn add_to_gradient(
        self,
        row: RowEntries<'_>,
        fields: &[u16],
        sums: &[f32],
        delta: f32,
        grad: &mut [f32],
    );
}

impl EntryScore for FmShape {
    const NAME: &'static str = "fm";

    fn numbers(self) -> usize {
        self.width()
    }

    fn rank(self) -> usize {
        self.rank
    }

    fn field_count(self) -> usize {
        0
    }

    #[inline(always)]
    fn score_of(self, row: RowEntries<'_>, _: &[u16], sums: &mut Vec<f32>) -> f32 {
        self.score_here(row, sums)
    }

    #[inline(always)]
    fn add_to_gradient(
        self,
        row: RowEntries<'_>,
        _: &[u16],
        sums: &[f32],
        delta: f32,
        grad: &mut [f32],
    ) {
        self.add_gradient_here(row, sums, delta, grad);
    }
}

impl EntryScore for FfmShape {
    const NAME: &'static str = "ffm";

    fn numbers(self) -> usize {
        self.width()
    }

    fn rank(self) -> usize {
        self.rank
    }

    fn field_count(self) -> usize {
        self.fields
    }

    #[inline(always)]
    fn score_of(self, row: RowEntries<'_>, fields: &[u16], sums: &mut Vec<f32>) -> f32 {
        if self.prefers_sums(fields.len()) {
            return self.score_by_sums(row, fields, sums);
        }
        self.score_here(row, fields)
    }

    #[inline(always)]
    fn add_to_gradient(
        self,
        row: RowEntries<'_>,
        fields: &[u16],
        sums: &[f32],
        delta: f32,
        grad: &mut [f32],
    ) {
        if self.prefers_sums(fields.len()) {
            return self.add_gradient_by_sums(row, fields, sums, delta, grad);
        }
        self.add_gradient_here(row, fields, delta, grad);
    }
}

impl FactorMachine {
    /// A factorization machine over `features` features with vectors of `rank` numbers.
    ///
    /// # Panics
    /// If one of them is zero.
    pub fn new(features: usize, rank: usize) -> Self {
        Self::of_shape(features, FmShape { rank })
    }
}

impl FieldMachine {
    /// A field-aware factorization machine over `features` features of `fields` fields with vectors
    /// of `rank` numbers.
    ///
    /// # Panics
    /// If one of them is zero.
    pub fn new(features: usize, fields: usize, rank: usize) -> Self {
        assert!(fields > 0, "a model without fields");
        Self::of_shape(features, FfmShape { fields, rank })
    }
}

impl<S: EntryScore> Factorization<S> {
    fn of_shape(features: usize, shape: S) -> Self {
        let (rank, width) = (shape.rank(), shape.numbers());
        assert!(features > 0 && rank > 0, "a model of {features} features of rank {rank}");
        let mut layout = Layout::of_width(width);
        layout.push("factors", &[features, width], Group::Weights);
        layout.push("bias", &[1], Group::Biases);
        Self { features, shape, layout, offset: 0.0, sums: vec![0.0; rank] }
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

    /// Where the bias is in a compact slice, or in all parameters.
    fn bias_at(&self, params: usize) -> usize {
        (params.div_ceil(self.layout.width()) - 1) * self.layout.width()
    }
}

impl<S: EntryScore> Model for Factorization<S> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.features
    }

    fn max_block(&self) -> usize {
        BLOCK
    }

    fn initialise(&self, seed: u64, params: &mut [f32]) {
        params.fill(0.0);
        let entries = params.chunks_exact_mut(self.layout.width()).take(self.features);
        for (entry, key) in entries.zip(0u64..) {
            initial_vector(seed, key, DEVIATION, &mut entry[1..]);
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
        assert_eq!(params.len(), grad.len(), "gradient");
        mode.prepare(grad);
        let bias_at = self.bias_at(params.len());
        let (shape, offset, sums) = (self.shape, self.offset, &mut self.sums);
        let bias = params[bias_at];
        let (mut loss, mut bias_slope) = (0.0, 0.0);
        each(
            #[inline(always)]
            || {
                for row in block.sparse_rows() {
                    let entries = RowEntries { params, places: row.keys, values: row.values };
                    let score = shape.score_of(entries, row.fields, sums) + bias + offset;
                    let point = LogisticLoss.loss(score, row.label);
                    let delta = share * row.weight * point.slope;
                    shape.add_to_gradient(entries, row.fields, sums, delta, grad);
                    bias_slope += delta;
                    loss += row.weight * point.loss;
                }
            },
        );
        grad[bias_at] += bias_slope;
        loss * share
    }

    fn uses_weights(&self) -> bool {
        true
    }

    fn layer_shapes(&self) -> Vec<LayerShape> {
        vec![LayerShape { name: S::NAME.into(), output: vec![1] }]
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        let bias = params[self.bias_at(params.len())];
        let (shape, sums) = (self.shape, &mut self.sums);
        each(
            #[inline(always)]
            || {
                for row in block.sparse_rows() {
                    let entries = RowEntries { params, places: row.keys, values: row.values };
                    let score = shape.score_of(entries, row.fields, sums) + bias;
                    let loss = LogisticLoss.loss(score, row.label).loss;
                    tally.count_two_class(score, row.label, loss);
                }
            },
        );
    }

    fn graph(&self) -> Vec<OpNode> {
        let (features, width) = (self.features as i64, self.layout.width() as i64);
        let [factors, bias, scores] =
            ["factors", "bias", "scores"].map(|part| format!("{}/{part}", S::NAME));
        vec![
            OpNode::new("input/examples", "Placeholder", &[], &[-1, features]),
            OpNode::new("input/labels", "Placeholder", &[], &[-1]),
            OpNode::new(&factors, "VariableV2", &[], &[features, width]),
            OpNode::new(&bias, "VariableV2", &[], &[1]),
            OpNode::new(
                &scores,
                "FactorizationMachine",
                &["input/examples", &factors, &bias],
                &[-1],
            ),
            OpNode::new(
                "loss/cross_entropy",
                LogisticLoss.operation(),
                &[&scores, "input/labels"],
                &[-1],
            ),
            OpNode::new("loss/mean", "Mean", &["loss/cross_entropy"], &[]),
        ]
    }
}

impl<S: EntryScore> SparseModel for Factorization<S> {
    fn birth(&self, seed: u64) -> EntryBirth {
        EntryBirth { seed, linear: 1, deviation: DEVIATION, shared: vec![0.0] }
    }

    fn fields(&self) -> usize {
        self.shape.field_count()
    }

    fn adds_row_by_row(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
