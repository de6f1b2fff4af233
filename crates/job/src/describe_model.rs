//! Describes the model of a plan for its model file, so that the file alone is enough for
//! predictions.

use paceline_arrays::PictureOptions;
use paceline_data::sparse::FeatureNames;
use paceline_data::{ElementForm, Examples, SparseKind};
use paceline_engine::TrainingData;
use paceline_record::{
    InputDescription, InputKind, LayerDescription, ModelDescription, ModelForm, RecordElements,
    RowNames,
};

use super::data_shape::{DataShape, shape_of};
use super::plan::{DataKind, ModelKind, Plan};

impl Plan {
    /// What the plan's model takes, and how it computes. The featuriser of a table is described by
    /// the caller.
    pub fn describe_model(
        &self,
        data: &TrainingData,
        table: Option<InputDescription>,
    ) -> ModelDescription {
        let shape = shape_of(data);
        let input = table.unwrap_or_else(|| describe_input(self, data, shape));
        ModelDescription { input, form: form(&self.model, shape) }
    }
}

fn describe_input(plan: &Plan, data: &TrainingData, shape: DataShape) -> InputDescription {
    let names = match data {
        TrainingData::Examples(set) => set.train.class_names().to_vec(),
        TrainingData::Rows(set) => set.train.class_names().to_vec(),
        TrainingData::Images(_) => Vec::new(),
    };
    let numbers = || (0..shape.classes).map(|class| class.to_string()).collect();
    let names = if names.is_empty() { numbers() } else { names };
    InputDescription::new(input_kind(plan, data, shape), names)
}

fn input_kind(plan: &Plan, data: &TrainingData, shape: DataShape) -> InputKind {
    let [_, rows, columns] = shape.planes;
    let features = shape.inputs();
    match (&plan.data.kind, data) {
        (DataKind::Rows(spec), TrainingData::Rows(set)) => match spec.kind {
            SparseKind::Libsvm => {
                InputKind::Libsvm { features, first_index: set.train.first_index() }
            }
            SparseKind::Libffm => InputKind::Libffm { features },
            SparseKind::TfRecord => {
                let FeatureNames { label, index, value } = spec.feature_names.clone();
                InputKind::TfRecord { features, names: RowNames { label, index, value } }
            }
            SparseKind::Criteo => InputKind::Criteo { features },
            SparseKind::Clicks => InputKind::Clicks { features },
            // Tables are described by their featuriser.
            SparseKind::Table => InputKind::Array { shape: shape.planes },
        },
        (DataKind::Pictures { .. } | DataKind::FakeImages { .. }, _) => {
            let PictureOptions { size, resize, mean, std, .. } = PictureOptions::new(rows, 0);
            InputKind::Images { size, resize, mean, std }
        }
        (_, TrainingData::Images(_)) => InputKind::Digits { rows, columns },
        (_, TrainingData::Examples(set)) => dense_kind(&plan.data.kind, &*set.train),
        _ => InputKind::Array { shape: shape.planes },
    }
}

/// What a dense model takes whose examples are read one by one.
fn dense_kind(kind: &DataKind, examples: &dyn Examples) -> InputKind {
    let (shape, form) = (examples.shape(), examples.element_form());
    match (kind, form) {
        (DataKind::DenseRows(_), ElementForm::Rows { first_index }) => {
            InputKind::Libsvm { features: examples.inputs(), first_index }
        }
        (DataKind::Numpy(spec), _) => InputKind::Numpy {
            shape,
            pixels: form == ElementForm::Pixels,
            inputs: spec.inputs.clone(),
            labels: spec.labels.clone(),
        },
        (DataKind::Records(spec), _) => {
            let elements = match form {
                ElementForm::Pixels => RecordElements::Pixels,
                ElementForm::Pictures => {
                    let PictureOptions { resize, mean, std, .. } =
                        PictureOptions::new(spec.size, 0);
                    RecordElements::Pictures { resize, mean, std }
                }
                _ => RecordElements::Numbers,
            };
            let (inputs, labels) = (spec.inputs.clone(), spec.labels.clone());
            InputKind::Records { shape, inputs, labels, elements }
        }
        _ => InputKind::Array { shape },
    }
}

fn form(kind: &ModelKind, shape: DataShape) -> ModelForm {
    match kind {
        ModelKind::Softmax => ModelForm::Softmax { inputs: shape.inputs(), classes: shape.classes },
        ModelKind::Logistic { .. } => ModelForm::Logistic { features: shape.inputs() },
        ModelKind::Factors(factors) => factors.form(shape).into(),
        ModelKind::Network(plan) => {
            let architecture = plan.architecture(shape.planes, shape.classes);
            let layers = architecture.iter().flat_map(|network| network.layers());
            ModelForm::Network {
                name: plan.name.into(),
                input: shape.planes,
                layers: layers.map(LayerDescription::from).collect(),
            }
        }
    }
}
