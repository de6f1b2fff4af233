//! The trained model that a job starts from.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use paceline_data::OpenReport;
use paceline_engine::{FeatureMove, StartModel, StartTensor};
use paceline_record::names::files;
use paceline_record::{InputKind, ModelReader, check_model_digest, model_file};
use paceline_table::{Featurizer, MatchedFeatures, table_featurizer};
use paceline_terminal::grouped;

use crate::Failure;
use paceline_job::{DataKind, ModelKind, Plan, RawJob};

/// The key that names the model.
const KEY: &str = "train.start";

/// Opens the model file that the plan starts from, if it names one. `say` shows which features of a
/// table are not those of the model.
pub(crate) fn open_start(
    job: &RawJob,
    plan: &Plan,
    say: &dyn Fn(&str),
) -> Result<Option<Arc<StartModel>>, Failure> {
    let Some(path) = &plan.start else { return Ok(None) };
    let path = if path.is_dir() { path.join(files::MODEL) } else { path.clone() };
    let checked = check_model_digest(&path).and_then(|()| ModelReader::open(&path));
    let model = checked.map_err(|error| job.problem(KEY, format!("cannot be used: {error}")))?;
    let tensors = model.tensors().iter().map(|one| (one.name.clone(), one.shape.clone()));
    let tensors = tensors.map(|(name, shape)| StartTensor { name, shape }).collect();
    let read = move |tensor, from, out: &mut [f32]| model.read(tensor, from, out);
    let start = StartModel::new(path.display().to_string(), tensors, read);
    let known = start_featurizer(job, &path)?;
    let start = match (&plan.data.kind, known) {
        (DataKind::Table(spec), Some(known)) => {
            let mut ignore = |_: OpenReport<'_>| ControlFlow::Continue(());
            let featurizer = table_featurizer(spec, &mut ignore)?;
            if matches!(&plan.model, ModelKind::Factors(factors) if factors.uses_fields()) {
                featurizer.check_fields(&known).map_err(|text| job.problem(KEY, text))?;
            }
            match_table(job, &known, &featurizer, start, say)?
        }
        (DataKind::Table(_), None) => {
            let text = "was not trained on a table, so nothing says which of its features belong \
                        to which column; start from a model of a table, or leave it out";
            return Err(job.problem(KEY, text).into());
        }
        (kind, Some(_)) => {
            let text = format!(
                "was trained on a table, whose features mean nothing for data.kind = {:?}; set \
                 data.kind = \"table\", or leave it out",
                kind.name()
            );
            return Err(job.problem(KEY, text).into());
        }
        (_, None) => start,
    };
    Ok(Some(Arc::new(start)))
}

/// The featuriser of a model that was trained on a table.
fn start_featurizer(job: &RawJob, path: &Path) -> Result<Option<Featurizer>, Failure> {
    let unusable = |error: String| job.problem(KEY, format!("cannot be used: {error}"));
    let described = model_file::describe(path).map_err(|error| unusable(error.to_string()))?;
    let Some(InputKind::Table { table }) = described.map(|described| described.input.kind) else {
        return Ok(None);
    };
    let known = Featurizer::from_json(&table.to_string());
    Ok(Some(known.map_err(|error| unusable(error.to_string()))?))
}

/// Finds the features of the plan's table in the model, by their columns.
fn match_table(
    job: &RawJob,
    known: &Featurizer,
    featurizer: &Featurizer,
    start: StartModel,
    say: &dyn Fn(&str),
) -> Result<StartModel, Failure> {
    if known.classes() != featurizer.classes() {
        let (theirs, ours) = (known.classes().join(", "), featurizer.classes().join(", "));
        let text = format!(
            "has the classes {theirs}, but the table has {ours}; give the label's column the \
             same classes in the same order"
        );
        return Err(job.problem(KEY, text).into());
    }
    let matched = featurizer.match_features(known);
    let found: usize = matched.iter().map(|features| features.to.len()).sum();
    if found == 0 {
        let text = "has no feature of the table: no column has the same name and use";
        return Err(job.problem(KEY, text).into());
    }
    if found < featurizer.features() {
        let [found, all] = [found, featurizer.features()].map(|count| grouped(count as u64));
        say(&format!("{found} of {all} features start from the model, the others are new"));
    }
    let to_move = |MatchedFeatures { to, from }| FeatureMove { to, from };
    let moves = matched.into_iter().map(to_move).collect();
    Ok(start.moving_features(known.features(), moves))
}
