//! A trained model, from its file.

use std::path::Path;
use std::sync::Arc;

use paceline_model::{Architecture, Group, Layout, Shape};
use paceline_record::{InputKind, ModelDescription, ModelForm, model_file};
use paceline_table::Featurizer;

use crate::error::ScoreError;

/// The greatest size of anything in a description. Below it, no product of two overflows.
const MOST: usize = 1 << 32;
/// The greatest number of parameters of a model with vectors of features.
const MOST_PARAMETERS: u128 = 1 << 40;

/// A trained model: what its file says, and its parameters. Clones share the parameters.
#[derive(Clone, Debug)]
pub struct TrainedModel {
    description: ModelDescription,
    layout: Layout,
    params: Arc<[f32]>,
    /// The layers, if it is a network.
    architecture: Option<Architecture>,
    /// What turns rows into features, if it takes tables.
    table: Option<Arc<Featurizer>>,
}

impl TrainedModel {
    /// Reads a model file.
    ///
    /// # Errors
    /// If the file cannot be read, or does not say what its model takes, like those of earlier
    /// versions.
    pub fn load(path: &Path) -> Result<Self, ScoreError> {
        let description = model_file::describe(path)?.ok_or_else(|| {
            ScoreError::Refused(format!(
                "{}: the file does not say what its model takes: it is of an earlier version, or \
                 of a model of your own",
                path.display()
            ))
        })?;
        Self::load_described(path, description)
    }

    /// Reads the parameters of a file whose model is described elsewhere.
    ///
    /// # Errors
    /// If the file cannot be read or does not fit the description.
    pub fn load_described(path: &Path, description: ModelDescription) -> Result<Self, ScoreError> {
        let refused = |why: String| ScoreError::Refused(format!("{}: {why}", path.display()));
        let architecture = architecture(&description.form).map_err(refused)?;
        let layout = layout(&description.form, architecture.as_ref()).map_err(refused)?;
        let params = model_file::load(path, &layout)?.into();
        let table = table(&description.input.kind).map_err(refused)?;
        let model = Self { description, layout, params, architecture, table };
        if let Some(table) = &model.table
            && table.features() != model.inputs()
        {
            let (features, inputs) = (table.features(), model.inputs());
            let why = format!("its featuriser gives {features} features, but it takes {inputs}");
            return Err(refused(why));
        }
        if let (Some(table), ModelForm::Deep { numbers, .. }) =
            (&model.table, &model.description.form)
        {
            let (given, fields) = (table.fields(), model.fields());
            // Models of earlier versions may have fewer fields, and no numbers.
            if given.numbers() != *numbers || *numbers > 0 && given.len() != fields {
                let why = format!(
                    "its featuriser gives {} fields, {} of them numbers, but it takes {fields}, \
                     {numbers} of them numbers",
                    given.len(),
                    given.numbers()
                );
                return Err(refused(why));
            }
        }
        if let Some(shape) = example_shape(&model.description.input.kind)
            && product(shape) != Some(model.inputs())
        {
            let inputs = model.inputs();
            let why =
                format!("its examples have the shape {shape:?}, but it takes {inputs} values");
            return Err(refused(why));
        }
        let (names, classes) = (model.class_names().len(), model.classes());
        if names != classes {
            let why = format!("its description names {names} classes, but it has {classes}");
            return Err(refused(why));
        }
        Ok(model)
    }

    /// What the model takes, and how it computes.
    pub fn description(&self) -> &ModelDescription {
        &self.description
    }

    /// The names of the classes.
    pub fn class_names(&self) -> &[String] {
        &self.description.input.class_names
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        if self.outputs() == 1 { 2 } else { self.outputs() }
    }

    /// Scores of an example: one for each class, or 1 for a model of two classes with one score.
    pub fn outputs(&self) -> usize {
        match (&self.description.form, &self.architecture) {
            (_, Some(network)) => network.classes(),
            (ModelForm::Softmax { classes, .. } | ModelForm::SparseSoftmax { classes, .. }, _) => {
                *classes
            }
            _ => 1,
        }
    }

    /// Values of a dense example, or features of a sparse row.
    pub fn inputs(&self) -> usize {
        match &self.description.form {
            ModelForm::Softmax { inputs, .. } => *inputs,
            ModelForm::Logistic { features }
            | ModelForm::Fm { features, .. }
            | ModelForm::Ffm { features, .. }
            | ModelForm::SparseSoftmax { features, .. }
            | ModelForm::Deep { features, .. } => *features,
            ModelForm::Network { input, .. } => input.iter().product(),
        }
    }

    /// The number of fields that the model tells apart; 0 if it needs none.
    pub fn fields(&self) -> usize {
        self.description.form.factors().map_or(0, |form| form.fields())
    }

    /// Whether the model takes sparse rows.
    pub fn is_sparse(&self) -> bool {
        let form = &self.description.form;
        matches!(form, ModelForm::Logistic { .. }) || form.factors().is_some()
    }

    /// What turns rows into features, if the model takes tables.
    pub fn table_featurizer(&self) -> Option<&Arc<Featurizer>> {
        self.table.as_ref()
    }

    /// The layers, if the model is a network.
    pub fn architecture(&self) -> Option<&Architecture> {
        self.architecture.as_ref()
    }

    /// The named tensors of the parameters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The parameters, in the order of the layout.
    pub fn params(&self) -> &Arc<[f32]> {
        &self.params
    }
}

/// The architecture of a network.
fn architecture(form: &ModelForm) -> Result<Option<Architecture>, String> {
    let ModelForm::Network { input, layers, .. } = form else { return Ok(None) };
    check_sizes(input)?;
    check_sizes(&[product(input).unwrap_or(MOST)])?;
    let [channels, height, width] = *input;
    let layers = layers.iter().map(|layer| layer.layer()).collect();
    let built = Architecture::new(Shape::image(channels, height, width), layers);
    built.map(Some).map_err(|error| format!("its description is not of a network: {error}"))
}

/// The featuriser of a model that takes tables.
fn table(kind: &InputKind) -> Result<Option<Arc<Featurizer>>, String> {
    let InputKind::Table { table } = kind else { return Ok(None) };
    let read = Featurizer::from_json(&table.to_string());
    read.map(|table| Some(Arc::new(table))).map_err(|error| error.to_string())
}

fn layout(form: &ModelForm, architecture: Option<&Architecture>) -> Result<Layout, String> {
    let mut layout = Layout::new();
    match (form, architecture) {
        (_, Some(architecture)) => layout = architecture.layout().clone(),
        (ModelForm::Softmax { inputs, classes }, _) => {
            check_sizes(&[*inputs, *classes])?;
            layout.push("weight", &[*classes, *inputs], Group::Weights);
            layout.push("bias", &[*classes], Group::Biases);
        }
        (ModelForm::Logistic { features }, _) => {
            check_sizes(&[*features])?;
            layout.push("weight", &[*features], Group::Weights);
            layout.push("bias", &[1], Group::Biases);
        }
        (ModelForm::Network { .. }, None) => unreachable!("a network has an architecture"),
        (ModelForm::SparseSoftmax { classes: 1, .. }, _) => {
            return Err("its description has one class".into());
        }
        (form, _) => {
            let Some(form) = form.factors() else { unreachable!("the others have entries") };
            check_sizes(&form.sizes())?;
            if form.parameters() > MOST_PARAMETERS {
                return Err(format!("its description has {} parameters", form.parameters()));
            }
            layout = form.build(1.0).layout().clone();
        }
    }
    Ok(layout)
}

/// The shape of the examples that a description names.
fn example_shape(kind: &InputKind) -> Option<&[usize]> {
    match kind {
        InputKind::Numpy { shape, .. } | InputKind::Records { shape, .. } => Some(shape),
        InputKind::Array { shape } => Some(shape),
        _ => None,
    }
}

/// `None` if it is too large.
fn product(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
}

fn check_sizes(sizes: &[usize]) -> Result<(), String> {
    match sizes.iter().find(|size| !(1..MOST).contains(*size)) {
        Some(size) => Err(format!("its description has the impossible size {size}")),
        None => Ok(()),
    }
}
