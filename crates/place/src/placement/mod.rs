//! Which place the command line and the environment give this process.
//!
//! The first of these that gives a size above one decides:
//!
//! 1. `--local`, or `--rank` and `--size`;
//! 2. `TF_CONFIG`;
//! 3. `torchrun` (`RANK`, `WORLD_SIZE`) and Kubeflow Trainer (`PET_NODE_RANK`, `PET_NNODES`);
//! 4. Open MPI (`OMPI_COMM_WORLD_RANK`), then MPICH (`PMI_RANK`);
//! 5. Slurm (`SLURM_PROCID`, `SLURM_STEP_NUM_TASKS`);
//! 6. Kubernetes (`JOB_COMPLETION_INDEX`, `PACELINE_SIZE`);
//! 7. DMLC (`DMLC_ROLE`).
//!
//! An inner launcher comes before an outer one, because launchers are nested: `torchrun` in the
//! tasks of `srun`, `mpirun` in a Slurm allocation. Where nesting does not explain that two of them
//! disagree, or where each of several processes would start a run of its own, placing fails.

mod dmlc;
mod host_list;
mod kubernetes;
mod mpi;
mod ranked;
mod slurm;
#[cfg(test)]
mod tests;
mod torch;
mod variables;

pub use kubernetes::{MEET_VARIABLE, SIZE_VARIABLE};
pub use ranked::{MeetingPart, PlacementRule, RankedPlace, RunId};
pub use variables::Variables;

use crate::cluster::{Cluster, Role};
use crate::error::PlaceError;
use crate::tf_config::TF_CONFIG;

/// The largest run.
const MAX_SIZE: usize = 1_024;

/// What the command line says of this process's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceFlags {
    /// All tasks run on this machine, whatever the environment says.
    pub local: bool,
    /// This process's number, from 0.
    pub rank: Option<usize>,
    /// The number of processes.
    pub size: Option<usize>,
    /// The address where tasks meet.
    pub meet: Option<String>,
}

/// The place of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Nothing places the process: it runs the whole job, or launches its tasks.
    Local,
    /// `TF_CONFIG` lists all tasks.
    Listed(Cluster),
    /// The process is one of several that meet to exchange their addresses.
    Ranked(Box<RankedPlace>),
}

impl Placement {
    /// Finds the place of a process with these flags and variables, and this parent process.
    pub fn find(
        flags: &PlaceFlags,
        variables: &Variables,
        parent: u32,
    ) -> Result<Self, PlaceError> {
        if flags.local {
            return Ok(Placement::Local);
        }
        if let Some(place) = read_flags(flags)? {
            return Self::of(place);
        }
        let listed = Cluster::from_text(variables.text(TF_CONFIG).unwrap_or_default())?;
        let mut found = Vec::new();
        let mut unresolved = None;
        for place in [
            torch::read(variables, parent),
            mpi::read_open_mpi(variables, parent),
            mpi::read_mpich(variables, parent),
            slurm::read(variables),
            kubernetes::read(variables),
            dmlc::read(variables),
        ] {
            match place {
                Ok(place) => found.extend(place),
                Err(error) => unresolved = unresolved.or(Some(error)),
            }
        }
        if let Some(cluster) = listed {
            return compare_with_list(&cluster, &found).map(|()| Placement::Listed(cluster));
        }
        // What cannot be read may be an outer launcher, such as a batch script that runs mpirun.
        if let (Some(error), false) = (unresolved, found.iter().any(|place| place.size > 1)) {
            return Err(error);
        }
        let Some(mut chosen) = choose(found)? else { return Ok(Placement::Local) };
        chosen.meeting = flags.meet.clone().or(chosen.meeting);
        Self::of(chosen)
    }

    /// The scheduler's identifier of the run of a process that nothing else places: a Slurm job of
    /// one task.
    pub fn run_of_one_task(
        flags: &PlaceFlags,
        variables: &Variables,
    ) -> Result<Option<RunId>, PlaceError> {
        if flags.local || flags.rank.is_some() {
            return Ok(None);
        }
        slurm::run_id(variables)
    }

    /// The placement of a process with this place, which is checked.
    fn of(place: RankedPlace) -> Result<Self, PlaceError> {
        let RankedPlace { rank, size, .. } = place;
        let evidence = place.evidence.join(", ");
        if size > MAX_SIZE {
            return Err(PlaceError::Usage(format!(
                "{evidence}: a run has at most {MAX_SIZE} tasks"
            )));
        }
        if rank >= size && place.part.joins() {
            return Err(PlaceError::Usage(format!(
                "{evidence}: ranks are from 0 to {}",
                size.saturating_sub(1)
            )));
        }
        Ok(if size > 1 { Placement::Ranked(Box::new(place)) } else { Placement::Local })
    }
}

/// The place that the command line states, if it does.
fn read_flags(flags: &PlaceFlags) -> Result<Option<RankedPlace>, PlaceError> {
    let (rank, size) = match (flags.rank, flags.size) {
        (None, None) => return Ok(None),
        (Some(rank), Some(size)) => (rank, size),
        (Some(_), None) => return Err(PlaceError::Usage("--rank needs --size".into())),
        (None, Some(_)) => return Err(PlaceError::Usage("--size needs --rank".into())),
    };
    let mut place = RankedPlace::new(PlacementRule::Flags, rank, size);
    place.evidence = vec![format!("--rank {rank}"), format!("--size {size}")];
    place.meeting = flags.meet.clone();
    Ok(Some(place))
}

/// The place that decides: the first of several processes. The others must not contradict it.
fn choose(found: Vec<RankedPlace>) -> Result<Option<RankedPlace>, PlaceError> {
    let at = found.iter().position(|place| place.size > 1).unwrap_or(0);
    let Some(mut chosen) = found.get(at).cloned() else { return Ok(None) };
    for (other_at, other) in found.iter().enumerate().filter(|(other, _)| *other != at) {
        if (other.rank, other.size) == (chosen.rank, chosen.size) {
            adopt(&mut chosen, other);
            continue;
        }
        let (inner, outer) = if other_at < at { (other, &chosen) } else { (&chosen, other) };
        check_nesting(inner, outer)?;
        if other_at > at {
            chosen.remarks.push(format!("{} is the outer launcher", other.describe()));
        }
    }
    Ok(Some(chosen))
}

/// Adds what another launcher knows about the same processes.
fn adopt(chosen: &mut RankedPlace, other: &RankedPlace) {
    chosen.host = chosen.host.take().or_else(|| other.host.clone());
    chosen.hosts = chosen.hosts.take().or_else(|| other.hosts.clone());
    chosen.meeting = chosen.meeting.take().or_else(|| other.meeting.clone());
    chosen.run_id = chosen.run_id.take().or_else(|| other.run_id.clone());
}

/// Checks that one launcher runs inside the other, and that it is not started anew by each task of
/// the outer one.
fn check_nesting(inner: &RankedPlace, outer: &RankedPlace) -> Result<(), PlaceError> {
    let is_mpi = matches!(inner.rule, PlacementRule::OpenMpi | PlacementRule::Mpich);
    let is_known = inner.is_nested || is_mpi && outer.rule == PlacementRule::Slurm;
    let both = format!("{} and {}", inner.describe(), outer.describe());
    if inner.size == 1 && outer.size > 1 {
        return Err(PlaceError::Usage(format!(
            "{both}: each of the {} processes would start a run of its own; let one of the \
             launchers start all of them, or add --local if that is what you want",
            outer.size
        )));
    }
    if !is_known {
        return Err(PlaceError::Usage(format!(
            "{both} disagree on this process's place; unset the variables of one of them, or state \
             the place with --rank, --size and --meet"
        )));
    }
    Ok(())
}

/// Checks that no other launcher counts other tasks than `TF_CONFIG` lists.
fn compare_with_list(cluster: &Cluster, found: &[RankedPlace]) -> Result<(), PlaceError> {
    let evaluators = cluster.count(Role::Evaluator);
    let listed = cluster.slots() + cluster.count(Role::Ps) + evaluators;
    let differs = |place: &&RankedPlace| {
        let agrees = place.size == listed || place.size + evaluators == listed;
        place.size > 1 && !agrees && !cluster.has_sparse_map()
    };
    match found.iter().find(differs) {
        None => Ok(()),
        Some(place) => Err(PlaceError::Usage(format!(
            "TF_CONFIG lists {listed} tasks, but {} starts {}; unset TF_CONFIG, or start as many \
             processes as it lists",
            place.describe(),
            place.size
        ))),
    }
}
