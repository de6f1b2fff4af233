//! `paceline deploy`: what other systems need to run a job.

use std::fs;

use paceline_job::RawJob;
use paceline_place::KubernetesJob;

use super::output::print;
use super::read_job::read_job;
use crate::Failure;
use crate::deploy_args::{DeployCommand, KubernetesArgs};

/// Prints manifests.
pub(super) fn deploy(command: DeployCommand) -> Result<(), Failure> {
    let DeployCommand::Kubernetes(args) = command;
    let plan = read_job(&args.job)?.check()?;
    let job = match &args.job.file {
        Some(path) => fs::read_to_string(path).map_err(Failure::at("read", path))?,
        None => RawJob::built_in().explain(),
    };
    let KubernetesArgs { workers, servers, image, cpus, memory, volume, .. } = args;
    let name = args.name.unwrap_or_else(|| plan.name.to_lowercase().replace(['_', '.'], "-"));
    let settings = args.job.settings;
    let job = KubernetesJob { name, image, workers, servers, job, settings, cpus, memory, volume };
    print(&job.manifests(args.kind)?)
}
