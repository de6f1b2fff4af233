//! An emulated cluster: each host is a network namespace on this machine, with its own address and
//! link.
//!
//! The namespaces have no names. Each exists as long as its holder process, which ends when the
//! launcher ends, for whatever reason: its standard input is a pipe from the launcher
//! ([`EmulatedHost`]). Links, bridge and queues disappear with their namespaces, so there is
//! nothing to clean up. The bridge is in a namespace too: the machine's own network is never
//! changed, and no packet can leave, because no namespace has a route out.
//!
//! The system's own tools (`unshare`, `nsenter`, `ip` and `tc`) do all of this, so it needs no
//! unsafe code and can be repeated in a shell.

mod groups;
mod host;

use std::process::Command;

use self::groups::CpuGroups;
use self::host::EmulatedHost;
use crate::cluster::{Role, Task};
use crate::error::PlaceError;

/// The network of all hosts, isolated from every other.
const NETWORK: &str = "10.77.0";
/// The port of the first task; the other tasks have the following ones.
const PORT: usize = 2222;
/// The capabilities needed to create and enter namespaces: CAP_NET_ADMIN and CAP_SYS_ADMIN.
const NEEDED: u64 = 1 << 12 | 1 << 21;

/// Hosts to emulate on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmulateSettings {
    /// Number of hosts.
    pub hosts: usize,
    /// The bandwidth of each host's link in each direction, in bits per second; unlimited if
    /// `None`.
    pub link_bits_per_s: Option<u64>,
    /// The delay of packets that leave a host, in milliseconds.
    pub delay_ms: f64,
    /// Whether servers have separate hosts.
    pub servers_apart: bool,
    /// The processor time each host may use, in cores; unlimited if `None`.
    pub cpus: Option<f64>,
}

/// The emulated hosts of a run. They disappear when this is dropped, or when the process dies.
pub struct EmulatedHosts {
    settings: EmulateSettings,
    servers: usize,
    hosts: Vec<EmulatedHost>,
    groups: Option<CpuGroups>,
    /// Holds the bridge; it is dropped last.
    _switch: EmulatedHost,
}

impl EmulatedHosts {
    /// Creates the hosts for a run with `servers` servers.
    pub fn create(settings: EmulateSettings, servers: usize) -> Result<Self, PlaceError> {
        if !may_create_networks() {
            return Err(PlaceError::Usage(
                "cluster.emulate needs root, because it creates networks; run this command as \
                 root, or leave out cluster.emulate"
                    .into(),
            ));
        }
        let mut held = EmulatedHost::create_all(settings.hosts + 1)?;
        let switch = held.remove(0);
        switch.ip(&bridge(&held))?;
        for (index, host) in held.iter().enumerate() {
            host.ip(&interface(index))?;
        }
        limit(&settings, &switch, &held)?;
        let groups = settings.cpus.map(|cpus| CpuGroups::create(held.len(), cpus)).transpose()?;
        Ok(Self { settings, servers, hosts: held, groups, _switch: switch })
    }

    /// The host of a task. Workers are on the hosts in order; servers are beside them from the
    /// first host on, or on the last hosts.
    fn host_of(&self, task: Task) -> usize {
        place(&self.settings, self.servers, task)
    }

    /// The address of a task.
    pub(crate) fn address(&self, task: Task) -> String {
        // Tasks may share a host, so each task has its own port.
        let offset = match task.role {
            Role::Ps => 0,
            _ => self.servers,
        };
        format!("{}:{}", address(self.host_of(task)), PORT + offset + task.index)
    }

    /// A command that runs a program on a task's host.
    pub(crate) fn command(&self, task: Task, program: &std::path::Path) -> Command {
        let host = self.host_of(task);
        let mut command = match &self.groups {
            Some(groups) => groups.command(host, "nsenter"),
            None => Command::new("nsenter"),
        };
        command.arg(self.hosts[host].network()).arg("--").arg(program);
        command
    }
}

fn place(plan: &EmulateSettings, servers: usize, task: Task) -> usize {
    let apart = if plan.servers_apart { servers } else { 0 };
    match task.role {
        Role::Ps if plan.servers_apart => plan.hosts - servers + task.index,
        _ => task.index % (plan.hosts - apart),
    }
}

fn address(host: usize) -> String {
    format!("{NETWORK}.{}", host + 1)
}

/// Whether this process may create networks. If the system does not say, the answer is yes, and the
/// tools report an error.
pub fn may_create_networks() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
    effective.is_none_or(|effective| effective & NEEDED == NEEDED)
}

/// Commands that create the bridge, with a port for each host that leads to the host's interface.
fn bridge(hosts: &[EmulatedHost]) -> String {
    let mut lines = String::from("link add bridge type bridge\nlink set bridge up\n");
    for (index, host) in hosts.iter().enumerate() {
        lines.push_str(&format!(
            "link add port{index} type veth peer name eth0 netns {}\n\
             link set port{index} master bridge up\n",
            host.pid()
        ));
    }
    lines
}

fn interface(host: usize) -> String {
    let address = address(host);
    format!("address add {address}/24 dev eth0\nlink set lo up\nlink set eth0 up\n")
}

/// Limits every link in both directions: outgoing packets at the host's interface, incoming ones at
/// its port of the bridge.
fn limit(
    plan: &EmulateSettings,
    switch: &EmulatedHost,
    hosts: &[EmulatedHost],
) -> Result<(), PlaceError> {
    if let Some(rate) = plan.link_bits_per_s {
        let ports = (0..hosts.len()).map(|host| bucket(&format!("port{host}"), rate));
        switch.tc(&ports.collect::<String>())?;
        hosts.iter().try_for_each(|host| host.tc(&bucket("eth0", rate)))?;
    }
    if plan.delay_ms > 0.0 {
        let parent = if plan.link_bits_per_s.is_some() { "parent 1:1" } else { "root" };
        let us = (1e3 * plan.delay_ms).round();
        let line = format!("qdisc add dev eth0 {parent} netem delay {us}us limit 100000\n");
        for host in hosts {
            host.tc(&line).map_err(|failure| {
                PlaceError::Usage(format!(
                    "cluster.emulate.delay_ms: this kernel does not support delays ({failure}); \
                     load the module sch_netem, or leave it out"
                ))
            })?;
        }
    }
    Ok(())
}

/// A token bucket. It holds the bytes of one millisecond, so that a sender's bursts pass at once,
/// and its queue those of eight: enough to keep the link busy, and too little to delay replies.
fn bucket(device: &str, bits_per_s: u64) -> String {
    let burst_bytes = (bits_per_s / 8_000).max(32_000);
    let limit_bytes = burst_bytes + (bits_per_s / 1_000).max(64_000);
    format!(
        "qdisc add dev {device} root handle 1: tbf rate {bits_per_s}bit burst {burst_bytes} limit \
         {limit_bytes}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(hosts: usize, servers_apart: bool, workers: usize, servers: usize) -> Vec<usize> {
        let plan = EmulateSettings {
            hosts,
            link_bits_per_s: None,
            delay_ms: 0.0,
            servers_apart,
            cpus: None,
        };
        let tasks = (0..servers).map(|index| Task { role: Role::Ps, index });
        let tasks = tasks.chain((0..workers).map(|index| Task { role: Role::Worker, index }));
        tasks.map(|task| place(&plan, servers, task)).collect()
    }

    #[test]
    fn servers_are_beside_the_first_workers_or_on_the_last_hosts() {
        assert_eq!(places(3, false, 3, 1), [0, 0, 1, 2]);
        assert_eq!(places(3, false, 3, 2), [0, 1, 0, 1, 2]);
        assert_eq!(places(4, true, 3, 1), [3, 0, 1, 2]);
        assert_eq!(places(4, true, 2, 2), [2, 3, 0, 1]);
        assert_eq!(places(2, false, 4, 1), [0, 0, 1, 0, 1], "hosts are shared");
    }

    #[test]
    fn a_bucket_holds_a_millisecond_and_its_queue_eight() {
        let line = bucket("eth0", 1_000_000_000);
        assert!(line.contains("rate 1000000000bit burst 125000 limit 1125000"), "{line}");
    }
}
