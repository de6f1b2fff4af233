//! Checks that a plan's parameters fit into this machine's memory, before anything starts.

use std::path::Path;

use paceline_engine::Mode;
use paceline_job::{DataShape, ModelKind, Plan, RawJob, SettingOrigin};
use paceline_model::{EntryPolicy, Table, TableMemory, memory_text};
use paceline_observe::container::Container;
use paceline_observe::machine::Machine;
use paceline_terminal::grouped;
use rustix::process::{Resource, getrlimit};

use crate::Failure;

/// What a part of a model needs, in bytes, and what for.
struct MemoryPart {
    bytes: u128,
    what: &'static str,
}

/// Checks the memory of a model for data of this shape, if all of it is on this machine. Networks
/// have a check of their own, which names the layer.
pub(crate) fn check_model_memory(
    job: &RawJob,
    plan: &Plan,
    shape: DataShape,
) -> Result<(), Failure> {
    check_table_memory(job, plan, shape)?;
    let Some((parameters, parts)) = model_parts(plan, shape) else { return Ok(()) };
    let needed = parts.iter().map(|part| part.bytes).sum();
    let Some(here) = memory_here().filter(|here| needed > u128::from(*here)) else { return Ok(()) };
    let parts: Vec<String> =
        parts.iter().map(|part| format!("{} for {}", memory_text(part.bytes), part.what)).collect();
    let (needed, here) = (memory_text(needed), memory_text(here.into()));
    let why = format!(
        "so the model has {} parameters and needs {needed} ({}), but there are only {here} of \
         memory; use fewer features, or more machines",
        grouped(parameters),
        parts.join(", ")
    );
    let features = shape.inputs();
    let problem = job.problem("data.features", format!("is {features}, {why}"));
    Err(match problem.origin {
        SettingOrigin::Default | SettingOrigin::Derived { .. } => {
            Failure::Usage(format!("the data has {features} features, {why}"))
        }
        _ => problem.into(),
    })
}

/// Checks that what a table takes before its first entry fits into the memory that the job allows.
fn check_table_memory(job: &RawJob, plan: &Plan, shape: DataShape) -> Result<(), Failure> {
    let Some(limit) = plan.cluster.memory else { return Ok(()) };
    let table = table_memory(plan, shape).filter(|_| plan.model.is_sparse());
    let Some(Err(why)) = table.map(|table| table.entries_within(limit)) else { return Ok(()) };
    Err(job.problem("cluster.memory", format!("is too small: {why}")).into())
}

/// The memory of a sparse model's table in each task that has one, for data of this shape.
pub(crate) fn table_memory(plan: &Plan, shape: DataShape) -> Option<TableMemory> {
    let (width, parameters, policy) = match &plan.model {
        ModelKind::Factors(factors) => {
            let form = factors.form(shape);
            (form.width(), form.parameters(), factors.entries)
        }
        _ => (1, shape.inputs() as u128 + 1, EntryPolicy::default()),
    };
    let parts = match plan.cluster.mode {
        Mode::Single | Mode::Mirrored => 1,
        _ => plan.cluster.servers.max(1),
    };
    let keys = usize::try_from(parameters.div_ceil(width as u128)).ok()?.div_ceil(parts);
    Some(TableMemory::of(&plan.optimizer, width, keys, policy))
}

/// The number of a model's parameters, and what they need.
fn model_parts(plan: &Plan, shape: DataShape) -> Option<(u64, Vec<MemoryPart>)> {
    let inputs = shape.inputs() as u64;
    let numbers = |count: u64| 4 * u128::from(count);
    let parameters = match plan.model {
        ModelKind::Network(_) => return None,
        // Entries exist once a row has touched them, so only their places are certain.
        ModelKind::Factors(_) => {
            let part = MemoryPart { bytes: numbers(inputs), what: "the places of entries" };
            return Some((inputs, vec![part]));
        }
        ModelKind::Softmax => (inputs + 1) * shape.classes as u64,
        ModelKind::Logistic { .. } => inputs + 1,
    };
    let states = plan.optimizer.optimizer().state_names().len();
    let is_sparse = plan.model.is_sparse();
    let width = if is_sparse { Table::width(&plan.optimizer) } else { 1 + states };
    let bytes = numbers(parameters) * width as u128;
    let what = if states > 0 { "the parameters and their state" } else { "the parameters" };
    let mut parts = vec![MemoryPart { bytes, what }];
    let is_alone = plan.cluster.mode == Mode::Single && plan.threads(1).per_loop(1) == 1;
    if !is_sparse {
        parts.push(MemoryPart { bytes: numbers(parameters), what: "the gradient" });
        let bytes = numbers(plan.batch as u64) * u128::from(inputs);
        parts.push(MemoryPart { bytes, what: "the inputs of a batch" });
    } else if is_alone && states == 0 {
        parts.push(MemoryPart { bytes: numbers(parameters), what: "sums of gradients" });
    }
    Some((parameters, parts))
}

/// The most memory of a sparse model's table, in bytes: what the job says, or else nine tenths of
/// what this process may use. The rest is for data, gradients and other programs.
pub(crate) fn table_limit(of_job: Option<u64>) -> Option<u64> {
    of_job.or_else(|| memory_here().map(|bytes| bytes / 10 * 9))
}

/// The memory that this process may use, in bytes, if it is known.
pub(crate) fn memory_here() -> Option<u64> {
    let root = Path::new("/");
    let machine = Machine::read(root).memory.total();
    let container = Container::find(root).memory(machine).map(|memory| memory.total());
    let limit = getrlimit(Resource::As).current;
    let known = [Some(container.unwrap_or(machine)), limit];
    known.into_iter().flatten().filter(|bytes| *bytes > 0).min()
}

#[cfg(test)]
mod tests;
