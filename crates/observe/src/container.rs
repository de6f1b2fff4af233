//! The limits of a container and what it has used: control groups of version 2, and the processor
//! time of version 1.
//!
//! Inside a container `/proc` describes the whole machine. A task limited to half a core of 64
//! would seem to leave 99 % idle while its limit slows it all the time. So where a limit of
//! processor time or memory applies, the container's own counters are used. Groups are nested, and
//! the tightest limit of a group and its ancestors applies.

use std::fs;
use std::path::{Path, PathBuf};

use crate::machine::{MemoryUse, number_after};

const MOUNT: &str = "sys/fs/cgroup";

/// The control groups whose limits apply to this process.
#[derive(Clone, Debug, Default)]
pub struct Container {
    /// The group with the tightest limit of processor time, and the limit in cores.
    cpu: Option<(PathBuf, f64)>,
    /// Version 1: the directory that counts that group's processor time.
    account: Option<PathBuf>,
    /// The group with the tightest limit of memory, and the limit in bytes.
    memory: Option<(PathBuf, u64)>,
}

/// Processor time of a group so far, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCpu {
    /// In user mode.
    pub usr_us: u64,
    /// In the kernel.
    pub sys_us: u64,
}

impl Container {
    /// Finds the limits of this process. `root` is the directory that holds `proc` and `sys`.
    pub fn find(root: &Path) -> Self {
        let mount = root.join(MOUNT);
        let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        // The line of version 2 has no controllers between its colons.
        let two = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let mut found = Self::default();
        for group in with_ancestors(two) {
            let group = mount.join(group);
            let text = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
            if let Some(cores) = parse_cpu_max(&text("cpu.max"))
                && found.cpu.as_ref().is_none_or(|(_, least)| cores <= *least)
            {
                found.cpu = Some((group.clone(), cores));
            }
            if let Ok(bytes) = text("memory.max").trim().parse()
                && found.memory.as_ref().is_none_or(|(_, least)| bytes <= *least)
            {
                found.memory = Some((group.clone(), bytes));
            }
        }
        found.find_version_1(&mount, &own);
        found
    }

    /// Finds limits of processor time where version 1 has them: each controller has its own tree,
    /// or shares one with others.
    fn find_version_1(&mut self, mount: &Path, own: &str) {
        let tree = |controller: &str| {
            own.lines().find_map(|line| {
                let mut words = line.splitn(3, ':').skip(1);
                let (names, path) = (words.next()?, words.next()?);
                let has_it = names.split(',').any(|name| name == controller);
                has_it.then(|| (mount.join(names), path.trim_start_matches('/')))
            })
        };
        let Some((cpu, path)) = tree("cpu") else { return };
        let account = tree("cpuacct").map(|(account, _)| account);
        for group in with_ancestors(path) {
            let number = |file: &str| {
                let text = fs::read_to_string(cpu.join(&group).join(file)).unwrap_or_default();
                text.trim().parse::<f64>().ok().filter(|number| *number > 0.0)
            };
            let limit = number("cpu.cfs_quota_us").zip(number("cpu.cfs_period_us"));
            if let Some((quota, period)) = limit
                && self.cpu.as_ref().is_none_or(|(_, least)| quota / period <= *least)
            {
                self.cpu = Some((cpu.join(&group), quota / period));
                self.account = account.as_ref().map(|account| account.join(&group));
            }
        }
    }

    /// Drops a limit of processor time that is not below the machine's number of cores.
    #[must_use]
    pub fn with_cores_below(self, machine_cores: f64) -> Self {
        Self { cpu: self.cpu.filter(|(_, cores)| *cores < machine_cores), ..self }
    }

    /// The limit of processor time in cores, if there is one.
    pub fn cores(&self) -> Option<f64> {
        self.cpu.as_ref().map(|(_, cores)| *cores)
    }

    /// The processor time of the group whose limit applies.
    pub fn cpu(&self) -> Option<GroupCpu> {
        let (group, _) = self.cpu.as_ref()?;
        if let Some(account) = &self.account {
            let us = |file: &str| {
                let text = fs::read_to_string(account.join(file)).ok()?;
                Some(text.trim().parse::<u64>().ok()? / 1_000)
            };
            return Some(GroupCpu {
                usr_us: us("cpuacct.usage_user")?,
                sys_us: us("cpuacct.usage_sys")?,
            });
        }
        let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
        Some(GroupCpu {
            usr_us: number_after(&stat, "user_usec")?,
            sys_us: number_after(&stat, "system_usec")?,
        })
    }

    /// The memory of the group whose limit applies, if the limit is below the machine's memory.
    pub fn memory(&self, machine_bytes: u64) -> Option<MemoryUse> {
        let (group, limit) = self.memory.as_ref().filter(|(_, limit)| *limit < machine_bytes)?;
        let current = fs::read_to_string(group.join("memory.current")).ok()?;
        let current = current.trim().parse::<u64>().ok()?;
        let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let cache = number_after(&stat, "file ").unwrap_or_default().min(current);
        Some(MemoryUse {
            used: current - cache,
            free: limit.saturating_sub(current),
            buffers: 0,
            cache,
        })
    }
}

/// A group and its ancestors within the tree, the outermost first.
fn with_ancestors(group: &str) -> Vec<PathBuf> {
    let names = group.split('/').filter(|name| !name.is_empty() && *name != "..");
    let groups = names.scan(PathBuf::new(), |at, name| {
        at.push(name);
        Some(at.clone())
    });
    std::iter::once(PathBuf::new()).chain(groups).collect()
}

/// `quota period` in microseconds, or `max period`.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_process_without_limits_has_none() {
        for files in [
            &[][..],
            &[("proc/self/cgroup", "0::/\n")],
            &[
                ("proc/self/cgroup", "1:cpu:/x\n0::/a/b\n"),
                ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ],
        ] {
            let root = machine(files);
            let found = Container::find(root.path());
            assert_eq!((found.cores(), found.cpu(), found.memory(1 << 40)), (None, None, None));
        }
    }

    #[test]
    fn the_tightest_limit_of_all_ancestors_applies() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/pod/box\n"),
            ("sys/fs/cgroup/pod/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/pod/cpu.stat", "usage_usec 9\nuser_usec 700\nsystem_usec 200\n"),
            ("sys/fs/cgroup/pod/box/cpu.max", "400000 100000\n"),
            ("sys/fs/cgroup/pod/memory.max", "9000\n"),
            ("sys/fs/cgroup/pod/box/memory.max", "1000\n"),
            ("sys/fs/cgroup/pod/box/memory.current", "600\n"),
            ("sys/fs/cgroup/pod/box/memory.stat", "anon 350\nfile 250\nfile_mapped 9\n"),
        ]);
        let found = Container::find(root.path());
        assert_eq!(found.cores(), Some(0.5));
        assert_eq!(found.cpu(), Some(GroupCpu { usr_us: 700, sys_us: 200 }));
        let memory = found.memory(1 << 30).unwrap();
        assert_eq!((memory.used, memory.free, memory.cache), (350, 400, 250));
        assert_eq!(found.memory(500), None, "a limit above what the machine has is none");
    }

    #[test]
    fn version_1_has_limits_and_usage_in_separate_trees() {
        let root = machine(&[
            ("proc/self/cgroup", "4:memory:/x\n2:cpuacct:/a\n1:cpu:/a\n0::/\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpuacct/a/cpuacct.usage_user", "700000\n"),
            ("sys/fs/cgroup/cpuacct/a/cpuacct.usage_sys", "200000\n"),
        ]);
        let found = Container::find(root.path());
        assert_eq!(found.cores(), Some(0.5));
        assert_eq!(found.cpu(), Some(GroupCpu { usr_us: 700, sys_us: 200 }));
    }

    #[test]
    fn a_group_of_a_container_is_found_at_its_root() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
        ]);
        assert_eq!(Container::find(root.path()).cores(), Some(1.5));
        assert_eq!(Container::find(root.path()).cpu(), None, "no cpu.stat");
    }
}
