//! How each layer's gradient travels in `mirrored`, for `paceline explain`.

use paceline_engine::{Mode, ModelSizing, ModelSource, TestHooks, exchange_conditions};
use paceline_exchange::{ExchangeConditions, route_pieces, travels_in_pieces};
use paceline_job::{ModelKind, Plan, RawJob};
use paceline_model::{LayerPiece, memory_text};

use crate::Failure;
use crate::layer_table::comment_table;
use crate::load_data::known_shape;
use crate::network_check::memory_problem;
use crate::workload::model_source;
use paceline_terminal::{grouped, wrap_comments};

/// A table of the layers with parameters, and how their gradients travel between `workers`
/// workers. Empty if the run is not `mirrored`, the model has no layers, it does not fit into this
/// machine's memory, or its size is not known before the data is read.
pub(super) fn layers(job: &RawJob, plan: &Plan, workers: usize) -> Result<String, Failure> {
    let (Mode::Mirrored, Some(shape)) = (plan.cluster.mode, known_shape(plan)) else {
        return Ok(String::new());
    };
    let ModelKind::Network(network) = &plan.model else { return Ok(String::new()) };
    let Ok(architecture) = network.architecture(shape.planes, shape.classes) else {
        return Ok(String::new());
    };
    if memory_problem(job, plan, network, &architecture).is_some() {
        return Ok(String::new());
    }
    let ModelSource::Dense { build, .. } = model_source(plan, shape) else {
        return Ok(String::new());
    };
    let mut model = build(ModelSizing::LEAST)?;
    let params = model.layout().len();
    let Some(layered) = model.layered() else { return Ok(String::new()) };
    let pieces = layered.pieces();
    let settings = plan.settings([0; 32].into(), TestHooks::default());
    let conditions = exchange_conditions(&settings, workers);
    if workers < 2 {
        return Ok(String::new());
    }
    let reason = if plan.batch > network.most_examples(&architecture) {
        "the batch is computed in several blocks"
    } else if !travels_in_pieces(params, &conditions) {
        "the model is small"
    } else {
        return Ok(table(&pieces, &conditions));
    };
    let text = format!("# exchange: the whole gradient after each step, because {reason}\n");
    Ok(format!("\n{}", wrap_comments(&text)))
}

fn table(pieces: &[LayerPiece], conditions: &ExchangeConditions) -> String {
    let header = ["layer", "parameters", "travels as", "sent per worker and step"];
    let mut rows = vec![header.map(String::from).to_vec()];
    for (piece, route) in pieces.iter().zip(route_pieces(pieces, conditions)) {
        let (way, bytes) = match route.factors {
            Some(sizes) => ("factors", conditions.factor_bytes(sizes)),
            None => ("gradient", conditions.gradient_bytes(piece.range.len())),
        };
        rows.push(vec![
            piece.name.clone(),
            grouped(piece.range.len() as u64),
            way.into(),
            memory_text(bytes as u128),
        ]);
    }
    let table = comment_table(&rows, &["parameters"]);
    format!("\n# exchange, layer by layer while the model computes\n{table}")
}
