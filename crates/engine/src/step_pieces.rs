//! The pieces in which a model's steps travel.

use paceline_exchange::{
    ExchangeConditions, FactorChoice, StepPiece, route_pieces, travels_in_pieces,
};
use paceline_model::Model;

use crate::error::TrainError;
use crate::settings::TrainSettings;

/// The conditions under which the gradients of a run travel.
pub fn exchange_conditions(settings: &TrainSettings, workers: usize) -> ExchangeConditions {
    ExchangeConditions {
        choice: settings.factors,
        workers,
        batch: settings.batch,
        link_bits_per_s: settings.link_bits_per_s,
        cores: settings.worker_cores,
        wire: settings.wire,
    }
}

/// The pieces of a model's steps; none if steps are made at once. A batch of several blocks is:
/// its gradient is final only after the last block.
///
/// # Errors
/// If the settings ask for factors, but the model or the batch has none.
pub(crate) fn step_pieces(
    model: &mut dyn Model,
    conditions: &ExchangeConditions,
) -> Result<Vec<StepPiece>, TrainError> {
    let (params, most) = (model.layout().len(), model.max_block());
    let batch = conditions.batch;
    let pieces = model.layered().map(|layered| layered.pieces());
    if conditions.choice == FactorChoice::Always && conditions.workers > 1 {
        let wrong = |text: String| Err(TrainError::Settings(format!("factors: {text}")));
        match &pieces {
            None => return wrong("this model has no layers; use FactorChoice::Auto".into()),
            Some(_) if batch > most => {
                return wrong(format!(
                    "a batch of {batch} is computed in blocks of {most}, and only one block has \
                     factors; use a batch of at most {most}, or FactorChoice::Auto"
                ));
            }
            Some(_) => {}
        }
    }
    let pieces = pieces.filter(|_| batch <= most && travels_in_pieces(params, conditions));
    Ok(pieces.map_or(Vec::new(), |pieces| route_pieces(&pieces, conditions)))
}
