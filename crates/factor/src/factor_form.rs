//! The models of pairs of features that a job can name.

use paceline_model::SparseModel;

use crate::deep_machine::{DeepMachine, DeepShape};
use crate::factor_machine::{FactorMachine, FieldMachine};

/// What a model with vectors of features is built from.
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
}

impl FactorForm {
    /// The name in job files.
    pub fn name(&self) -> &'static str {
        match self {
            FactorForm::Fm { .. } => "fm",
            FactorForm::Ffm { .. } => "ffm",
            FactorForm::Deep(DeepShape { has_pairs: true, .. }) => "deepfm",
            FactorForm::Deep(_) => "wide-deep",
        }
    }

    /// The number of features.
    pub fn features(&self) -> usize {
        match self {
            FactorForm::Fm { features, .. } | FactorForm::Ffm { features, .. } => *features,
            FactorForm::Deep(shape) => shape.features,
        }
    }

    /// The number of fields that the model tells apart; 0 if it does not need fields.
    pub fn fields(&self) -> usize {
        match self {
            FactorForm::Fm { .. } => 0,
            FactorForm::Ffm { fields, .. } => *fields,
            FactorForm::Deep(shape) => shape.fields,
        }
    }

    /// The sizes, all of which must be above zero.
    pub fn sizes(&self) -> Vec<usize> {
        match self {
            FactorForm::Fm { features, rank } => vec![*features, *rank],
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
        }
    }

    /// The number of parameters, whatever the sizes are.
    pub fn parameters(&self) -> u128 {
        let wide = |size: usize| size as u128;
        let entry = |vectors: usize, rank: usize| 1 + wide(vectors) * wide(rank);
        match self {
            FactorForm::Fm { features, rank } => wide(*features) * entry(1, *rank) + 1,
            FactorForm::Ffm { features, fields, rank } => {
                wide(*features) * entry(*fields, *rank) + 1
            }
            FactorForm::Deep(DeepShape { features, fields, rank, hidden, .. }) => {
                let layers = hidden.iter().map(|&size| wide(size)).chain([1]);
                let (dense, _) = layers
                    .fold((0, wide(*fields) * wide(*rank)), |(sum, inputs), outputs| {
                        (sum + outputs * (inputs + 1), outputs)
                    });
                wide(*features) * entry(1, *rank) + dense
            }
        }
    }

    /// The model, for training rows of which this share of class 0 was kept.
    ///
    /// # Panics
    /// If a size is zero, or the share is not above 0 and at most 1.
    pub fn build(&self, share: f64) -> Box<dyn SparseModel> {
        match self {
            &FactorForm::Fm { features, rank } => {
                Box::new(FactorMachine::new(features, rank).sampled_negatives(share))
            }
            &FactorForm::Ffm { features, fields, rank } => {
                Box::new(FieldMachine::new(features, fields, rank).sampled_negatives(share))
            }
            FactorForm::Deep(shape) => {
                Box::new(DeepMachine::new(shape.clone()).sampled_negatives(share))
            }
        }
    }
}
