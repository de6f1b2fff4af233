//! Which process has which role.

use crate::cluster::{Role, Task};
use crate::error::PlaceError;

/// How roles are divided among the processes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleSettings {
    /// The number of servers; 0 in a mode without them.
    pub servers: usize,
    /// Whether servers are processes of their own, the last ranks, instead of children of workers.
    pub dedicated: bool,
}

/// A task and the process that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AssignedTask {
    pub(super) task: Task,
    pub(super) rank: usize,
    /// Which of its process's listening sockets the task has, if it listens.
    pub(super) socket: Option<usize>,
}

/// A task as it is known before the processes have met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedTask {
    /// The task.
    pub task: Task,
    /// The rank of the process that runs it, if hosts need not be known for it.
    pub rank: Option<usize>,
    /// The host, if the scheduler says it.
    pub host: Option<String>,
}

impl RoleSettings {
    /// The tasks of a run of `size` processes, on these hosts by rank if they are known.
    pub fn expect(
        &self,
        size: usize,
        hosts: Option<&[String]>,
    ) -> Result<Vec<ExpectedTask>, PlaceError> {
        let machines: Vec<&str> = match hosts {
            Some(hosts) => hosts.iter().map(String::as_str).collect(),
            None => vec![""; size],
        };
        let assigned = self.assign(&machines)?.into_iter();
        Ok(assigned
            .map(|AssignedTask { task, rank, .. }| {
                // Rank 0 is the first process of its host, which is the first.
                let is_known = hosts.is_some()
                    || self.dedicated
                    || task.role == Role::Worker
                    || task.index == 0;
                let host = hosts.and_then(|hosts| hosts.get(rank).cloned());
                ExpectedTask { task, rank: is_known.then_some(rank), host }
            })
            .collect())
    }

    /// The number of workers among `size` processes.
    pub fn workers(&self, size: usize) -> Result<usize, PlaceError> {
        if !self.dedicated {
            return Ok(size);
        }
        size.checked_sub(self.servers).filter(|&workers| workers > 0).ok_or_else(|| {
            PlaceError::Usage(format!(
                "{size} processes are too few for {} with ranks of their own and a worker; start \
                 more processes, or set cluster.layout = \"beside\"",
                match self.servers {
                    1 => "1 server".into(),
                    servers => format!("{servers} servers"),
                }
            ))
        })
    }

    /// The task that is the process of this rank. Its children are servers.
    pub fn task_of(&self, rank: usize, size: usize) -> Result<Task, PlaceError> {
        let workers = self.workers(size)?;
        Ok(match rank.checked_sub(workers) {
            None => Task { role: Role::Worker, index: rank },
            Some(index) => Task { role: Role::Ps, index },
        })
    }

    /// How many listening sockets the process of this rank may need.
    pub(super) fn sockets(&self, rank: usize, size: usize) -> Result<usize, PlaceError> {
        let is_server = self.task_of(rank, size)?.role == Role::Ps;
        Ok(match (self.servers, self.dedicated) {
            (0, _) => 1,
            (servers, false) => servers,
            (_, true) => usize::from(is_server),
        })
    }

    /// The tasks of all processes, given the machine of each rank. Without ranks of their own,
    /// servers are children of the first process on each of the first machines, and again from the
    /// first machine if there are more servers than machines.
    pub(super) fn assign(&self, machines: &[&str]) -> Result<Vec<AssignedTask>, PlaceError> {
        let size = machines.len();
        let has_mesh = self.servers == 0;
        let process = |rank| {
            let task = self.task_of(rank, size)?;
            let socket = (has_mesh || task.role == Role::Ps).then_some(0);
            Ok(AssignedTask { task, rank, socket })
        };
        let mut tasks: Vec<_> = (0..size).map(process).collect::<Result<_, PlaceError>>()?;
        if self.dedicated {
            return Ok(tasks);
        }
        let is_first = |rank: &usize| !machines[..*rank].contains(&machines[*rank]);
        let owners: Vec<usize> = (0..size).filter(is_first).collect();
        tasks.extend((0..self.servers).map(|index| AssignedTask {
            task: Task { role: Role::Ps, index },
            rank: owners[index % owners.len()],
            socket: Some(index / owners.len()),
        }));
        Ok(tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(servers: usize, dedicated: bool, machines: &[&str]) -> Vec<String> {
        let tasks = RoleSettings { servers, dedicated }.assign(machines).unwrap();
        let shown = |at: &AssignedTask| match at.socket {
            Some(socket) => format!("{}@{}.{socket}", at.task, at.rank),
            None => format!("{}@{}", at.task, at.rank),
        };
        tasks.iter().map(shown).collect()
    }

    #[test]
    fn every_process_is_a_worker_and_the_first_on_each_host_has_a_server() {
        let workers = ["worker:0@0", "worker:1@1", "worker:2@2"];
        for (servers, machines, children) in [
            (1, ["a", "a", "b"], &["ps:0@0.0"][..]),
            (2, ["a", "a", "b"], &["ps:0@0.0", "ps:1@2.0"]),
            (2, ["a", "a", "a"], &["ps:0@0.0", "ps:1@0.1"]),
            (3, ["b", "a", "b"], &["ps:0@0.0", "ps:1@1.0", "ps:2@0.1"]),
        ] {
            let expected = [&workers[..], children].concat();
            assert_eq!(assigned(servers, false, &machines), expected, "{servers} {machines:?}");
        }
    }

    #[test]
    fn before_the_meeting_only_what_hosts_do_not_decide_is_known() {
        let roles = RoleSettings { servers: 2, dedicated: false };
        let ranks = |hosts: Option<&[String]>| -> Vec<_> {
            let tasks = roles.expect(3, hosts).unwrap().into_iter();
            tasks.filter(|at| at.task.role == Role::Ps).map(|at| (at.rank, at.host)).collect()
        };
        assert_eq!(ranks(None), [(Some(0), None), (None, None)]);
        let hosts = ["a", "a", "b"].map(String::from);
        assert_eq!(ranks(Some(&hosts)), [(Some(0), Some("a".into())), (Some(2), Some("b".into()))]);
    }

    #[test]
    fn without_servers_every_worker_listens() {
        assert_eq!(assigned(0, false, &["a", "a"]), ["worker:0@0.0", "worker:1@1.0"]);
    }

    #[test]
    fn servers_with_ranks_of_their_own_are_the_last() {
        let tasks = assigned(2, true, &["a", "a", "b", "b"]);
        assert_eq!(tasks, ["worker:0@0", "worker:1@1", "ps:0@2.0", "ps:1@3.0"]);
        let roles = RoleSettings { servers: 2, dedicated: true };
        assert_eq!(roles.sockets(1, 4).unwrap(), 0);
        assert_eq!(roles.sockets(3, 4).unwrap(), 1);
        let why = roles.workers(2).unwrap_err().to_string();
        assert!(why.contains("2 processes are too few for 2 servers"), "{why}");
    }
}
