//! What a model over sparse rows adds to [`Model`].

use std::ops::Range;

use crate::initial::initial_vector;
use crate::model::Model;

/// A model whose examples touch a few of its many parameters.
///
/// The layout begins with one parameter for each feature, `0 .. inputs()`, or with a
/// [width](crate::Layout::of_width) of several, and ends with the parameters that every example
/// touches, such as a bias. Training never shows the model all of them: [`Model::gradient`] and
/// [`Model::evaluate`] take a *compact slice*, which holds the parameters of the features in the
/// batch, in any order, and then the shared ones. The keys of
/// [`Batch::sparse_rows`](crate::Batch::sparse_rows) count the features of that slice, each with as
/// many parameters as the width. With a width above 1 the slice may be padded with zeros.
/// Parameters start at zero, or where [`SparseModel::birth`] says: [`Model::initialise`] is not
/// called.
///
/// A model whose loss depends on one weighted sum for each row need not implement this:
/// [`SparseLinear`](crate::SparseLinear) makes one of a [`ScoreLoss`].
pub trait SparseModel: Model {
    /// The keys of the parameters that every example touches: the end of the layout.
    fn shared_keys(&self) -> Range<u32> {
        self.inputs() as u32..self.layout().keys() as u32
    }

    /// What entries start from, for a width above 1; equal seeds give equal values.
    fn birth(&self, seed: u64) -> EntryBirth {
        let shared = self.layout().len() - self.layout().params_of(0..self.inputs()).end;
        EntryBirth {
            seed,
            linear: self.layout().width(),
            deviation: 0.0,
            shared: vec![0.0; shared],
        }
    }

    /// The number of fields that the keys of a row belong to, if the model needs to know them
    /// ([`Batch::with_fields`](crate::Batch::with_fields)); 0 if it does not.
    fn fields(&self) -> usize {
        0
    }

    /// Whether the gradient of a block is the sum of its rows' gradients, added in the order of the
    /// rows: calls with one row each then give the bits of one call, and a step may update a
    /// feature that no other row of the batch has as soon as its row is computed.
    fn adds_row_by_row(&self) -> bool {
        false
    }

    /// The loss by the score, if the model is linear with one bias: the score of a row is
    /// `row.dot(weights) + bias`, and the loss depends on nothing else.
    ///
    /// Such a model is stepped where its parameters live, without a compact slice
    /// ([`RowDescent`](crate::RowDescent)).
    fn score_loss(&self) -> Option<&dyn ScoreLoss> {
        None
    }
}

/// What the entries of a sparse model start from: a function of the seed and the key, so that an
/// entry need not exist before it is touched.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryBirth {
    /// The seed of the run.
    pub seed: u64,
    /// How many of a feature's numbers, from the first on, are a linear part. They start at zero.
    pub linear: usize,
    /// The standard deviation of the numbers behind them.
    pub deviation: f32,
    /// The initial values of the parameters that every example touches.
    pub shared: Vec<f32>,
}

impl EntryBirth {
    /// Writes the first numbers of a feature's entry.
    #[inline]
    pub fn feature(&self, key: u32, entry: &mut [f32]) {
        let (linear, vectors) = entry.split_at_mut(self.linear.min(entry.len()));
        linear.fill(0.0);
        initial_vector(self.seed, u64::from(key), self.deviation, vectors);
    }
}

/// The loss of a row as a function of its score.
///
/// ```
/// use paceline_model::{LossSlope, ScoreLoss, SparseLinear};
///
/// /// A support vector machine's loss.
/// struct Hinge;
///
/// impl ScoreLoss for Hinge {
///     fn loss(&self, score: f32, label: u32) -> LossSlope {
///         let sign = if label == 0 { -1.0 } else { 1.0 };
///         let loss = (1.0 - sign * score).max(0.0);
///         LossSlope { loss, slope: if loss > 0.0 { -sign } else { 0.0 } }
///     }
/// }
///
/// let model = SparseLinear::with_loss(1 << 20, Hinge);
/// ```
pub trait ScoreLoss: Send + Sync {
    /// A row's loss and its derivative with respect to the score. A score above 0 means class 1.
    fn loss(&self, score: f32, label: u32) -> LossSlope;

    /// The name of the model's layer in graphs and timelines.
    fn name(&self) -> &str {
        "linear"
    }

    /// The operation's name in graphs, in TensorFlow's vocabulary where it has one.
    fn operation(&self) -> &'static str {
        "Loss"
    }
}

/// A loss and its derivative with respect to the score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossSlope {
    /// The loss.
    pub loss: f32,
    /// The derivative of the loss by the score.
    pub slope: f32,
}
