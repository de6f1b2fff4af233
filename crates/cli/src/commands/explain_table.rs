//! The part of `paceline explain` that predicts the memory of a table of entries.

use paceline_data::SparseKind;
use paceline_job::{DataKind, DataShape, FactorPlan, Plan};
use paceline_model::{ParamTable, memory_text};
use paceline_terminal::grouped;

/// Fields of Criteo's rows, and of generated ones.
const CLICK_FIELDS: usize = 39;

/// The memory of a table whose entries exist once a row has their feature; empty for other models.
pub(super) fn table(plan: &Plan) -> String {
    let Some(factors) = plan.model.factors() else { return String::new() };
    if factors.name == FactorPlan::SOFTMAX {
        // The number of classes is known when the data has been read.
        let class = ParamTable::entry_bytes(&plan.optimizer, 1);
        return format!(
            "# table: 4 bytes for each feature and, for each that occurs in training, {class} \
             bytes for each class\n"
        );
    }
    let (features, fields) = match &plan.data.kind {
        DataKind::Rows(spec) => {
            let is_clicks = matches!(spec.kind, SparseKind::Clicks | SparseKind::Criteo);
            (spec.features, is_clicks.then_some(CLICK_FIELDS))
        }
        _ => (None, None),
    };
    // Only the entries of a field-aware machine depend on the number of fields.
    let known = fields.or((factors.name != "ffm").then_some(1));
    let place = match plan.cluster.servers {
        0 => "in this process".into(),
        1 => "on the server".into(),
        servers => format!("on {servers} servers together"),
    };
    let Some(fields) = known else {
        let one = entry_bytes(plan, factors, 1);
        let more = entry_bytes(plan, factors, 2) - one;
        return format!(
            "# table: 4 bytes for each feature and, for each that occurs in training, {one} bytes \
             and {more} more for each field after the first, {place}\n"
        );
    };
    let entry = entry_bytes(plan, factors, fields);
    let most = features.map(|features| {
        let most = memory_text(features as u128 * (4 + entry as u128));
        format!("; with all {} features, {most}", grouped(features as u64))
    });
    format!(
        "# table: 4 bytes for each feature and {entry} bytes for each that occurs in training, \
         {place}{}\n",
        most.unwrap_or_default()
    )
}

/// The memory of an entry for rows with this number of fields.
fn entry_bytes(plan: &Plan, factors: &FactorPlan, fields: usize) -> usize {
    let width = factors.form(DataShape::of_rows(1, fields)).width();
    ParamTable::entry_bytes(&plan.optimizer, width)
}
