//! Describes the model of a plan for its model file, so that the file alone is enough for
//! predictions.

use std::ops::ControlFlow;

use paceline_data::OpenReport;
use paceline_engine::TrainingData;
use paceline_record::{InputDescription, InputKind, ModelDescription};
use paceline_table::table_featurizer;

use crate::Failure;
use paceline_job::{DataKind, Plan};

/// What the model of a plan takes, and how it computes.
///
/// # Errors
/// If the featuriser of a table, which the data was read with, cannot be read again.
pub(crate) fn describe_model(
    plan: &Plan,
    data: &TrainingData,
) -> Result<ModelDescription, Failure> {
    let DataKind::Table(spec) = &plan.data.kind else {
        return Ok(plan.describe_model(data, None));
    };
    let mut ignore = |_: OpenReport<'_>| ControlFlow::Continue(());
    let featurizer = table_featurizer(spec, &mut ignore)?;
    let names = featurizer.classes().to_vec();
    let table = serde_json::from_str(&featurizer.to_json()).unwrap_or_default();
    let input = InputDescription::new(InputKind::Table { table }, names);
    Ok(plan.describe_model(data, Some(input)))
}
