//! The parameters that a new run starts from: the model's own, or those of a trained model.

use std::ops::Range;

use paceline_model::{Model, OptimizerState};

use crate::checkpoint::DenseShard;
use crate::error::TrainError;
use crate::settings::TrainSettings;

/// All parameters of a dense model at the start of a run.
pub(crate) fn initial_params(
    model: &dyn Model,
    settings: &TrainSettings,
) -> Result<Vec<f32>, TrainError> {
    let mut params = vec![0.0; model.layout().len()];
    model.initialise(settings.seed, &mut params);
    if let Some(start) = &settings.start {
        start.read_range(model, 0..params.len(), &mut params)?;
    }
    Ok(params)
}

/// A shard of a dense model at the start of a run, with its optimizer.
pub(crate) fn initial_shard(
    model: &dyn Model,
    settings: &TrainSettings,
    shard: Range<usize>,
) -> Result<DenseShard, TrainError> {
    let mut params = initial_params(model, settings)?;
    if shard.len() < params.len() {
        // A copy, so that the memory of the other shards is released.
        params = params[shard.clone()].to_vec();
    }
    let optimizer = initial_state(model, settings, shard, &params);
    Ok(DenseShard { params, optimizer })
}

/// The state of the optimizer of a shard whose parameters a run starts from.
pub(crate) fn initial_state(
    model: &dyn Model,
    settings: &TrainSettings,
    shard: Range<usize>,
    params: &[f32],
) -> OptimizerState {
    let spec = settings.optimizer.clone();
    let mut optimizer = OptimizerState::new(spec, model.layout(), shard);
    if settings.start.is_some() {
        optimizer.start_from(params);
    }
    optimizer
}
