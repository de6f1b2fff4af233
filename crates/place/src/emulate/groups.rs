//! Control groups, of version 2 or 1, that limit the processor time of emulated hosts.
//!
//! A group is a directory that exists until it is removed. Its name contains the launcher's process
//! id, so that a later run can recognise groups that a killed launcher has left. A group with
//! running processes cannot be removed, so removing stale groups is safe.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::PlaceError;

/// The start of every group's name.
const PREFIX: &str = "paceline-";
/// The period over which a limit applies, in microseconds.
const PERIOD_US: f64 = 100_000.0;
/// The smallest limit that the kernel accepts, in microseconds.
const MIN_QUOTA_US: f64 = 1_000.0;
/// A shell script that joins the groups named before `--`, and then becomes the program after it.
const JOIN: &str = r#"while [ "$1" != -- ]; do
    echo $$ >"$1/cgroup.procs" || exit 1
    shift
done
shift
exec "$@""#;

/// A file of a group that cannot be created or written.
struct GroupFileError {
    path: PathBuf,
    error: io::Error,
}

/// One group per host in each hierarchy that limits or accounts for processor time.
pub(super) struct CpuGroups {
    hosts: Vec<Vec<PathBuf>>,
}

/// Where groups are created: version 2 has one hierarchy, version 1 one for each controller.
enum GroupVersion {
    Two(PathBuf),
    One { cpu: PathBuf, account: Option<PathBuf> },
}

impl CpuGroups {
    pub(super) fn create(hosts: usize, cpus: f64) -> Result<Self, PlaceError> {
        let Some(version) = find() else {
            return Err(PlaceError::Usage(
                "cluster.emulate.cpus needs control groups with the controller cpu, and this \
                 system offers none; leave it out"
                    .into(),
            ));
        };
        let mut groups = Self { hosts: Vec::new() };
        for host in 0..hosts {
            let name = format!("{PREFIX}{}-host{host}", std::process::id());
            let made = groups.create_one(&version, &name, cpus);
            made.map_err(|GroupFileError { path, error }| {
                PlaceError::Usage(format!(
                    "cluster.emulate.cpus: cannot create the control group {}: {error}; leave it \
                     out where control groups cannot be changed",
                    path.display()
                ))
            })?;
        }
        Ok(groups)
    }

    fn create_one(
        &mut self,
        version: &GroupVersion,
        name: &str,
        cpus: f64,
    ) -> Result<(), GroupFileError> {
        let quota_us = (cpus * PERIOD_US).max(MIN_QUOTA_US).round();
        self.hosts.push(Vec::new());
        let made = self.hosts.last_mut().unwrap_or_else(|| unreachable!("one was pushed"));
        let mut make = |parent: &Path| {
            remove_stale(parent);
            let path = parent.join(name);
            fs::create_dir(&path).map_err(|error| GroupFileError { path: path.clone(), error })?;
            made.push(path.clone());
            Ok(path)
        };
        let write = |path: &Path, text: String| {
            fs::write(path, text).map_err(|error| GroupFileError { path: path.to_owned(), error })
        };
        match version {
            GroupVersion::Two(root) => {
                write(&root.join("cgroup.subtree_control"), "+cpu".into())?;
                let group = make(root)?;
                write(&group.join("cpu.max"), format!("{quota_us} {PERIOD_US}"))
            }
            GroupVersion::One { cpu, account } => {
                account.as_deref().map(&mut make).transpose()?;
                let group = make(cpu)?;
                write(&group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                write(&group.join("cpu.cfs_quota_us"), quota_us.to_string())
            }
        }
    }

    /// A command that runs a program in a host's group from its start.
    pub(super) fn command(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", JOIN, "sh"]).args(&self.hosts[host]).args(["--", program]);
        command
    }
}

impl Drop for CpuGroups {
    fn drop(&mut self) {
        for path in self.hosts.iter().flatten() {
            let _ = fs::remove_dir(path); // A later run tries again.
        }
    }
}

/// Finds where this system's control groups can be created.
fn find() -> Option<GroupVersion> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        let &[_, place, kind, options, ..] = &words[..] else { return None };
        Some((PathBuf::from(place), kind.to_owned(), options.to_owned()))
    });
    let mounts: Vec<_> = mounts.filter(|(_, kind, _)| kind.starts_with("cgroup")).collect();
    let has = |name: &str, options: &str| options.split(',').any(|option| option == name);
    let two = mounts.iter().find(|(place, kind, _)| {
        let controllers = fs::read_to_string(place.join("cgroup.controllers"));
        kind == "cgroup2"
            && controllers.is_ok_and(|text| text.split_whitespace().any(|c| c == "cpu"))
    });
    if let Some((place, _, _)) = two {
        return Some(GroupVersion::Two(place.clone()));
    }
    let one = |name: &str| {
        mounts.iter().find(|(_, kind, options)| kind == "cgroup" && has(name, options))
    };
    let cpu = one("cpu")?.0.clone();
    let account = one("cpuacct").map(|(place, _, _)| place.clone()).filter(|place| *place != cpu);
    Some(GroupVersion::One { cpu, account })
}

/// Removes groups of launchers that are gone.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once("-host"));
        let is_gone = |(pid, _): (&str, &str)| {
            pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()
        };
        if rest.is_some_and(is_gone) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
