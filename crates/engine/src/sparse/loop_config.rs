//! What the training loop of a sparse model starts with, whatever its link.

use paceline_data::{BatchPlan, BatchWeights, SparseRows};
use paceline_model::SparseModel;

use crate::step_recorder::StepRecorder;

/// A slot's part of the batch plan over rows, and what its loop computes with.
pub(crate) struct SparseLoopConfig<'a> {
    pub(crate) slot: usize,
    pub(crate) plan: BatchPlan,
    pub(crate) rows: &'a SparseRows,
    pub(crate) model: Box<dyn SparseModel>,
    pub(crate) step_recorder: StepRecorder,
    pub(crate) weights: BatchWeights,
    /// The run's seed, from which the model draws its random choices.
    pub(crate) seed: u64,
}
