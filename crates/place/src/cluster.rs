//! The tasks of a run and where they are, as one of the tasks sees it.

use std::collections::BTreeMap;
use std::fmt;

use crate::address::split_address;
use crate::error::PlaceError;

/// The role of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Trains, coordinates the run, tests the model and writes the summary.
    Chief,
    /// Trains.
    Worker,
    /// Holds parameters.
    Ps,
    /// Tests the model, without training.
    Evaluator,
}

impl Role {
    /// The name in `TF_CONFIG`.
    pub fn name(self) -> &'static str {
        match self {
            Role::Chief => "chief",
            Role::Worker => "worker",
            Role::Ps => "ps",
            Role::Evaluator => "evaluator",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "chief" | "master" => Some(Role::Chief),
            "worker" => Some(Role::Worker),
            "ps" => Some(Role::Ps),
            "evaluator" => Some(Role::Evaluator),
            _ => None,
        }
    }
}

/// One task of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// The task's role.
    pub role: Role,
    /// The task's index among those of its role.
    pub index: usize,
}

impl Task {
    /// Whether the task is worker 0 of a cluster without a chief, and so the coordinator.
    pub fn is_coordinator(self) -> bool {
        self == Task { role: Role::Worker, index: 0 }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.role.name(), self.index)
    }
}

/// A cluster as `TF_CONFIG` describes it, seen from one of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The task of this process.
    pub task: Task,
    /// The addresses of all listed tasks.
    pub addresses: BTreeMap<Task, String>,
    /// Remarks on how the configuration was understood, and on inconsistencies.
    pub remarks: Vec<String>,
}

impl Cluster {
    /// The number of tasks of a role, by the highest index listed: a sparse map need not list all.
    pub fn count(&self, role: Role) -> usize {
        let indices = self.addresses.keys().filter(|task| task.role == role);
        indices.map(|task| task.index + 1).max().unwrap_or(0)
    }

    /// The number of tasks that train; each has one slot unless the job sets the number of slots.
    pub fn slots(&self) -> usize {
        self.count(Role::Chief) + self.count(Role::Worker)
    }

    /// The names of the tasks that this one exchanges gradients and parameters with: all workers
    /// for a server, all servers for a worker, and without servers all workers, including itself.
    pub fn peers(&self) -> Vec<String> {
        match self.count(Role::Ps) {
            servers if servers > 0 && self.task.role != Role::Ps => {
                (0..servers).map(|index| Task { role: Role::Ps, index }.to_string()).collect()
            }
            _ => (0..self.slots()).map(|slot| self.slot_name(slot)).collect(),
        }
    }

    /// This task's number among those of its host, judged by their addresses: workers come first,
    /// then servers, then evaluators. An evaluator need not be listed: it comes after all others.
    pub fn number_on_host(&self) -> usize {
        let Some(here) = self.addresses.get(&self.task).map(|address| host(address)) else {
            return self.addresses.len() + self.task.index;
        };
        let order = |task: &Task| (task.role, task.index);
        let is_before = |task: &&Task| order(task) < order(&self.task);
        let here = |task: &&Task| host(&self.addresses[*task]) == here;
        self.addresses.keys().filter(is_before).filter(here).count()
    }

    /// The [peers](Self::peers) without this task.
    pub fn others(&self) -> Vec<String> {
        let own = self.task.to_string();
        self.peers().into_iter().filter(|peer| *peer != own).collect()
    }

    /// This task's slot, if it trains.
    pub fn slot(&self) -> Option<usize> {
        match self.task.role {
            Role::Chief => Some(0),
            Role::Worker => Some(self.task.index + self.count(Role::Chief)),
            Role::Ps | Role::Evaluator => None,
        }
    }

    /// The number of tasks that train on this task's machine, judged by their addresses.
    pub fn workers_here(&self) -> usize {
        let here = self.addresses.get(&self.task).map(|address| host(address));
        let trains = |task: &Task| matches!(task.role, Role::Chief | Role::Worker);
        let training = self.addresses.iter().filter(|(task, _)| trains(task));
        training.filter(|(_, address)| Some(host(address)) == here).count().max(1)
    }

    /// The name of the task in a slot.
    pub fn slot_name(&self, slot: usize) -> String {
        let chiefs = self.count(Role::Chief);
        let task = match slot.checked_sub(chiefs) {
            Some(index) => Task { role: Role::Worker, index },
            None => Task { role: Role::Chief, index: slot },
        };
        task.to_string()
    }

    /// The servers' addresses by index.
    pub fn servers(&self) -> Result<Vec<String>, PlaceError> {
        let address = |index| {
            let task = Task { role: Role::Ps, index };
            self.addresses.get(&task).cloned().ok_or_else(|| {
                PlaceError::Usage(format!(
                    "TF_CONFIG: {task} has no address, but a task with a higher index has one"
                ))
            })
        };
        (0..self.count(Role::Ps)).map(address).collect()
    }

    /// The workers' addresses by slot.
    pub fn workers(&self) -> Result<Vec<String>, PlaceError> {
        let chiefs = self.count(Role::Chief);
        let address = |slot: usize| {
            let task = match slot.checked_sub(chiefs) {
                Some(index) => Task { role: Role::Worker, index },
                None => Task { role: Role::Chief, index: slot },
            };
            self.addresses.get(&task).cloned().ok_or_else(|| {
                let why = "without servers, every worker needs the addresses of all others";
                PlaceError::Usage(format!("TF_CONFIG: {task} has no address; {why}"))
            })
        };
        (0..self.slots()).map(address).collect()
    }

    /// Describes the differences from a job with this many workers and servers. The cluster takes
    /// precedence. `servers` is `None` for a mode without servers.
    pub fn differences(&self, workers: usize, servers: Option<usize>) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |key: &str, job: usize, here: usize| {
            if job != here {
                found.push(format!("{key} is {job}, but TF_CONFIG lists {here}: {here} are used"));
            }
        };
        compare("cluster.workers", workers, self.slots());
        match servers {
            Some(servers) => compare("cluster.servers", servers, self.count(Role::Ps)),
            None => {
                let idle = self.addresses.keys().filter(|task| task.role == Role::Ps);
                found.extend(idle.map(|task| format!("{task} is not used in mode mirrored")));
            }
        }
        found
    }
}

/// The host in an address.
fn host(address: &str) -> &str {
    split_address(address).0
}
