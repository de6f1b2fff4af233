//! A model with several numbers for each feature, as a job names it.

use paceline_factor::{DeepShape, FactorForm};
use paceline_model::EntryPolicy;

use super::data_shape::DataShape;

/// A model with several numbers for each feature, before the data is known.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorPlan {
    /// The name in job files.
    pub name: &'static str,
    /// The length of a vector.
    pub rank: usize,
    /// The outputs of the perceptron's layers before the last, if the model has a perceptron.
    pub hidden: Vec<usize>,
    /// Which features have an entry.
    pub entries: EntryPolicy,
    /// The share of the perceptron's hidden outputs that training leaves out.
    pub dropout: f32,
}

impl FactorPlan {
    /// The name of softmax regression over sparse rows, which alone takes more than two classes.
    pub const SOFTMAX: &str = "sparse-softmax";

    /// The model for data of this shape.
    pub fn form(&self, shape: DataShape) -> FactorForm {
        let (features, fields, rank) = (shape.inputs(), shape.fields, self.rank);
        match self.name {
            "fm" => FactorForm::Fm { features, rank },
            "ffm" => FactorForm::Ffm { features, fields, rank },
            Self::SOFTMAX => FactorForm::Softmax { features, classes: shape.classes },
            name => {
                let (hidden, has_pairs) = (self.hidden.clone(), name == "deepfm");
                let numbers = shape.number_fields;
                let fields = fields - numbers;
                FactorForm::Deep(DeepShape { features, fields, numbers, rank, hidden, has_pairs })
            }
        }
    }

    /// Whether the model needs to know the fields of a row's features.
    pub fn uses_fields(&self) -> bool {
        !["fm", Self::SOFTMAX].contains(&self.name)
    }
}
