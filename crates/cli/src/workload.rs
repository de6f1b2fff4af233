//! The model and the data of a plan, as the engine takes them.

use std::sync::Arc;

use paceline_engine::{ModelSizing, ModelSource, Shuffle, TrainError, TrainingData, Workload};
use paceline_model::{AlexNet, Logistic, Model, Softmax, lenet};

use crate::load_data::{DataShape, shape_of};
use paceline_job::{ModelKind, Plan};

/// Examples the networks compute with at a time. Memory grows with it; beyond this, speed does not.
const LENET_BLOCK: usize = 128;
const ALEXNET_BLOCK: usize = 64;

/// The workload of a plan.
pub(crate) fn build_workload(plan: &Plan, data: TrainingData) -> Workload {
    let shuffle = if !plan.data.shuffle {
        Shuffle::None
    } else if let TrainingData::Rows(_) = &data {
        Shuffle::Within(plan.data.shuffle_buffer)
    } else {
        Shuffle::Full
    };
    let model = model_source(plan.model, shape_of(&data));
    Workload { model, data, shuffle, on_bad: plan.data.on_bad }
}

/// Builds the models of a plan, for examples of this shape.
pub(crate) fn model_source(kind: ModelKind, shape: DataShape) -> ModelSource {
    if kind.is_sparse() {
        return ModelSource::Sparse(Arc::new(move || Box::new(Logistic::new(shape.inputs()))));
    }
    let for_patches = move |sizing: ModelSizing| {
        let model = Softmax::for_patches(shape.inputs(), shape.classes, sizing.threads);
        boxed(kind, model)
    };
    ModelSource::Dense {
        build: Arc::new(move |sizing| build_model(kind, shape, sizing)),
        build_for_patches: (kind == ModelKind::Softmax).then(|| Arc::new(for_patches) as _),
    }
}

/// The most examples that a model of this kind computes with at a time.
pub(crate) fn largest_block(kind: ModelKind) -> usize {
    match kind {
        ModelKind::LeNet { .. } => LENET_BLOCK,
        ModelKind::AlexNet { .. } => ALEXNET_BLOCK,
        ModelKind::Softmax | ModelKind::Logistic { .. } => usize::MAX,
    }
}

fn build_model(
    kind: ModelKind,
    shape: DataShape,
    sizing: ModelSizing,
) -> Result<Box<dyn Model>, TrainError> {
    let block = |most: usize| sizing.block.clamp(1, most);
    match kind {
        ModelKind::Softmax => Ok(Box::new(Softmax::new(shape.inputs(), shape.classes))),
        ModelKind::Logistic { .. } => Ok(Box::new(Logistic::new(shape.inputs()))),
        ModelKind::LeNet { init } => {
            let network = lenet(block(largest_block(kind)), sizing.threads);
            boxed(kind, network.map(|network| network.initialised(init)))
        }
        ModelKind::AlexNet { init, dropout } => {
            let sizes =
                AlexNet { classes: shape.classes, size: shape.planes[1], ..AlexNet::default() };
            let network = AlexNet { dropout, ..sizes };
            let network = network.network(block(largest_block(kind)), sizing.threads);
            boxed(kind, network.map(|network| network.initialised(init)))
        }
    }
}

/// The model, or an error that names the key.
fn boxed<M: Model + 'static, E: std::fmt::Display>(
    kind: ModelKind,
    model: Result<M, E>,
) -> Result<Box<dyn Model>, TrainError> {
    match model {
        Ok(model) => Ok(Box::new(model)),
        Err(error) => Err(TrainError::Settings(format!("model.kind = {:?}: {error}", kind.name()))),
    }
}
