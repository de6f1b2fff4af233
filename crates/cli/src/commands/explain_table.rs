//! The part of `paceline explain` that predicts the memory of a sparse model's table.

use paceline_data::SparseKind;
use paceline_data::sparse::CLICK_FIELDS;
use paceline_engine::Mode;
use paceline_job::{DataKind, DataShape, FactorPlan, Plan};
use paceline_model::{ParamTable, TableMemory, memory_text};
use paceline_terminal::grouped;

use crate::model_memory::table_memory;

/// The memory of a sparse model's table in each task; of its entries alone if the job does not say
/// how many features or fields the data has; empty for other models.
pub(super) fn memory(plan: &Plan) -> String {
    let Some(TaskMemory { task, table }) = task_memory(plan) else {
        return plan.model.factors().map_or(String::new(), |factors| entries_alone(plan, factors));
    };
    let text = |bytes: u64| memory_text(bytes.into());
    let (keys, fixed) = (grouped(table.keys as u64), text(table.fixed));
    let mut line = if table.entry == 0 {
        format!("# memory: {fixed} in {task}, for {keys} parameters and their state")
    } else {
        format!(
            "# memory: {fixed} in {task} for the index of {keys} keys, and {} bytes for each that \
             occurs: {} if all do",
            table.entry,
            text(table.most())
        )
    };
    if let Some(limit) = plan.cluster.memory {
        line += &match table.entries_within(limit) {
            Err(why) => format!("; too much: {why}"),
            Ok(None) => format!("; cluster.memory is {}, which is enough", text(limit)),
            Ok(Some(entries)) => {
                let entries = grouped(entries as u64);
                format!("; cluster.memory is {}, enough for {entries} keys", text(limit))
            }
        };
    }
    line += "\n# memory: about 30 MB more in each task, and in workers the mapped file of rows";
    if plan.checkpoint.is_some() {
        line += ", and up to twice the bytes of its entries while a task writes checkpoints";
    }
    line + "\n"
}

/// A table, and the task that has it.
struct TaskMemory {
    task: &'static str,
    table: TableMemory,
}

fn task_memory(plan: &Plan) -> Option<TaskMemory> {
    let DataKind::Rows(spec) = &plan.data.kind else { return None };
    let features = spec.features.filter(|_| plan.model.is_sparse())?;
    let has_fields = matches!(spec.kind, SparseKind::Clicks | SparseKind::Criteo);
    let fields = if has_fields { CLICK_FIELDS } else { 0 };
    let is_known = plan.model.factors().is_none_or(|factors| {
        factors.name != FactorPlan::SOFTMAX && (has_fields || !factors.uses_fields())
    });
    let shape = DataShape::of_rows(features, fields);
    let table = is_known.then(|| table_memory(plan, shape)).flatten()?;
    let task = match plan.cluster.mode {
        Mode::Single => "this process",
        Mode::Mirrored => "each worker",
        _ => "each server",
    };
    Some(TaskMemory { task, table })
}

/// What an entry takes, where the number of features or fields is not known.
fn entries_alone(plan: &Plan, factors: &FactorPlan) -> String {
    if factors.name == FactorPlan::SOFTMAX {
        // The number of classes is known when the data has been read.
        let class = ParamTable::entry_bytes(&plan.optimizer, 1);
        return format!(
            "# memory: 4 bytes for each feature and, for each that occurs, {class} for each class\n"
        );
    }
    let entry = |fields: usize| {
        let width = factors.form(DataShape::of_rows(1, fields)).width();
        TableMemory::of(&plan.optimizer, width, 1, factors.entries).entry
    };
    let (one, more) = (entry(1), entry(2) - entry(1));
    let fields = match more {
        0 => String::new(),
        more => format!(", and {more} more for each field after the first"),
    };
    format!("# memory: 4 bytes for each feature and {one} for each that occurs{fields}\n")
}
