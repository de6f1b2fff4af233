//! The layers of a network as a table, for `paceline explain`.

use paceline_engine::Mode;
use paceline_job::{ModelKind, Plan, RawJob};
use paceline_model::{Architecture, LayerCost, memory_text};

use crate::Failure;
use crate::load_data::example_planes;
use crate::network_check::{NetworkMemory, memory_problem};
use paceline_terminal::{counted, fitted, grouped, output_width, wrap_comments};

/// The columns that a narrow terminal does not show, the least important first.
const DROPPABLE: [&str; 3] = ["kind", "backward", "MFLOP forward"];

/// The table of a plan's network, as comments; empty for other models.
pub(crate) fn layer_table(job: &RawJob, plan: &Plan) -> Result<String, Failure> {
    let ModelKind::Network(network) = &plan.model else { return Ok(String::new()) };
    let planes = match example_planes(plan) {
        Ok(planes) if planes.contains(&0) => {
            return Ok(
                "\n# layers: their shapes depend on the data, which is not read here\n".into()
            );
        }
        Ok(planes) => planes,
        Err(failure) => {
            return Ok(format!(
                "\n# layers: their shapes depend on data that is not here: {failure}\n"
            ));
        }
    };
    let Some(architecture) = job.check_network(plan, planes, plan.data.kind.classes())? else {
        return Ok(String::new());
    };
    let costs = architecture.cost();
    let mut rows = vec![header()];
    rows.extend((0..costs.len()).map(|layer| row(&architecture, layer, &costs[layer])));
    rows.push(totals(&costs));
    let input = architecture.shapes()[0];
    let classes = match plan.data.kind.classes() {
        Some(classes) => format!("{} classes", grouped(classes as u64)),
        None => "as many classes as the data has (2 in this table)".to_owned(),
    };
    let memory = NetworkMemory::of(plan, network, &architecture);
    let title =
        format!("# layers, for examples of {input} and {classes}; MFLOP are of one example\n");
    let memory = format!(
        "# memory: {} for the parameters, and {} for the values of {}{}\n",
        memory_text(memory.parameters.into()),
        memory_text(memory.values.into()),
        counted(memory.examples as u64, "example"),
        if plan.cluster.mode == Mode::Single { "" } else { " in each worker" },
    );
    let refusal = match memory_problem(job, plan, network, &architecture) {
        Some(problem) => format!("# train refuses this network on this machine: {problem}\n"),
        None => String::new(),
    };
    let table = comment_table(&rows, &DROPPABLE);
    let [title, memory, refusal] = [title, memory, refusal].map(|text| wrap_comments(&text));
    Ok(format!("\n{title}{table}{memory}{refusal}"))
}

/// A table as comments that fit the terminal. Narrow ones lack the columns of `droppable`.
pub(crate) fn comment_table(rows: &[Vec<String>], droppable: &[&str]) -> String {
    let width = output_width().map(|width| width.saturating_sub(2));
    fitted(rows, droppable, width).lines().map(|line| format!("# {line}\n")).collect()
}

fn header() -> Vec<String> {
    ["layer", "name", "kind", "output", "parameters", "MFLOP forward", "backward"]
        .map(String::from)
        .to_vec()
}

fn row(architecture: &Architecture, layer: usize, cost: &LayerCost) -> Vec<String> {
    vec![
        layer.to_string(),
        cost.name.clone(),
        cost.kind.to_owned(),
        architecture.shapes()[layer + 1].to_string(),
        grouped(cost.params.len() as u64),
        millions(cost.forward),
        millions(cost.backward),
    ]
}

fn totals(costs: &[LayerCost]) -> Vec<String> {
    let sum = |part: fn(&LayerCost) -> u64| {
        costs.iter().fold(0u64, |sum, cost| sum.saturating_add(part(cost)))
    };
    vec![
        "all".to_owned(),
        String::new(),
        String::new(),
        String::new(),
        grouped(sum(|cost| cost.params.len() as u64)),
        millions(sum(|cost| cost.forward)),
        millions(sum(|cost| cost.backward)),
    ]
}

fn millions(operations: u64) -> String {
    format!("{:.3}", operations as f64 / 1e6)
}
