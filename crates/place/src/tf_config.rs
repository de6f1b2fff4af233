//! `TF_CONFIG`: the cluster and this task's place in it, as TensorFlow describes them.
//!
//! All forms in use are accepted: addresses as lists or as sparse maps, the index as a number or as
//! text, `master` for the chief, an evaluator inside or outside the cluster, and unknown keys.
//! Remarks on how the text was understood, and on inconsistencies, are kept for `paceline explain`.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use serde_json::Value;

use crate::address::{split_address, with_port};
use crate::cluster::{Cluster, Role, Task};
use crate::error::PlaceError;

/// The environment variable.
pub const TF_CONFIG: &str = "TF_CONFIG";
/// The remark on addresses that are a map instead of a list.
const SPARSE_MAP: &str = "is a sparse map, which may not list all tasks";
/// The end of the remark on a part of the cluster that is not understood.
const IGNORED: &str = "is not a known role and is ignored";
/// The names of roles.
const ROLES: &str = "it must be chief, master, worker, ps or evaluator";
/// The port of an address that has none.
const DEFAULT_PORT: u16 = 2222;
/// The largest cluster.
const MAX_TASKS: usize = 1_024;

impl Cluster {
    /// Reads the variable. Returns `None` if it is not set or blank, or describes a single process.
    pub fn from_env() -> Result<Option<Self>, PlaceError> {
        match std::env::var(TF_CONFIG) {
            Ok(text) => Self::from_text(&text),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(error) => Err(PlaceError::Usage(format!("{TF_CONFIG}: {error}"))),
        }
    }

    /// Reads the variable's text. Many managers cannot unset a variable, only empty it: blank text
    /// is as good as none.
    pub(crate) fn from_text(text: &str) -> Result<Option<Self>, PlaceError> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        Self::parse(text).map_err(|why| {
            PlaceError::Usage(format!("{TF_CONFIG}: {why}; `paceline explain` shows what was read"))
        })
    }

    /// Parses the variable's text. Returns `None` if it describes a single process.
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
            // As in TensorFlow's Estimator, no task or an empty configuration is a single process.
            if addresses.is_empty() {
                return Ok(None);
            }
            return Err("there is a cluster but no task; task must name this process's task".into());
        };
        let task = read_task(task)?;
        if addresses.is_empty() && task.role != Role::Evaluator {
            // Every process that a manager starts this way would make a run of its own.
            return match remarks.iter().find(|remark| remark.ends_with(IGNORED)) {
                Some(remark) => Err(format!("{remark}, so that no task is left; {ROLES}")),
                None => Ok(None),
            };
        }
        let mut cluster = Self { task, addresses, remarks };
        cluster.inspect()?;
        Ok(Some(cluster))
    }

    /// The addresses as `TF_CONFIG` lists them.
    pub(crate) fn to_json(&self) -> Value {
        let mut jobs = serde_json::Map::new();
        for (task, address) in &self.addresses {
            let listed = jobs.entry(task.role.name()).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(listed) = listed {
                listed.push(Value::from(address.as_str()));
            }
        }
        Value::Object(jobs)
    }

    /// Whether some tasks may not be listed.
    pub fn has_sparse_map(&self) -> bool {
        self.remarks.iter().any(|remark| remark.ends_with(SPARSE_MAP))
    }

    /// Checks the tasks, and adds remarks on their meaning.
    fn inspect(&mut self) -> Result<(), String> {
        if self.task.role != Role::Evaluator && !self.addresses.contains_key(&self.task) {
            return Err(format!("the task {} is not in the cluster", self.task));
        }
        self.refuse_equal_servers()?;
        let has_chief = self.count(Role::Chief) > 0;
        if self.count(Role::Chief) > 1 {
            return Err("there is more than one chief".into());
        }
        let chief = if has_chief {
            "the chief is listed: it is slot 0, and worker i is slot i + 1"
        } else {
            "no chief is listed: worker:0 is the chief"
        };
        self.remarks.push(chief.into());
        if self.count(Role::Evaluator) > 0 {
            self.remarks
                .push("the evaluator is listed in the cluster; no task waits for it".into());
        }
        Ok(())
    }
}

impl Cluster {
    /// Refuses two servers at one address. Workers that only connect to servers may share one.
    fn refuse_equal_servers(&self) -> Result<(), String> {
        let mut seen: BTreeMap<&str, &Task> = BTreeMap::new();
        for (task, address) in self.addresses.iter().filter(|(task, _)| task.role == Role::Ps) {
            if let Some(other) = seen.insert(address, task) {
                return Err(format!("{other} and {task} have the same address, {address}"));
            }
        }
        Ok(())
    }
}

fn read_job(
    job: &str,
    tasks: &Value,
    addresses: &mut BTreeMap<Task, String>,
    remarks: &mut Vec<String>,
) -> Result<(), String> {
    let Some(role) = Role::parse(job) else {
        remarks.push(format!("cluster.{} {IGNORED}", job.escape_debug()));
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
        let address = listed(address).ok_or_else(|| {
            format!(
                "the address of {task} is {address:?}; it must be a host and a port, such as \
                     node-1:2222"
            )
        })?;
        match addresses.insert(task, address) {
            None => Ok(()),
            Some(_) => Err(format!("{task} is listed twice")),
        }
    };
    match tasks {
        Value::Array(list) => list.iter().enumerate().try_for_each(|(i, at)| add(i, at)),
        Value::Object(map) => {
            remarks.push(format!("cluster.{job} {SPARSE_MAP}"));
            map.iter().try_for_each(|(index, at)| {
                let number = index.trim().parse();
                add(number.map_err(|_| format!("cluster.{job}: {index:?} is not an index"))?, at)
            })
        }
        _ => Err(format!("cluster.{job} is neither a list nor a map of addresses")),
    }
}

/// The address with its port, or TensorFlow's default if it has none; `None` if it is not one.
fn listed(address: &str) -> Option<String> {
    let (host, port) = split_address(address);
    // What follows a host's last colon is meant to be a port, unless the host is an IPv6 address; a
    // host has only letters, digits and some marks.
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_v6 = bare.split('%').next().is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok());
    let has_bad_port = port.is_none() && host.contains(':') && !is_v6;
    let is_host = |c: char| c.is_alphanumeric() || "-._~:[]%".contains(c);
    let is_host = !host.is_empty() && host.chars().all(is_host);
    (is_host && !has_bad_port).then(|| with_port(host, port.unwrap_or(DEFAULT_PORT)))
}

fn read_task(task: &Value) -> Result<Task, String> {
    let name = match &task["type"] {
        Value::String(name) => name.clone(),
        other => return Err(format!("task.type is {other}, not text")),
    };
    let role = Role::parse(&name).ok_or(format!("task.type is {name:?}; {ROLES}"))?;
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
    fn a_cluster_without_any_known_role_is_refused_and_its_text_is_escaped() {
        let text =
            r#"{"cluster": {"workers\u001b\n": ["a:1", "b:1"]}, "task": {"type": "worker"}}"#;
        let error = Cluster::parse(text).unwrap_err();
        assert!(error.starts_with(r"cluster.workers\u{1b}\n is not a known role"), "{error}");
        assert!(error.ends_with("chief, master, worker, ps or evaluator"), "{error}");
        let text = r#"{"cluster": {"worker": ["a\u001b[31m:1"]}, "task": {"type": "worker"}}"#;
        let error = Cluster::parse(text).unwrap_err();
        assert!(error.contains(r#"the address of worker:0 is "a\u{1b}[31m:1""#), "{error}");
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
    fn an_evaluator_may_be_listed_in_the_cluster_or_not() {
        for listed in ["", r#", "evaluator": ["e:1"]"#] {
            let cluster = read(&format!(
                r#"{{"cluster": {{"worker": ["a:1"], "ps": ["c:3"]{listed}}},
                    "task": {{"type": "evaluator", "index": 0}}}}"#
            ));
            assert_eq!((cluster.slots(), cluster.slot()), (1, None));
        }
    }

    #[test]
    fn a_worker_may_know_only_itself_and_the_servers() {
        let cluster = read(
            r#"{"cluster": {"worker": {"2": "w2.svc:2222"}, "ps": ["p0.svc", "p1.svc"]},
                "task": {"type": "worker", "index": 2}}"#,
        );
        assert_eq!((cluster.slot(), cluster.slots()), (Some(2), 3));
        assert_eq!(cluster.servers().unwrap(), ["p0.svc:2222", "p1.svc:2222"]);
    }

    #[test]
    fn addresses_without_a_port_of_ipv6_and_of_workers_that_only_connect_are_accepted() {
        let cluster = read(
            r#"{"cluster": {"worker": ["127.0.0.1:0", "127.0.0.1:0"], "ps": ["::1", "[::1]:5"]},
                "task": {"type": "ps", "index": 1}}"#,
        );
        assert_eq!(cluster.servers().unwrap(), ["[::1]:2222", "[::1]:5"]);
    }

    #[test]
    fn an_empty_configuration_is_a_single_process() {
        for text in ["{}", r#"{"cluster": {}}"#, r#"{"task": {"type": "worker", "index": 0}}"#] {
            assert_eq!(Cluster::parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn invalid_text_is_refused_and_the_error_names_the_key() {
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
            (r#"{"cluster": {"ps": ["a:70000"]}, "task": {"type": "ps"}}"#, "ps:0 is \"a:70000\""),
            (r#"{"cluster": {"ps": ["[::1]:70000"]}, "task": {"type": "ps"}}"#, "[::1]:70000"),
            (r#"{"cluster": {"ps": ["node:22:22"]}, "task": {"type": "ps"}}"#, "node:22:22"),
            (r#"{"cluster": {"ps": ["a:x"]}, "task": {"type": "ps"}}"#, "a host and a port"),
            (r#"{"cluster": {"ps": ["a:"]}, "task": {"type": "ps"}}"#, "a host and a port"),
            (r#"{"cluster": {"ps": [""]}, "task": {"type": "ps"}}"#, "a host and a port"),
            (r#"{"cluster": {"ps": ["http://a:1"]}, "task": {"type": "ps"}}"#, "such as node-1"),
            (r#"{"cluster": {"ps": ["a:1", "a:1"]}, "task": {"type": "ps"}}"#, "ps:0 and ps:1"),
        ] {
            let why = Cluster::parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
