//! The trained model that a job starts from.

use std::sync::Arc;

use paceline_engine::{StartModel, StartTensor};
use paceline_record::ModelReader;
use paceline_record::names::files;

use crate::Failure;
use paceline_job::{Plan, RawJob};

/// Opens the model file that the plan starts from, if it names one.
pub(crate) fn open_start(job: &RawJob, plan: &Plan) -> Result<Option<Arc<StartModel>>, Failure> {
    let Some(path) = &plan.start else { return Ok(None) };
    let path = if path.is_dir() { path.join(files::MODEL) } else { path.clone() };
    let model = ModelReader::open(&path)
        .map_err(|error| job.problem("train.start", format!("cannot be used: {error}")))?;
    let tensors = model.tensors().iter();
    let tensors =
        tensors.map(|one| StartTensor { name: one.name.clone(), shape: one.shape.clone() });
    let tensors = tensors.collect();
    let read = move |tensor, from, out: &mut [f32]| model.read(tensor, from, out);
    Ok(Some(Arc::new(StartModel::new(path.display().to_string(), tensors, read))))
}
