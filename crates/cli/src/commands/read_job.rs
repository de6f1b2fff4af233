//! The job that a command line names.

use std::path::Path;

use crate::Failure;
use crate::job_args::JobArgs;
use crate::progress::write_line;
use paceline_data::ignore_reports;
use paceline_data::sniff::{FileKind, sniff_file};
use paceline_job::{DataKind, DataPlan, Plan, RawJob};
use paceline_record::names::files;
use paceline_table::sample_label;

/// Reads the job file, or takes the built-in job, and applies the settings.
pub(super) fn read_job(args: &JobArgs) -> Result<RawJob, Failure> {
    let mut job = match &args.file {
        Some(path) => {
            RawJob::read(path).map_err(|problems| other_file(path).unwrap_or(problems.into()))?
        }
        None => RawJob::built_in(),
    };
    args.settings.iter().for_each(|setting| job.set(setting));
    if !job.reads_standard_input() {
        choose_model(&mut job);
    }
    Ok(job)
}

/// Chooses a model that can tell the classes of a table apart, if the job leaves the model to a
/// default. Problems of the job and of the file are reported later, by those that use them.
pub(super) fn choose_model(job: &mut RawJob) {
    if !job.leaves_model_open() {
        return;
    }
    let Ok(Plan { data: DataPlan { kind: DataKind::Table(spec), .. }, .. }) = job.check() else {
        return;
    };
    if let Ok(Some(label)) = sample_label(&spec, &mut ignore_reports())
        && label.classes > 2
    {
        job.default_to_softmax(&label.column, label.classes);
    }
}

/// Lets a job that continues an earlier run hold out the examples that the run held out, and use
/// numbers as it did. `earlier` is the run's own job.
pub(super) fn keep_defaults(job: &mut RawJob, earlier: Option<&Path>) {
    let Some(Ok(earlier)) = earlier.map(RawJob::read) else { return };
    if job.keep_split_of(&earlier) {
        write_line(
            "the run is from a version without data.split, so data.split is \"plain\": its test \
             examples stay the same",
        );
    }
    if job.keep_numbers_of(&earlier) {
        write_line(
            "the run is from a version without model.numbers, so model.numbers is \"vectors\"",
        );
    }
}

/// Says what was named instead of a job file, if it is data or a run.
fn other_file(path: &Path) -> Option<Failure> {
    let shown = path.display();
    if path.join(files::JOB).is_file() {
        return Some(Failure::Usage(format!(
            "{shown}: this is the directory of a run, not a job file; name {}, or resume the run \
             with --resume {shown}",
            path.join(files::JOB).display()
        )));
    }
    // What is named as a job file has a mistake in it.
    if path.is_dir() || path.extension().is_some_and(|ending| ending == "toml") {
        return None;
    }
    let found = sniff_file(path).ok()?;
    let verb = if found.is_certain() { "is" } else { "looks like" };
    let kind = match found {
        FileKind::Npy | FileKind::Zip => "numpy",
        FileKind::Parquet | FileKind::Table(_) => "table",
        FileKind::TfRecord => "tfrecord",
        FileKind::Libsvm => "libsvm",
        FileKind::Libffm => "libffm",
        FileKind::Criteo => "criteo",
        _ => return None,
    };
    Some(Failure::Usage(format!(
        "{shown}: this is not a job file: it {verb} {}; to train on it, use --set data.kind={kind} \
         --set data.path={shown}",
        found.describe()
    )))
}
