//! One of several equal processes that a scheduler or launcher started.

use std::fmt;

/// The longest identifier that becomes part of a directory's name.
const MAX_ID: usize = 80;

/// The rule by which a process found its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementRule {
    /// `--rank` and `--size`.
    Flags,
    /// `RANK` and `WORLD_SIZE`, as `torchrun` sets them.
    Torch,
    /// `PET_NODE_RANK` and `PET_NNODES`, as Kubeflow Trainer sets them.
    Kubeflow,
    /// `OMPI_COMM_WORLD_RANK` and `OMPI_COMM_WORLD_SIZE`.
    OpenMpi,
    /// `PMI_RANK` and `PMI_SIZE`, of MPICH and its relatives.
    Mpich,
    /// `SLURM_PROCID` and `SLURM_STEP_NUM_TASKS`.
    Slurm,
    /// `JOB_COMPLETION_INDEX` and `PACELINE_SIZE`.
    Kubernetes,
    /// `DMLC_ROLE` and the numbers beside it.
    Dmlc,
}

impl fmt::Display for PlacementRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlacementRule::Flags => "the command line",
            PlacementRule::Torch => "torchrun",
            PlacementRule::Kubeflow => "Kubeflow",
            PlacementRule::OpenMpi => "Open MPI",
            PlacementRule::Mpich => "MPICH",
            PlacementRule::Slurm => "Slurm",
            PlacementRule::Kubernetes => "Kubernetes",
            PlacementRule::Dmlc => "DMLC",
        })
    }
}

/// What a process does at the meeting in which tasks exchange their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeetingPart {
    /// It joins the meeting.
    Joins,
    /// It holds the meeting and joins it: rank 0.
    HoldsAndJoins,
    /// It holds the meeting but is not a task of the run: DMLC's scheduler.
    Holds,
}

impl MeetingPart {
    /// Whether the process holds the meeting.
    pub fn holds(self) -> bool {
        self != MeetingPart::Joins
    }

    /// Whether the process is a task of the run.
    pub fn joins(self) -> bool {
        self != MeetingPart::Holds
    }
}

/// Identifies a run to its scheduler, over all of its restarts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId {
    /// The identifier, in characters that are valid in a directory's name.
    pub id: String,
    /// How often the scheduler has started the run again.
    pub restarts: usize,
}

impl RunId {
    /// The identifier `id` of a launcher.
    pub(super) fn new(launcher: &str, id: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let id: String = id.chars().take(MAX_ID).map(plain).collect();
        Self { id: format!("{launcher}-{id}"), restarts: 0 }
    }
}

/// The place of one of several processes that were started together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedPlace {
    /// The rule that applied.
    pub rule: PlacementRule,
    /// The variables or flags that the rule took rank and size from, with their values.
    pub evidence: Vec<String>,
    /// This process's number, from 0.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
    /// What this process does at the meeting.
    pub part: MeetingPart,
    /// The number of processes that are servers, the last ones, if the launcher says it.
    pub servers: Option<usize>,
    /// The scheduler's name for this process's host.
    pub host: Option<String>,
    /// The hosts of all ranks, if the scheduler says them.
    pub hosts: Option<Vec<String>>,
    /// The address where tasks meet, if the environment says it.
    pub meeting: Option<String>,
    /// The scheduler's identifier of the run, if it has one.
    pub run_id: Option<RunId>,
    /// Differs between two starts of a run wherever the launcher lets them be told apart.
    pub session: String,
    /// Whether the launcher commonly runs inside the tasks of another one.
    pub(crate) is_nested: bool,
    /// Remarks on how the environment was understood.
    pub remarks: Vec<String>,
}

impl RankedPlace {
    /// A place with nothing but a rank and a size.
    pub(super) fn new(rule: PlacementRule, rank: usize, size: usize) -> Self {
        Self {
            rule,
            evidence: Vec::new(),
            rank,
            size,
            part: if rank == 0 { MeetingPart::HoldsAndJoins } else { MeetingPart::Joins },
            servers: None,
            host: None,
            hosts: None,
            meeting: None,
            run_id: None,
            session: String::new(),
            is_nested: false,
            remarks: Vec::new(),
        }
    }

    /// The number of processes on this one's host, as far as the scheduler says.
    pub fn workers_here(&self) -> usize {
        let Some(hosts) = &self.hosts else { return 1 };
        let own = hosts.get(self.rank);
        hosts.iter().filter(|host| Some(*host) == own).count().max(1)
    }

    /// The rule and its evidence, for people.
    pub fn describe(&self) -> String {
        format!("{} ({})", self.rule, self.evidence.join(", "))
    }
}
