//! The layers of a network as a table, for `paceline explain`.

use paceline_job::{ModelKind, Plan, RawJob};
use paceline_model::{Architecture, LayerCost, memory_text};

use crate::Failure;
use crate::load_data::example_planes;
use crate::network_check::NetworkMemory;
use crate::text_table::{aligned, counted, grouped};

/// The table of a plan's network, as comments; empty for other models.
pub(crate) fn layer_table(job: &RawJob, plan: &Plan) -> Result<String, Failure> {
    let ModelKind::Network(network) = &plan.model else { return Ok(String::new()) };
    let planes = match example_planes(plan) {
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
    Ok(format!(
        "\n# layers, for examples of {input} and {classes}; MFLOP are of one example\n{}# memory: \
         {} for the parameters, and {} for the values of {} in each worker\n",
        aligned(&rows),
        memory_text(memory.parameters.into()),
        memory_text(memory.values.into()),
        counted(memory.examples as u64, "example"),
    ))
}

fn header() -> Vec<String> {
    ["# layer", "name", "kind", "output", "parameters", "MFLOP forward", "backward"]
        .map(String::from)
        .to_vec()
}

fn row(architecture: &Architecture, layer: usize, cost: &LayerCost) -> Vec<String> {
    vec![
        format!("# {layer}"),
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
        "# all".to_owned(),
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
