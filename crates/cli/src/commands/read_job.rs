//! The job that a command line names.

use crate::Failure;
use crate::cli::JobArgs;
use crate::job::RawJob;

/// Reads the job file, or takes the built-in job, and applies the settings.
pub(super) fn read_job(args: &JobArgs) -> Result<RawJob, Failure> {
    let mut job = match &args.file {
        Some(path) => RawJob::read(path)?,
        None => RawJob::built_in(),
    };
    args.settings.iter().for_each(|setting| job.set(setting));
    Ok(job)
}
