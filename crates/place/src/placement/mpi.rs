//! Open MPI, and MPICH and its relatives (Intel MPI, Slurm's PMI).

use super::ranked::{PlacementRule, RankedPlace, RunId};
use super::variables::Variables;
use crate::error::PlaceError;

/// The names of one library's variables.
struct MpiNames {
    rule: PlacementRule,
    rank: &'static str,
    size: &'static str,
    /// The number of ranks on this host.
    local_size: &'static str,
    /// Identifies the job.
    job: &'static str,
}

const OPEN_MPI: MpiNames = MpiNames {
    rule: PlacementRule::OpenMpi,
    rank: "OMPI_COMM_WORLD_RANK",
    size: "OMPI_COMM_WORLD_SIZE",
    local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
    job: "PMIX_NAMESPACE",
};

const MPICH: MpiNames = MpiNames {
    rule: PlacementRule::Mpich,
    rank: "PMI_RANK",
    size: "PMI_SIZE",
    local_size: "MPI_LOCALNRANKS",
    job: "PMI_JOBID",
};

/// This process's place in an Open MPI job, if it is in one.
pub(super) fn read_open_mpi(
    variables: &Variables,
    parent: u32,
) -> Result<Option<RankedPlace>, PlaceError> {
    read(variables, parent, &OPEN_MPI)
}

/// This process's place in a job of MPICH, Intel MPI or another launcher with PMI variables.
pub(super) fn read_mpich(
    variables: &Variables,
    parent: u32,
) -> Result<Option<RankedPlace>, PlaceError> {
    read(variables, parent, &MPICH)
}

fn read(
    variables: &Variables,
    parent: u32,
    names: &MpiNames,
) -> Result<Option<RankedPlace>, PlaceError> {
    let Some(seen) = variables.first(&[names.rank, names.size]) else { return Ok(None) };
    let rank = variables.required(names.rank, seen)?;
    let size = variables.required(names.size, seen)?;
    let mut place = RankedPlace::new(names.rule, rank, size);
    place.evidence = vec![variables.shown(names.rank), variables.shown(names.size)];
    let is_one_host = variables.number(names.local_size)? == Some(size);
    place.run_id = match (variables.text("SLURM_JOB_ID"), variables.text(names.job)) {
        (Some(job), _) => Some(RunId { id: format!("slurm-{job}"), restarts: 0 }),
        (None, Some(job)) => Some(RunId::new("mpi", job)),
        // All ranks on one host have the same parent.
        (None, None) if is_one_host => Some(RunId::new("mpi", &parent.to_string())),
        (None, None) => None,
    };
    place.session = format!("mpi {}", variables.text(names.job).unwrap_or_default());
    Ok(Some(place))
}
