//! Checks a plan's network against its data and this machine's memory, before anything starts.

use paceline_engine::Mode;
use paceline_job::{DataShape, ModelKind, NetworkPlan, Plan, Problem, RawJob};
use paceline_model::{Architecture, memory_text};
use paceline_terminal::counted;

use crate::Failure;
use crate::model_memory::memory_here;

/// The memory that a network needs in each worker, in bytes. Updates and exchange need more.
pub(crate) struct NetworkMemory {
    /// For the parameters.
    pub(crate) parameters: u64,
    /// For the values of a block.
    pub(crate) values: u64,
    /// Examples of a block.
    pub(crate) examples: usize,
}

impl NetworkMemory {
    pub(crate) fn of(plan: &Plan, network: &NetworkPlan, architecture: &Architecture) -> Self {
        let examples = plan.batch.min(network.most_examples(architecture));
        Self {
            parameters: 4 * architecture.layout().len() as u64,
            values: 4 * (examples * architecture.values()) as u64,
            examples,
        }
    }
}

/// Checks the plan's network, if it has one, for data of this shape.
pub(crate) fn check_network(job: &RawJob, plan: &Plan, shape: DataShape) -> Result<(), Failure> {
    let architecture = job.check_network(plan, shape.planes, Some(shape.classes))?;
    let (Some(architecture), ModelKind::Network(network)) = (architecture, &plan.model) else {
        return Ok(());
    };
    memory_problem(job, plan, network, &architecture).map_or(Ok(()), |problem| Err(problem.into()))
}

/// Why this machine's memory is too small for a plan's network, if it is.
pub(crate) fn memory_problem(
    job: &RawJob,
    plan: &Plan,
    network: &NetworkPlan,
    architecture: &Architecture,
) -> Option<Problem> {
    let NetworkMemory { parameters, values, examples } =
        NetworkMemory::of(plan, network, architecture);
    let states = plan.optimizer.optimizer().state_names().len() as u64;
    let (updates, what) = match plan.cluster.mode {
        Mode::Single => (states * parameters, "its optimizer's state"),
        _ => (parameters, "the gradient"),
    };
    let needed = parameters + updates + values;
    let here = memory_here().filter(|here| needed > *here)?;
    let [needed, own, updates, values, here] =
        [needed, parameters, updates, values, here].map(|bytes| memory_text(bytes.into()));
    let message = format!(
        "is the largest layer of a network that needs {needed} ({own} for its parameters, \
         {updates} for {what} and {values} for {}), but there are only {here} of memory; use \
         smaller sizes",
        counted(examples as u64, "example")
    );
    Some(job.layer_problem(network, largest_layer(architecture, examples), message))
}

/// The layer with the most parameters and values.
fn largest_layer(architecture: &Architecture, examples: usize) -> usize {
    let costs = architecture.cost();
    let size = |layer: usize| {
        costs[layer].params.len() + examples * architecture.shapes()[layer + 1].values()
    };
    (0..costs.len()).max_by_key(|&layer| size(layer)).unwrap_or(0)
}
