//! `TF_CONFIG`: the cluster and this task's place in it, as TensorFlow has it.
//!
//! The forms that are met in the wild are all taken: addresses as lists or as sparse maps, the
//! index as a number or as a string, `master` for the chief, an evaluator inside or outside of
//! the cluster, and keys that mean nothing to us. What was understood, and what does not fit
//! together, is kept as remarks for `paceline explain`.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::Failure;
use crate::job::{Mode, Plan};

/// The environment variable.
pub const VARIABLE: &str = "TF_CONFIG";
/// No cluster of ours is larger.
const MAX_TASKS: usize = 1_024;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Trains, tests and writes the summary.
    Chief,
    /// Trains.
    Worker,
    /// Holds parameters.
    Ps,
    /// Tests, without taking part.
    Evaluator,
}

impl Role {
    /// Its name in `TF_CONFIG`.
    pub fn name(self) -> &'static str {
        match self {
            Role::Chief => "chief",
            Role::Worker => "worker",
            Role::Ps => "ps",
            Role::Evaluator => "evaluator",
        }
    }

    fn parse(name: &str) -> Option<Self> {
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
    /// What it does.
    pub role: Role,
    /// Which of its role.
    pub index: usize,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.role.name(), self.index)
    }
}

/// A cluster as `TF_CONFIG` describes it, seen from one of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Which task this process is.
    pub task: Task,
    /// The addresses of all tasks that were listed.
    pub addresses: BTreeMap<Task, String>,
    /// What was understood in a way worth telling, and what does not fit together.
    pub remarks: Vec<String>,
}

impl Cluster {
    /// Reads the variable: `None` if it is not set, or describes nothing to run together with.
    pub fn from_env() -> Result<Option<Self>, Failure> {
        match std::env::var(VARIABLE) {
            Ok(text) => Self::parse(&text).map_err(|why| {
                Failure::Usage(format!("{VARIABLE}: {why}; `paceline explain` shows what was read"))
            }),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(error) => Err(Failure::Usage(format!("{VARIABLE}: {error}"))),
        }
    }

    /// Reads the variable's text.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let config: Value = serde_json::from_str(text).map_err(|e| format!("not JSON: {e}"))?;
        let Value::Object(config) = config else { return Err("not a JSON object".into()) };
        let mut remarks = Vec::new();
        let mut addresses = BTreeMap::new();
        match config.get("cluster") {
            None | Some(Value::Null) => {}
            Some(Value::Object(jobs)) => {
                for (job, tasks) in jobs {
                    read_job(job, tasks, &mut addresses, &mut remarks)?;
                }
            }
            Some(_) => return Err("cluster is not an object".into()),
        }
        let Some(task) = config.get("task").filter(|task| !task.is_null()) else {
            // Estimator's habit: no task, or an empty configuration, is a process on its own.
            return match addresses.is_empty() {
                true => Ok(None),
                false => Err("there is a cluster but no task: which of them is this?".into()),
            };
        };
        let task = read_task(task)?;
        if addresses.is_empty() && task.role != Role::Evaluator {
            return Ok(None);
        }
        let mut cluster = Self { task, addresses, remarks };
        cluster.inspect()?;
        Ok(Some(cluster))
    }

    /// Adds remarks on what the tasks listed mean.
    fn inspect(&mut self) -> Result<(), String> {
        if self.task.role != Role::Evaluator && !self.addresses.contains_key(&self.task) {
            return Err(format!("the task {} is not in the cluster", self.task));
        }
        let has_chief = self.count(Role::Chief) > 0;
        if self.count(Role::Chief) > 1 {
            return Err("there is more than one chief".into());
        }
        self.remarks.push(match has_chief {
            true => "the chief is listed: it is slot 0, and worker i is slot i + 1".into(),
            false => "no chief is listed: worker:0 is the chief".into(),
        });
        if self.count(Role::Evaluator) > 0 {
            self.remarks.push("the evaluator is listed in the cluster; nobody waits for it".into());
        }
        Ok(())
    }

    /// How many tasks of a role there must be, going by the highest index listed: a sparse map
    /// need not list all.
    pub fn count(&self, role: Role) -> usize {
        let indices = self.addresses.keys().filter(|task| task.role == role);
        indices.map(|task| task.index + 1).max().unwrap_or(0)
    }

    /// How many slots the plan has.
    pub fn slots(&self) -> usize {
        self.count(Role::Chief) + self.count(Role::Worker)
    }

    /// The tasks that this one exchanges gradients and parameters with, by their numbers: for a
    /// server all workers; else all servers; without servers all workers, itself among them.
    pub fn peers(&self) -> Vec<String> {
        match self.count(Role::Ps) {
            servers if servers > 0 && self.task.role != Role::Ps => {
                (0..servers).map(|index| Task { role: Role::Ps, index }.to_string()).collect()
            }
            _ => (0..self.slots()).map(|slot| self.slot_name(slot)).collect(),
        }
    }

    /// This task's place among all of the run: workers first, then servers, then evaluators.
    pub fn number(&self) -> usize {
        let before = match self.task.role {
            Role::Ps => self.slots(),
            Role::Evaluator => self.slots() + self.count(Role::Ps),
            Role::Chief | Role::Worker => return self.slot().unwrap_or(0),
        };
        before + self.task.index
    }

    /// The same without itself.
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

    /// How many tasks that train are on this task's machine, as far as addresses tell.
    pub fn workers_here(&self) -> usize {
        let host =
            |address: &str| address.rsplit_once(':').map_or(address, |(host, _)| host).to_owned();
        let here = self.addresses.get(&self.task).map(|address| host(address));
        let trains = |task: &Task| matches!(task.role, Role::Chief | Role::Worker);
        let beside = self.addresses.iter().filter(|(task, _)| trains(task));
        beside.filter(|(_, address)| Some(host(address)) == here).count().max(1)
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
    pub fn servers(&self) -> Result<Vec<String>, Failure> {
        let address = |index| {
            let task = Task { role: Role::Ps, index };
            self.addresses.get(&task).cloned().ok_or_else(|| {
                Failure::Usage(format!("{VARIABLE}: {task} has no address, but a later one has"))
            })
        };
        (0..self.count(Role::Ps)).map(address).collect()
    }

    /// The workers' addresses by slot.
    pub fn workers(&self) -> Result<Vec<String>, Failure> {
        let chiefs = self.count(Role::Chief);
        let address = |slot: usize| {
            let task = match slot.checked_sub(chiefs) {
                Some(index) => Task { role: Role::Worker, index },
                None => Task { role: Role::Chief, index: slot },
            };
            self.addresses.get(&task).cloned().ok_or_else(|| {
                let why = "without servers every worker must know all others";
                Failure::Usage(format!("{VARIABLE}: {task} has no address; {why}"))
            })
        };
        (0..self.slots()).map(address).collect()
    }

    /// What does not fit the plan, in words. The cluster that is really there wins.
    pub fn differences(&self, plan: &Plan) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |key: &str, job: usize, here: usize| {
            if job != here {
                found.push(format!("{key} is {job}, but {VARIABLE} lists {here}: {here} are used"));
            }
        };
        compare("cluster.workers", plan.cluster.workers, self.slots());
        if plan.cluster.mode == Mode::Mirrored {
            let idle = self.addresses.keys().filter(|task| task.role == Role::Ps);
            let idle = idle.map(|task| format!("{task} has no part in mode mirrored"));
            found.extend(idle);
        } else {
            compare("cluster.servers", plan.cluster.servers, self.count(Role::Ps));
        }
        found
    }
}

fn read_job(
    job: &str,
    tasks: &Value,
    addresses: &mut BTreeMap<Task, String>,
    remarks: &mut Vec<String>,
) -> Result<(), String> {
    let Some(role) = Role::parse(job) else {
        remarks.push(format!("cluster.{job} is not a role of ours and is ignored"));
        return Ok(());
    };
    if job == "master" {
        remarks.push("master means chief".into());
    }
    let mut add = |index: usize, address: &Value| {
        let address = address.as_str().ok_or(format!("cluster.{job}: an address is not text"))?;
        if index >= MAX_TASKS {
            return Err(format!("cluster.{job}: {index} is beyond the {MAX_TASKS} tasks allowed"));
        }
        let task = Task { role, index };
        match addresses.insert(task, with_port(address)) {
            None => Ok(()),
            Some(_) => Err(format!("{task} is listed twice")),
        }
    };
    match tasks {
        Value::Array(list) => list.iter().enumerate().try_for_each(|(i, at)| add(i, at)),
        Value::Object(map) => {
            remarks.push(format!("cluster.{job} is a sparse map: it may not list all"));
            map.iter().try_for_each(|(index, at)| {
                let number = index.trim().parse();
                add(number.map_err(|_| format!("cluster.{job}: {index:?} is no index"))?, at)
            })
        }
        _ => Err(format!("cluster.{job} is neither a list nor a map of addresses")),
    }
}

/// TensorFlow's jobs listen on 2222 unless told otherwise.
fn with_port(address: &str) -> String {
    let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    if has_port { address.to_owned() } else { format!("{address}:2222") }
}

fn read_task(task: &Value) -> Result<Task, String> {
    let name = match &task["type"] {
        Value::String(name) => name.clone(),
        other => return Err(format!("task.type is {other}, not text")),
    };
    let role = Role::parse(&name).ok_or(format!(
        "task.type is {name:?}; it must be chief, master, worker, ps or evaluator"
    ))?;
    let index = match &task["index"] {
        Value::Null => Some(0),
        Value::Number(number) => number.as_u64().map(|number| number as usize),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match index.filter(|&index| index < MAX_TASKS) {
        Some(index) => Ok(Task { role, index }),
        None => Err(format!("task.index is {}, not a number from 0 up", task["index"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Cluster {
        Cluster::parse(text).unwrap().unwrap()
    }

    #[test]
    fn lists_and_sparse_maps_and_string_indices_mean_the_same() {
        let list = read(
            r#"{"cluster": {"worker": ["a:1", "b:2"], "ps": ["c:3"]},
                "task": {"type": "worker", "index": 1}}"#,
        );
        let map = read(
            r#"{"cluster": {"worker": {"0": "a:1", "1": "b:2"}, "ps": {"0": "c:3"}},
                "task": {"type": "worker", "index": "1"}, "environment": "cloud",
                "rpc_layer": "grpc"}"#,
        );
        assert_eq!((list.task, &list.addresses), (map.task, &map.addresses));
        assert_eq!((list.slot(), list.slots()), (Some(1), 2));
        assert_eq!(list.servers().unwrap(), ["c:3"]);
    }

    #[test]
    fn without_a_chief_worker_0_is_slot_0_and_with_one_it_is_slot_1() {
        for (chief, slot) in [("chief", 1), ("master", 1), ("unheard-of", 0)] {
            let cluster = read(&format!(
                r#"{{"cluster": {{"{chief}": ["m:1"], "worker": ["a:1"], "ps": ["c:3"]}},
                    "task": {{"type": "worker", "index": 0}}}}"#
            ));
            assert_eq!(cluster.slot(), Some(slot), "{chief}");
            assert_eq!(cluster.slot_name(slot), "worker:0");
        }
    }

    #[test]
    fn an_evaluator_may_stand_in_the_cluster_or_outside() {
        for listed in ["", r#", "evaluator": ["e:1"]"#] {
            let cluster = read(&format!(
                r#"{{"cluster": {{"worker": ["a:1"], "ps": ["c:3"]{listed}}},
                    "task": {{"type": "evaluator", "index": 0}}}}"#
            ));
            assert_eq!((cluster.slots(), cluster.slot()), (1, None));
        }
    }

    #[test]
    fn a_worker_may_be_told_of_itself_and_the_servers_only() {
        let cluster = read(
            r#"{"cluster": {"worker": {"2": "w2.svc:2222"}, "ps": ["p0.svc", "p1.svc"]},
                "task": {"type": "worker", "index": 2}}"#,
        );
        assert_eq!((cluster.slot(), cluster.slots()), (Some(2), 3));
        assert_eq!(cluster.servers().unwrap(), ["p0.svc:2222", "p1.svc:2222"]);
    }

    #[test]
    fn an_empty_configuration_is_a_process_on_its_own() {
        for text in ["{}", r#"{"cluster": {}}"#, r#"{"task": {"type": "worker", "index": 0}}"#] {
            assert_eq!(Cluster::parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_its_place() {
        for (text, part) in [
            ("x", "JSON"),
            ("[]", "object"),
            (r#"{"cluster": 1}"#, "cluster"),
            (r#"{"cluster": {"ps": 3}}"#, "cluster.ps"),
            (r#"{"cluster": {"ps": {"x": "a:1"}}}"#, "\"x\""),
            (r#"{"cluster": {"ps": [1]}}"#, "address"),
            (r#"{"cluster": {"ps": ["a:1"]}}"#, "no task"),
            (r#"{"cluster": {"ps": ["a:1"]}, "task": {"type": "boss"}}"#, "boss"),
            (r#"{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": -1}}"#, "index"),
            (r#"{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 1}}"#, "ps:1"),
            (r#"{"cluster": {"ps": {"99999": "a:1"}}, "task": {"type": "ps"}}"#, "99999"),
        ] {
            let why = Cluster::parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
