//! The models with several numbers for each feature that a job can name.

use paceline_model::SparseModel;

use crate::deep_machine::{DeepMachine, DeepShape};
use crate::factor_machine::{FactorMachine, FieldMachine};
use crate::sparse_softmax::SparseSoftmax;

/// What a model with several numbers for each feature is built from.
///
/// ```
/// use paceline_factor::FactorForm;
/// use paceline_model::Model;
///
/// let form = FactorForm::Ffm { features: 100, fields: 3, rank: 4 };
/// assert_eq!(form.build(1.0).layout().tensors()[0].shape, [100, 13]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactorForm {
    /// A [`FactorMachine`].
    Fm {
        /// The number of features.
        features: usize,
        /// The length of a vector.
        rank: usize,
    },
    /// A [`FieldMachine`].
    Ffm {
        /// The number of features.
        features: usize,
        /// The number of fields.
        fields: usize,
        /// The length of a vector.
        rank: usize,
    },
    /// A [`DeepMachine`].
    Deep(DeepShape),
    /// A [`SparseSoftmax`].
    Softmax {
        /// The number of features.
        features: usize,
        /// The number of classes.
        classes: usize,
    },
}

impl FactorForm {
    /// The name in job files.
    pub fn name(&self) -> &'static str {
        match self {
            FactorForm::Fm { .. } => "fm",
            FactorForm::Ffm { .. } => "ffm",
            FactorForm::Deep(DeepShape { has_pairs: true, .. }) => "deepfm",
            FactorForm::Deep(_) => "wide-deep",
            FactorForm::Softmax { .. } => "sparse-softmax",
        }
    }

    /// The number of features.
    pub fn features(&self) -> usize {
        match self {
            FactorForm::Fm { features, .. }
            | FactorForm::Ffm { features, .. }
            | FactorForm::Softmax { features, .. } => *features,
            FactorForm::Deep(shape) => shape.features,
        }
    }

    /// The number of fields that the model tells apart; 0 if it does not need fields.
    pub fn fields(&self) -> usize {
        match self {
            FactorForm::Fm { .. } | FactorForm::Softmax { .. } => 0,
            FactorForm::Ffm { fields, .. } => *fields,
            FactorForm::Deep(shape) => shape.fields + shape.numbers,
        }
    }

    /// The sizes that must be above zero.
    pub fn sizes(&self) -> Vec<usize> {
        match self {
            FactorForm::Fm { features, rank } => vec![*features, *rank],
            FactorForm::Softmax { features, classes } => vec![*features, *classes],
            FactorForm::Ffm { features, fields, rank } => vec![*features, *fields, *rank],
            FactorForm::Deep(shape) => {
                let DeepShape { features, fields, rank, hidden, .. } = shape;
                [*features, *fields, *rank].into_iter().chain(hidden.iter().copied()).collect()
            }
        }
    }

    /// The numbers of a feature's entry.
    pub fn width(&self) -> usize {
        match self {
            FactorForm::Fm { rank, .. } => 1 + rank,
            FactorForm::Ffm { fields, rank, .. } => 1 + fields * rank,
            FactorForm::Deep(shape) => 1 + shape.rank,
            FactorForm::Softmax { classes, .. } => *classes,
        }
    }

    /// The number of parameters, whatever the sizes are.
    pub fn parameters(&self) -> u128 {
        let wide = |size: usize| size as u128;
        let entry = |vectors: usize, rank: usize| 1 + wide(vectors) * wide(rank);
        match self {
            FactorForm::Fm { features, rank } => wide(*features) * entry(1, *rank) + 1,
            FactorForm::Softmax { features, classes } => (wide(*features) + 1) * wide(*classes),
            FactorForm::Ffm { features, fields, rank } => {
                wide(*features) * entry(*fields, *rank) + 1
            }
            FactorForm::Deep(DeepShape { features, fields, numbers, rank, hidden, .. }) => {
                let layers = hidden.iter().map(|&size| wide(size)).chain([1]);
                let inputs = wide(*fields) * wide(*rank) + wide(*numbers);
                let (dense, _) = layers.fold((0, inputs), |(sum, inputs), outputs| {
                    (sum + outputs * (inputs + 1), outputs)
                });
                wide(*features) * entry(1, *rank) + dense
            }
        }
    }

    /// The model, for training on rows after only this share of class 0 was kept.
    ///
    /// # Panics
    /// If a size is zero, there is only one class, or the share is not above 0 and at most 1.
    pub fn build(&self, share: f64) -> Box<dyn SparseModel> {
        self.build_with_dropout(share, 0.0)
    }

    /// The same, where training leaves out some outputs of the perceptron
    /// ([`DeepMachine::dropout`]). Other models have no perceptron.
    ///
    /// # Panics
    /// As [`build`](Self::build), and if `dropout` is not at least 0 and less than 1.
    pub fn build_with_dropout(&self, share: f64, dropout: f32) -> Box<dyn SparseModel> {
        match self {
            &FactorForm::Fm { features, rank } => {
                Box::new(FactorMachine::new(features, rank).sampled_negatives(share))
            }
            &FactorForm::Ffm { features, fields, rank } => {
                Box::new(FieldMachine::new(features, fields, rank).sampled_negatives(share))
            }
            &FactorForm::Softmax { features, classes } => {
                Box::new(SparseSoftmax::new(features, classes))
            }
            FactorForm::Deep(shape) => {
                let model = DeepMachine::new(shape.clone()).sampled_negatives(share);
                Box::new(model.dropout(dropout))
            }
        }
    }
}
