//! A cluster that is none: each host a network namespace on this machine, with an address and a
//! link of its own.
//!
//! The namespaces have no names. Each lives as long as the process that holds it, and that one
//! ends when the launcher does, however it does: its standard input is a pipe from here
//! ([`EmulatedHost`]). Links, bridge and queues go with their namespaces, so nothing is left to be
//! cleaned up. The bridge is in a namespace too: the machine's own network is never touched, and
//! no packet can leave, as none of the namespaces has a way out.
//!
//! All of it is done by the programs that administrators do it with (`unshare`, `nsenter`, `ip`
//! and `tc`), which needs no unsafe code here and can be followed by hand.

mod groups;
mod host;

use std::process::Command;

use self::groups::CpuGroups;
use self::host::EmulatedHost;
use crate::cluster::{Role, Task};
use crate::error::PlaceError;

/// The network that all hosts are in. Only they can be reached there.
const NETWORK: &str = "10.77.0";
/// The port of the first task on a host; a second one has the next.
const PORT: usize = 2222;
/// Capabilities that making and joining networks takes: CAP_NET_ADMIN and CAP_SYS_ADMIN.
const NEEDED: u64 = 1 << 12 | 1 << 21;

/// Hosts to emulate on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmulateSettings {
    /// How many.
    pub hosts: usize,
    /// The rate of each host's link, each way; unlimited if `None`.
    pub link_bits_per_s: Option<u64>,
    /// How long a packet takes to leave its host, in milliseconds.
    pub delay_ms: f64,
    /// Whether servers have hosts of their own.
    pub servers_apart: bool,
    /// Cores' time each host may use; unlimited if `None`.
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
        if !may_make_networks() {
            return Err(PlaceError::Usage(
                "cluster.emulate needs root, as it makes networks; run this command as root, or \
                 leave out cluster.emulate"
                    .into(),
            ));
        }
        let mut held = EmulatedHost::hold_all(settings.hosts + 1)?;
        let switch = held.remove(0);
        switch.ip(&bridge(&held))?;
        for (index, host) in held.iter().enumerate() {
            host.ip(&interface(index))?;
        }
        limit(&settings, &switch, &held)?;
        let groups = settings.cpus.map(|cpus| CpuGroups::make(held.len(), cpus)).transpose()?;
        Ok(Self { settings, servers, hosts: held, groups, _switch: switch })
    }

    /// Which host a task runs on: workers one after another, servers beside them from the first
    /// on, or on the last hosts.
    fn of(&self, task: Task) -> usize {
        place(&self.settings, self.servers, task)
    }

    /// Where a task listens.
    pub(crate) fn address(&self, task: Task) -> String {
        // More tasks than hosts share them, so the port is a function of the task alone.
        let offset = match task.role {
            Role::Ps => 0,
            _ => self.servers,
        };
        format!("{}:{}", address(self.of(task)), PORT + offset + task.index)
    }

    /// A command that runs a program on a task's host.
    pub(crate) fn command(&self, task: Task, program: &std::path::Path) -> Command {
        let host = self.of(task);
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

/// Whether this process has the capabilities; where nobody can tell, the tools will say.
pub fn may_make_networks() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
    effective.is_none_or(|effective| effective & NEEDED == NEEDED)
}

/// The bridge, with a port for every host, whose other end is the host's interface.
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

/// Limits every link both ways: what leaves a host at its interface, what comes to it at its
/// port of the bridge.
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
                    "cluster.emulate.delay_ms: this kernel offers no delay ({failure}); load the \
                     module sch_netem, or leave it out"
                ))
            })?;
        }
    }
    Ok(())
}

/// A token bucket. It holds a millisecond's bytes, so that a sender's bundles of packets pass in
/// one piece, and the queue before it eight: enough to keep the link full, and too little for
/// answers to be late behind it.
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
