//! What a model file says about its model besides the parameters: what the model takes, and how it
//! computes. With it, the file alone is enough for predictions.
//!
//! The two parts are JSON in the metadata of the file, under the keys `featurizer` and `model`.

use paceline_factor::{DeepShape, FactorForm};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::layer_description::LayerDescription;

/// The metadata key of the [`InputDescription`].
pub(crate) const FEATURIZER: &str = "featurizer";
/// The metadata key of the [`ModelForm`].
pub(crate) const MODEL: &str = "model";

/// The version of both descriptions. A reader refuses greater ones.
pub const DESCRIPTION_VERSION: u32 = 1;

/// What a model takes, and how it computes.
///
/// ```
/// use paceline_record::{InputDescription, InputKind};
///
/// let kind = InputKind::Libsvm { features: 123, first_index: 1 };
/// let input = InputDescription::new(kind, vec!["0".into(), "1".into()]);
/// let json = serde_json::to_string(&input)?;
/// assert!(json.starts_with(r#"{"version":1,"kind":"libsvm","features":123"#));
/// assert_eq!(serde_json::from_str::<InputDescription>(&json)?, input);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ModelDescription {
    /// What it takes.
    pub input: InputDescription,
    /// How it computes.
    pub form: ModelForm,
}

/// How raw input becomes the numbers that a model takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputDescription {
    /// [`DESCRIPTION_VERSION`] when it was written.
    pub version: u32,
    /// The kind of input, with what that kind needs.
    #[serde(flatten)]
    pub kind: InputKind,
    /// The names of the classes: class `i` is `class_names[i]`.
    #[serde(default)]
    pub class_names: Vec<String>,
}

impl InputDescription {
    /// A description of the current version.
    pub fn new(kind: InputKind, class_names: Vec<String>) -> Self {
        Self { version: DESCRIPTION_VERSION, kind, class_names }
    }
}

/// A kind of input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum InputKind {
    /// LIBSVM text. For a dense model, a row is a vector, and the names of the classes are labels.
    Libsvm {
        /// The number of features.
        features: usize,
        /// The index of the first feature: 0 or 1.
        first_index: u32,
    },
    /// LIBFFM text, whose indices count from 0.
    Libffm {
        /// The number of features.
        features: usize,
    },
    /// Generated clicks, or the same rows as LIBSVM text whose indices count from 0.
    Clicks {
        /// The number of features.
        features: usize,
    },
    /// Criteo's logs: 13 counts and 26 categories, hashed into the features.
    Criteo {
        /// The number of features.
        features: usize,
    },
    /// TFRecords of `tf.train.Example` with sparse rows.
    TfRecord {
        /// The number of features.
        features: usize,
        /// The names under which an Example has its label, keys and values.
        #[serde(default)]
        names: RowNames,
    },
    /// Grey images of bytes, as in IDX files; a byte `b` is the value `b / 255`.
    Digits {
        /// The height of an image, in pixels.
        rows: usize,
        /// The width of an image, in pixels.
        columns: usize,
    },
    /// Colour pictures: scaled so that the shorter side has `resize` pixels, cropped to the
    /// central square of `size`, then `(value / 255 - mean) / std` for each channel.
    Images {
        /// Height and width of the crop, in pixels.
        size: usize,
        /// The shorter side before cropping, in pixels.
        resize: usize,
        /// The mean of red, green and blue.
        mean: [f32; 3],
        /// The standard deviation of red, green and blue.
        std: [f32; 3],
    },
    /// Arrays of numpy, whose first dimension numbers the examples.
    Numpy {
        /// Channels, rows and columns of an example.
        shape: [usize; 3],
        /// Whether elements are bytes, which are divided by 255.
        pixels: bool,
        /// The name of the array with the inputs, if the job says it.
        inputs: Option<String>,
        /// The name of the array with the labels, if the job says it.
        labels: Option<String>,
    },
    /// TFRecords of `tf.train.Example` with dense inputs.
    Records {
        /// Channels, rows and columns of an example.
        shape: [usize; 3],
        /// The name of the feature with the inputs.
        inputs: String,
        /// The name of the feature with the class.
        labels: String,
        /// What the inputs are.
        elements: RecordElements,
    },
    /// Numbers as they are, without a description of where they come from.
    Array {
        /// Channels, rows and columns of an example.
        shape: [usize; 3],
    },
    /// A table.
    Table {
        /// The featuriser's own description.
        table: Value,
    },
}

/// The names under which a `tf.train.Example` has a sparse row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowNames {
    /// The label.
    pub label: String,
    /// The keys.
    pub index: String,
    /// The values of the keys.
    pub value: String,
}

impl Default for RowNames {
    fn default() -> Self {
        Self { label: "label".into(), index: "index".into(), value: "value".into() }
    }
}

/// What the inputs of a dense record are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordElements {
    /// Numbers, which keep their values.
    Numbers,
    /// Bytes, which are divided by 255.
    Pixels,
    /// Encoded pictures, which are scaled, cropped and normalised as those of
    /// [`InputKind::Images`].
    Pictures {
        /// The shorter side before cropping, in pixels.
        resize: usize,
        /// The mean of red, green and blue.
        mean: [f32; 3],
        /// The standard deviation of red, green and blue.
        std: [f32; 3],
    },
}

impl InputKind {
    /// The name in the description.
    pub fn name(&self) -> &'static str {
        match self {
            InputKind::Libsvm { .. } => "libsvm",
            InputKind::Libffm { .. } => "libffm",
            InputKind::Clicks { .. } => "clicks",
            InputKind::Criteo { .. } => "criteo",
            InputKind::TfRecord { .. } => "tfrecord",
            InputKind::Digits { .. } => "digits",
            InputKind::Images { .. } => "images",
            InputKind::Numpy { .. } => "numpy",
            InputKind::Records { .. } => "records",
            InputKind::Array { .. } => "array",
            InputKind::Table { .. } => "table",
        }
    }
}

/// How a model computes its scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ModelForm {
    /// Softmax regression.
    Softmax {
        /// Values of an example.
        inputs: usize,
        /// Number of classes.
        classes: usize,
    },
    /// Logistic regression over sparse rows.
    Logistic {
        /// Number of features.
        features: usize,
    },
    /// A factorization machine over sparse rows.
    Fm {
        /// Number of features.
        features: usize,
        /// The length of a feature's vector.
        rank: usize,
    },
    /// A field-aware factorization machine over sparse rows.
    Ffm {
        /// Number of features.
        features: usize,
        /// Number of fields.
        fields: usize,
        /// The length of a vector.
        rank: usize,
    },
    /// A perceptron on the vectors of sparse features.
    Deep {
        /// Number of features.
        features: usize,
        /// Number of fields whose features have vectors.
        fields: usize,
        /// Number of fields after them whose numbers are inputs of the perceptron.
        #[serde(default, skip_serializing_if = "is_zero")]
        numbers: usize,
        /// The length of a feature's vector.
        rank: usize,
        /// The outputs of the layers before the last.
        hidden: Vec<usize>,
        /// Whether pairs of vectors add to the score.
        pairs: bool,
    },
    /// Softmax regression over sparse rows.
    #[serde(rename = "sparse-softmax")]
    SparseSoftmax {
        /// Number of features.
        features: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A list of layers with softmax at its end.
    Network {
        /// The name in job files: `lenet`, `alexnet` or `network`.
        name: String,
        /// Channels, rows and columns of an example.
        input: [usize; 3],
        /// The layers, in order.
        layers: Vec<LayerDescription>,
    },
}

/// Whether the description can leave a number out.
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl From<FactorForm> for ModelForm {
    fn from(form: FactorForm) -> Self {
        match form {
            FactorForm::Fm { features, rank } => ModelForm::Fm { features, rank },
            FactorForm::Ffm { features, fields, rank } => ModelForm::Ffm { features, fields, rank },
            FactorForm::Deep(shape) => {
                let DeepShape { features, fields, numbers, rank, hidden, has_pairs: pairs } = shape;
                ModelForm::Deep { features, fields, numbers, rank, hidden, pairs }
            }
            FactorForm::Softmax { features, classes } => {
                ModelForm::SparseSoftmax { features, classes }
            }
        }
    }
}

impl ModelForm {
    /// The name in job files.
    pub fn name(&self) -> &str {
        match self {
            ModelForm::Softmax { .. } => "softmax",
            ModelForm::Logistic { .. } => "logistic",
            ModelForm::Fm { .. } => "fm",
            ModelForm::Ffm { .. } => "ffm",
            ModelForm::Deep { pairs: true, .. } => "deepfm",
            ModelForm::Deep { .. } => "wide-deep",
            ModelForm::SparseSoftmax { .. } => "sparse-softmax",
            ModelForm::Network { name, .. } => name,
        }
    }

    /// What the model is built from, if it has several numbers for each feature.
    pub fn factors(&self) -> Option<FactorForm> {
        Some(match *self {
            ModelForm::Fm { features, rank } => FactorForm::Fm { features, rank },
            ModelForm::Ffm { features, fields, rank } => FactorForm::Ffm { features, fields, rank },
            ModelForm::Deep { features, fields, numbers, rank, ref hidden, pairs } => {
                let (hidden, has_pairs) = (hidden.clone(), pairs);
                FactorForm::Deep(DeepShape { features, fields, numbers, rank, hidden, has_pairs })
            }
            ModelForm::SparseSoftmax { features, classes } => {
                FactorForm::Softmax { features, classes }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_input_is_read_back_under_its_name() {
        let (features, table) = (7, serde_json::json!({"columns": []}));
        let records = |elements| InputKind::Records {
            shape: [3, 8, 8],
            inputs: "image".into(),
            labels: "class".into(),
            elements,
        };
        let kinds = [
            InputKind::Libsvm { features, first_index: 0 },
            InputKind::Libffm { features },
            InputKind::Clicks { features },
            InputKind::Criteo { features },
            InputKind::TfRecord { features, names: RowNames::default() },
            InputKind::Digits { rows: 28, columns: 28 },
            InputKind::Images { size: 64, resize: 73, mean: [0.485; 3], std: [0.229; 3] },
            InputKind::Numpy { shape: [3, 8, 8], pixels: true, inputs: None, labels: None },
            records(RecordElements::Numbers),
            records(RecordElements::Pictures { resize: 9, mean: [0.5; 3], std: [0.1; 3] }),
            InputKind::Array { shape: [1, 1, 9] },
            InputKind::Table { table },
        ];
        for kind in kinds {
            let name = kind.name();
            let input = InputDescription::new(kind, vec!["no".into(), "yes".into()]);
            let json = serde_json::to_value(&input).unwrap();
            assert_eq!((&json["kind"], &json["version"]), (&name.into(), &1.into()));
            assert_eq!(serde_json::from_value::<InputDescription>(json).unwrap(), input);
        }
    }
}
