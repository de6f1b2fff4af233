//! The job that a command line names.

use std::path::Path;

use crate::Failure;
use crate::job_args::JobArgs;
use crate::progress::write_line;
use paceline_job::RawJob;

/// Reads the job file, or takes the built-in job, and applies the settings.
pub(super) fn read_job(args: &JobArgs) -> Result<RawJob, Failure> {
    let mut job = match &args.file {
        Some(path) => RawJob::read(path)?,
        None => RawJob::built_in(),
    };
    args.settings.iter().for_each(|setting| job.set(setting));
    Ok(job)
}

/// Lets a job that continues an earlier run hold out the examples that the run held out. `earlier`
/// is the run's own job.
pub(super) fn keep_split(job: &mut RawJob, earlier: Option<&Path>) {
    let Some(Ok(earlier)) = earlier.map(RawJob::read) else { return };
    if job.keep_split_of(&earlier) {
        write_line(
            "the run is from a version without data.split, so data.split is \"plain\": its test \
             examples stay the same",
        );
    }
}
