//! Finds the trained model that a command names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_data::DataError;
use paceline_data::sniff::{FileKind, sniff_file};
use paceline_engine::TrainingData;
use paceline_record::names::files;
use paceline_record::{ModelDescription, check_model_digest, model_file};
use paceline_score::{ExampleInput, ExampleSource, ScoreError, TrainedModel};

use super::read_job::{keep_defaults, read_job};
use super::run_path::check_exists;
use crate::Failure;
use crate::data_display::DataDisplay;
use crate::describe_model::describe_model;
use crate::interrupt::Interrupt;
use crate::job_args::JobArgs;
use crate::load_data::load_data;
use crate::stop_source::StopSource;
use paceline_job::{Plan, RawJob, check_same_features, not_a_run};

/// A trained model, and the file it is from.
pub(crate) struct LoadedModel {
    pub(crate) path: PathBuf,
    pub(crate) model: TrainedModel,
}

/// The model file of a path that may be a run directory, if it is as its run wrote it.
pub(crate) fn model_path(path: &Path) -> Result<PathBuf, Failure> {
    check_exists(path)?;
    let file = if path.is_dir() { path.join(files::MODEL) } else { path.to_owned() };
    if file.try_exists().map_err(Failure::at("read", &file))? {
        check_is_model(&file)?;
        check_model_digest(&file)?;
        return Ok(file);
    }
    if !path.join(files::JOB).is_file() {
        return Err(not_a_run(path).into());
    }
    let shown = file.display();
    let why = format!("{shown}: there is no such file; a run writes its model when it ends");
    Err(Failure::Usage(why))
}

/// Refuses a file of data in the place of a model.
fn check_is_model(file: &Path) -> Result<(), Failure> {
    let Ok(kind @ (FileKind::Table(_) | FileKind::Parquet | FileKind::Libsvm | FileKind::Criteo)) =
        sniff_file(file)
    else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "{}: this is not a model: it looks like {}; name the model or its run first, and data \
         after it",
        file.display(),
        kind.describe()
    )))
}

/// Loads the model of a file or a run. A file of an earlier version does not say what its model
/// takes; the job beside it does.
pub(crate) fn load_trained(path: &Path) -> Result<LoadedModel, Failure> {
    let path = model_path(path)?;
    let description = match model_file::describe(&path)? {
        Some(description) => description,
        None => description_by_job(&path)?,
    };
    let loaded = TrainedModel::load_described(&path, description);
    let model = loaded.map_err(|error| score_failure(error, &Interrupt::default()))?;
    Ok(LoadedModel { path, model })
}

fn description_by_job(path: &Path) -> Result<ModelDescription, Failure> {
    let (_, plan, data) = load_own_job(path).map_err(|failure| match failure {
        OwnJobFailure::Missing => Failure::Usage(format!(
            "{}: the file does not say what its model takes, because an earlier version or a \
             program of your own wrote it, and there is no {} beside it; train the model again, \
             or put its job beside it",
            path.display(),
            files::JOB
        )),
        OwnJobFailure::Failed(failure) => failure,
    })?;
    describe_model(&plan, &data)
}

/// The test examples of the job beside a model.
pub(crate) fn open_test_set(path: &Path) -> Result<ExampleInput, Failure> {
    match load_own_job(path) {
        Ok((_, _, data)) => Ok(test_set(&data)),
        Err(OwnJobFailure::Failed(failure)) => Err(failure),
        Err(OwnJobFailure::Missing) => Err(Failure::Usage(format!(
            "{}: --test needs the {} of the run beside the model",
            path.display(),
            files::JOB
        ))),
    }
}

/// The test examples of loaded data.
pub(crate) fn test_set(data: &TrainingData) -> ExampleInput {
    let source = match data {
        TrainingData::Images(set) => ExampleSource::Images(Arc::new(set.test.clone())),
        TrainingData::Examples(set) => ExampleSource::Examples(set.test.clone()),
        TrainingData::Rows(set) => ExampleSource::Rows(set.test.clone()),
    };
    ExampleInput::labelled(source, data.origin())
}

/// Why the job beside a model cannot be used.
enum OwnJobFailure {
    Missing,
    Failed(Failure),
}

fn load_own_job(model: &Path) -> Result<(RawJob, Plan, TrainingData), OwnJobFailure> {
    let beside = model.with_file_name(files::JOB);
    if !beside.is_file() {
        return Err(OwnJobFailure::Missing);
    }
    let load = || -> Result<_, Failure> {
        let mut job = read_job(&JobArgs { file: Some(beside.clone()), settings: Vec::new() })?;
        keep_defaults(&mut job, Some(&beside));
        let plan = job.check_for_test()?;
        let stop = StopSource { interrupt: Interrupt::default(), channel: None };
        let data = load_data(&job, &plan, &mut DataDisplay::new(false, &stop))?;
        check_same_features(model, &plan, &describe_model(&plan, &data)?)?;
        Ok((job, plan, data))
    };
    load().map_err(OwnJobFailure::Failed)
}

/// Converts a failure of scoring.
pub(crate) fn score_failure(error: ScoreError, interrupt: &Interrupt) -> Failure {
    match error {
        ScoreError::Model(error) => error.into(),
        ScoreError::Io { what, source } => Failure::Files { what, source },
        ScoreError::Interrupted | ScoreError::Data(DataError::Interrupted) => {
            Failure::Signal { signal: interrupt.signal().unwrap_or_default() }
        }
        ScoreError::Data(error) => error.into(),
        error => Failure::Usage(error.to_string()),
    }
}
