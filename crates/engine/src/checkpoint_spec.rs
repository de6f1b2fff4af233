//! What the checkpoints of a run's shard are, according to the run's settings.

use paceline_exchange::{WireFormat, shard_ranges};
use paceline_model::Layout;

use crate::checkpoint::manifest::{FORMAT, TensorEntry, hex};
use crate::checkpoint::{CheckpointDir, CheckpointInfo, CheckpointSpec, PlanOrigin, layout_digest};
use crate::settings::TrainSettings;

/// One of the shards of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardPlace<'a> {
    /// Its number.
    pub(crate) index: usize,
    /// How many shards there are.
    pub(crate) count: usize,
    /// Whether its keys are not one range ([`KeyPlaces`](paceline_model::KeyPlaces)).
    pub(crate) is_spread: bool,
    /// The task that holds it, such as `ps:0`. Its file is named after it.
    pub(crate) task: &'a str,
}

/// How the batch plan of a run is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanPosition {
    /// Slots of the plan.
    pub(crate) slots: usize,
    /// Where the plan starts to count.
    pub(crate) origin: PlanOrigin,
}

/// The checkpoints of one shard of a run.
pub(crate) fn checkpoint_spec(
    dir: &CheckpointDir,
    settings: &TrainSettings,
    layout: &Layout,
    plan: PlanPosition,
    place: ShardPlace<'_>,
) -> CheckpointSpec {
    let tensors = layout
        .tensors()
        .iter()
        .map(|tensor| TensorEntry { name: tensor.name.clone(), shape: tensor.shape.clone() });
    let steps = settings.step_layout(plan.slots);
    let state_names = settings.optimizer.optimizer().state_names();
    let info = CheckpointInfo {
        format: FORMAT,
        paceline: env!("CARGO_PKG_VERSION").into(),
        step: 0,
        mode: settings.mode.name().into(),
        seed: settings.seed,
        slots: steps.slots,
        batch: steps.batch,
        common_step: steps.common_step,
        origin: plan.origin,
        job_digest: hex(&settings.job.digest),
        layout_digest: hex(&layout_digest(layout)),
        optimizer_state: state_names.iter().map(|&name| name.into()).collect(),
        known_gradients: if settings.wire == WireFormat::Bf16 { steps.slots } else { 0 },
        tensors: tensors.collect(),
        shard_count: place.count,
        is_spread: place.is_spread,
        generation: dir.generation(),
    };
    // The keys of a dense model are its parameters.
    let shard = layout.params_of(shard_ranges(layout.keys(), place.count)[place.index].clone());
    CheckpointSpec {
        dir: dir.clone(),
        keep: settings.checkpoint.map_or(usize::MAX, |checkpoint| checkpoint.keep),
        info,
        layout: layout.clone(),
        index: place.index,
        shard,
        name: place.task.replace(':', "-"),
    }
}
