//! What depends on how many examples the gradient of a step is the mean of.

use paceline_model::{AdaGrad, OptimizerSpec};
use paceline_observe::{BatchSize, JobBatches};

use super::plan::{ClusterPlan, Plan};
use super::raw::PlacedTasks;

/// The batches of a cluster's workers.
pub(super) fn batches_of(cluster: &ClusterPlan, size: BatchSize) -> JobBatches {
    let ClusterPlan { workers, slots, .. } = *cluster;
    JobBatches { mode: cluster.mode.kind(), workers, slots, size, quorum: None }
}

/// The optimizer for gradients that are means: what AdaGrad's sums start from is set for single
/// examples, whose gradients a step of n examples divides by n. The workers are those that the
/// environment lists, if it does.
pub(super) fn for_mean_gradients(plan: &Plan, placed: Option<PlacedTasks>) -> OptimizerSpec {
    let Some(&ada_grad) = plan.optimizer.downcast::<AdaGrad>() else {
        return plan.optimizer.clone();
    };
    let mut batches = batches_of(&plan.cluster, BatchSize::PerSlot(plan.batch));
    if let Some(tasks) = placed.filter(|tasks| tasks.workers > 0) {
        batches.workers = tasks.workers;
    }
    let examples = batches.examples_per_step() as f32;
    let initial = ada_grad.initial / (examples * examples);
    let OptimizerSpec { weights, biases, .. } = plan.optimizer;
    OptimizerSpec::new(AdaGrad { initial, ..ada_grad }, 0.0).groups(weights, biases)
}
