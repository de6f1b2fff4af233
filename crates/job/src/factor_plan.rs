//! A model with vectors of features, as a job names it.

use paceline_factor::{DeepShape, FactorForm};
use paceline_model::EntryPolicy;

use super::data_shape::DataShape;

/// A model with vectors of features, before the data is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactorPlan {
    /// The name in job files.
    pub name: &'static str,
    /// The length of a vector.
    pub rank: usize,
    /// The outputs of the perceptron's layers before the last, if the model has a perceptron.
    pub hidden: Vec<usize>,
    /// Which features have an entry.
    pub entries: EntryPolicy,
}

impl FactorPlan {
    /// The model for data of this shape.
    pub fn form(&self, shape: DataShape) -> FactorForm {
        let (features, fields, rank) = (shape.inputs(), shape.fields, self.rank);
        match self.name {
            "fm" => FactorForm::Fm { features, rank },
            "ffm" => FactorForm::Ffm { features, fields, rank },
            name => {
                let (hidden, has_pairs) = (self.hidden.clone(), name == "deepfm");
                FactorForm::Deep(DeepShape { features, fields, rank, hidden, has_pairs })
            }
        }
    }

    /// Whether the model needs to know the fields of a row's features.
    pub fn uses_fields(&self) -> bool {
        self.name != "fm"
    }
}
