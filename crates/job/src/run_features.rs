//! The features of a run over a table, which later sessions and tests of the run must share.

use std::io::ErrorKind;
use std::path::Path;

use paceline_record::names::files;
use paceline_record::{InputKind, ModelDescription, RunDir, RunFileError, model_file};
use paceline_table::Featurizer;
use serde_json::Value;

use crate::plan::{DataKind, Plan};

/// The longest description of a table's features that is read, in bytes.
const MAX_FEATURIZER_BYTES: u64 = 256 << 20;

/// Whether two descriptions of tables turn every row into the same features. Numbers in JSON may
/// differ in a digit that the featurisers do not have.
fn are_same_features(a: &Value, b: &Value) -> bool {
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
pub fn keep_features(run: &RunDir, input: &InputKind) -> Result<(), RunFileError> {
    let InputKind::Table { table } = input else { return Ok(()) };
    let path = run.path().join(files::FEATURIZER);
    match run.read(files::FEATURIZER, MAX_FEATURIZER_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            run.write(files::FEATURIZER, table.to_string().as_bytes())
        }
        Err(error) => Err(RunFileError::at("read", &path)(error)),
        Ok(text) => match serde_json::from_slice(&text) {
            Ok(earlier) if are_same_features(&earlier, table) => Ok(()),
            _ => Err(RunFileError::Refused(format!(
                "{}: the table has changed since the run began, or its columns are used in another \
                 way, so the checkpoint would be taken for one of other features; restore the \
                 table, or begin a new run",
                run.path().display()
            ))),
        },
    }
}

/// Refuses to test a model on a table that a job reads to other features than the model's: the
/// parameters would belong to other columns and words.
pub fn check_same_features(
    model: &Path,
    plan: &Plan,
    read: &ModelDescription,
) -> Result<(), RunFileError> {
    let saved = model_file::describe(model)?.map(|saved| saved.input.kind);
    let (Some(InputKind::Table { table: saved }), InputKind::Table { table: read }) =
        (saved, &read.input.kind)
    else {
        return Ok(());
    };
    let DataKind::Table(spec) = &plan.data.kind else { return Ok(()) };
    if are_same_features(&saved, read) {
        return Ok(());
    }
    let (model, table) = (model.display(), spec.path.display());
    Err(RunFileError::Refused(format!(
        "{table}: the table is not the one that {model} was trained on, or has changed since, so \
         its columns and words would be taken for others; to test the model on the table as it \
         is, name it: paceline evaluate {model} {table}"
    )))
}

/// Refuses a directory that is not a run's, and names a run in it.
pub fn not_a_run(dir: &Path) -> RunFileError {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let runs = entries.map(|entry| entry.path()).filter(|run| run.join(files::MODEL).is_file());
    let newest = runs.max_by_key(|run| run.metadata().and_then(|about| about.modified()).ok());
    let hint = match newest {
        Some(run) => format!("; it contains runs: name one of them, such as {}", run.display()),
        None => format!(": it has neither {} nor {}", files::JOB, files::MODEL),
    };
    RunFileError::Refused(format!("{}: this is not the directory of a run{hint}", dir.display()))
}
