//! The model and the data of a plan, as the engine takes them.

use std::sync::Arc;

use paceline_engine::{ModelSizing, ModelSource, Shuffle, TrainError, TrainingData, Workload};
use paceline_model::{Logistic, Model, Network, Softmax, SparseModel};

use paceline_job::{DataKind, DataShape, ModelKind, NetworkPlan, Plan, shape_of};

/// The workload of a plan.
pub(crate) fn build_workload(plan: &Plan, data: TrainingData) -> Workload {
    let shuffle = if !plan.data.shuffle {
        Shuffle::None
    } else if let DataKind::Rows(_) | DataKind::Table(_) = &plan.data.kind {
        Shuffle::Within(plan.data.shuffle_buffer)
    } else {
        Shuffle::Full
    };
    let model = model_source(plan, shape_of(&data));
    Workload { model, data, shuffle, on_bad: plan.data.on_bad }
}

/// The workload of a plan whose model sees all its parameters, for a test.
pub(crate) fn whole_workload(plan: &Plan, data: TrainingData) -> Workload {
    let workload = build_workload(plan, data);
    let ModelSource::Sparse(build) = workload.model else { return workload };
    let build = Arc::new(move |_| -> Result<Box<dyn Model>, TrainError> { Ok(build()) });
    Workload { model: ModelSource::Dense { build, build_for_patches: None }, ..workload }
}

/// Builds the models of a plan, for examples of this shape.
pub(crate) fn model_source(plan: &Plan, shape: DataShape) -> ModelSource {
    let kind = &plan.model;
    let negatives = plan.data.negatives.unwrap_or(1.0);
    if let Some(factors) = kind.factors() {
        let (form, dropout) = (factors.form(shape), factors.dropout);
        let build = move || form.build_with_dropout(negatives, dropout);
        return ModelSource::Sparse(Arc::new(build));
    }
    if kind.is_sparse() {
        return ModelSource::Sparse(Arc::new(move || logistic(shape, negatives)));
    }
    let for_patches = move |sizing: ModelSizing| {
        let model = Softmax::for_patches(shape.inputs(), shape.classes, sizing.threads);
        boxed(ModelKind::Softmax.name(), model)
    };
    let is_softmax = *kind == ModelKind::Softmax;
    let kind = kind.clone();
    ModelSource::Dense {
        build: Arc::new(move |sizing| match &kind {
            ModelKind::Softmax => Ok(Box::new(Softmax::new(shape.inputs(), shape.classes))),
            ModelKind::Logistic { .. } | ModelKind::Factors(_) => Ok(logistic(shape, negatives)),
            ModelKind::Network(network) => build_network(network, shape, sizing),
        }),
        build_for_patches: is_softmax.then(|| Arc::new(for_patches) as _),
    }
}

/// Logistic regression that trains on this share of the negative rows.
///
/// This crate is not optimised, so it must not box the model itself: `SparseLinear` is generic.
fn logistic(shape: DataShape, negatives: f64) -> Box<dyn SparseModel> {
    Logistic::new(shape.inputs()).sampled_negatives(negatives).boxed()
}

fn build_network(
    plan: &NetworkPlan,
    shape: DataShape,
    sizing: ModelSizing,
) -> Result<Box<dyn Model>, TrainError> {
    let network = plan.architecture(shape.planes, shape.classes).and_then(|architecture| {
        let block = sizing.block.clamp(1, plan.most_examples(&architecture));
        Network::of(architecture, block, sizing.threads)
    });
    boxed(plan.name, network.map(|network| network.initialised(plan.init)))
}

/// The model, or an error that names the key.
fn boxed<M: Model + 'static, E: std::fmt::Display>(
    kind: &str,
    model: Result<M, E>,
) -> Result<Box<dyn Model>, TrainError> {
    match model {
        Ok(model) => Ok(Box::new(model)),
        Err(error) => Err(TrainError::Settings(format!("model.kind = {kind:?}: {error}"))),
    }
}
