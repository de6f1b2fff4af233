//! Describes the model of a plan for its model file, so that the file alone is enough for
//! predictions.

use std::io::ErrorKind;
use std::ops::ControlFlow;

use paceline_data::OpenReport;
use paceline_engine::TrainingData;
use paceline_record::names::files;
use paceline_record::{InputDescription, InputKind, ModelDescription, RunDir};
use paceline_table::{Featurizer, table_featurizer};
use serde_json::Value;

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

/// Whether two descriptions of tables turn every row into the same features. Numbers in JSON may
/// differ in a digit that the featurisers do not have.
pub(crate) fn are_same_features(a: &Value, b: &Value) -> bool {
    let read = |table: &Value| Featurizer::from_json(&table.to_string());
    match (read(a), read(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Writes the featuriser of a run over a table to the run directory, where a later session finds
/// it.
///
/// # Errors
/// If an earlier session of the run had another one: the parameters of its checkpoint would belong
/// to other columns and words.
pub(crate) fn keep_features(run: &RunDir, input: &InputKind) -> Result<(), Failure> {
    let InputKind::Table { table } = input else { return Ok(()) };
    let path = run.path().join(files::FEATURIZER);
    match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok(run.write(files::FEATURIZER, table.to_string().as_bytes())?)
        }
        Err(error) => Err(Failure::at("read", &path)(error)),
        Ok(text) => match serde_json::from_slice(&text) {
            Ok(earlier) if are_same_features(&earlier, table) => Ok(()),
            _ => Err(Failure::Usage(format!(
                "{}: the table has changed since the run began, or its columns are used in another \
                 way, so the checkpoint would be taken for one of other features; restore the \
                 table, or begin a new run",
                run.path().display()
            ))),
        },
    }
}
