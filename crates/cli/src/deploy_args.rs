//! The command line of `deploy`.

use clap::{Args, Subcommand};
use paceline_place::ManifestKind;

use crate::job_args::JobArgs;

/// Where a job is to run.
#[derive(Debug, Subcommand)]
pub enum DeployCommand {
    /// Print manifests for `kubectl apply -f -`
    Kubernetes(KubernetesArgs),
}

/// Arguments of `deploy kubernetes`.
#[derive(Args, Clone, Debug)]
pub struct KubernetesArgs {
    /// The job.
    #[command(flatten)]
    pub job: JobArgs,
    /// Number of workers, each in a pod of its own
    #[arg(long, value_name = "N")]
    pub workers: usize,
    /// Number of servers [default: none, for mode mirrored]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub servers: usize,
    /// Kind of job: jobset, trainjob (Kubeflow Trainer) or tfjob (Kubeflow's training operator)
    #[arg(long, default_value = "jobset", value_parser = ManifestKind::parse)]
    pub kind: ManifestKind,
    /// Name of all objects [default: that of the job]
    #[arg(long)]
    pub name: Option<String>,
    /// Image with the program; deploy/Containerfile builds one
    #[arg(long, default_value = "paceline:latest")]
    pub image: String,
    /// Cores that each pod requests
    #[arg(long, default_value = "2")]
    pub cpus: String,
    /// Memory that each pod requests, and may not exceed
    #[arg(long, default_value = "2Gi")]
    pub memory: String,
    /// Size of a volume for the run directory, which all pods mount [default: none]
    #[arg(long, value_name = "SIZE")]
    pub volume: Option<String>,
}
