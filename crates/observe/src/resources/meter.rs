//! Reading the counters of the machine and the process.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::columns::MOST_PEERS;
use super::gauges::{ByteTotals, Gauges};
use crate::container::{Container, GroupCpu};
use crate::machine::Machine;
use crate::process;
use crate::wall_clock::unix_seconds;

/// What was used since the sample before.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When it was taken, in seconds since 1970.
    pub time_s: f64,
    /// The global step of the task.
    pub step: u64,
    /// The figures in the order of [`columns`](super::columns()).
    pub figures: Vec<f64>,
}

/// A sample and the time that it is of.
pub(crate) struct TimedSample {
    pub(crate) sample: Sample,
    /// The time since the sample before.
    pub(crate) passed: Duration,
}

/// All counters at one moment.
struct Reading {
    at: Instant,
    time_s: f64,
    machine: Machine,
    group: Option<GroupCpu>,
    task_cpu_s: f64,
    moved: ByteTotals,
    moved_by_peer: Vec<ByteTotals>,
}

/// Reads the counters of the machine and the process, and computes what happened between two
/// readings.
pub(crate) struct Meter {
    root: PathBuf,
    container: Container,
    /// The number of cores of the machine.
    cores: f64,
    last: Reading,
    memory: MemoryMeter,
}

/// The memory of this process. Reading it takes long in a large process, so it is read again only
/// when a hundred times as long has passed.
#[derive(Default)]
struct MemoryMeter {
    bytes: u64,
    next: Option<Instant>,
}

impl MemoryMeter {
    fn bytes(&mut self) -> u64 {
        let now = Instant::now();
        if self.next.is_none_or(|next| now >= next) {
            self.bytes = process::pss_bytes().or_else(process::rss_bytes).unwrap_or_default();
            self.next = Some(now + 100 * now.elapsed());
        }
        self.bytes
    }
}

impl Meter {
    pub(crate) fn start(root: &Path, gauges: &Gauges) -> Self {
        let container = Container::find(root);
        let last = read(root, &container, gauges);
        // The standard library's number is rounded to whole cores where a limit applies.
        let here = || thread::available_parallelism().map_or(1, usize::from);
        let cores = if last.machine.cores > 0 { last.machine.cores } else { here() } as f64;
        // A limit above the machine's cores has no effect.
        let container = container.with_cores_below(cores);
        Self { root: root.to_owned(), container, cores, last, memory: MemoryMeter::default() }
    }

    /// Time since the last reading.
    pub(crate) fn age(&self) -> Duration {
        self.last.at.elapsed()
    }

    /// The number of cores that the task may use.
    pub(crate) fn cores(&self) -> f64 {
        self.container.cores().unwrap_or(self.cores)
    }

    /// Forgets the time since the last reading.
    pub(crate) fn restart(&mut self, gauges: &Gauges) {
        self.last = read(&self.root, &self.container, gauges);
    }

    /// The use since the last reading.
    pub(crate) fn sample(&mut self, gauges: &Gauges) -> TimedSample {
        let now = read(&self.root, &self.container, gauges);
        let task_memory = self.memory.bytes();
        let before = std::mem::replace(&mut self.last, now);
        let now = &self.last;
        let passed = now.at - before.at;
        let seconds = passed.as_secs_f64().max(1e-9);
        let rate = |of: fn(&Machine) -> u64| {
            of(&now.machine).saturating_sub(of(&before.machine)) as f64 / seconds
        };
        let grown = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let [usr, sys, idle, wait] = self.cpu_percent(&before, seconds);
        let memory = &now.machine.memory;
        let memory = self.container.memory(memory.total()).unwrap_or(*memory);
        let own = [
            usr,
            sys,
            idle,
            wait,
            rate(|machine| machine.disk_read_bytes),
            rate(|machine| machine.disk_written_bytes),
            rate(|machine| machine.net_received_bytes),
            rate(|machine| machine.net_sent_bytes),
            memory.used as f64,
            memory.free as f64,
            memory.buffers as f64,
            memory.cache as f64,
            rate(|machine| machine.context_switches),
            100.0 * (now.task_cpu_s - before.task_cpu_s).max(0.0) / seconds,
            task_memory as f64,
            grown(now.moved.received, before.moved.received),
            grown(now.moved.sent, before.moved.sent),
        ];
        let peers = now.moved_by_peer.iter().zip(&before.moved_by_peer).take(MOST_PEERS);
        let peers = peers.flat_map(|(now, before)| {
            [grown(now.received, before.received), grown(now.sent, before.sent)]
        });
        let figures = own.into_iter().chain(peers).collect();
        let sample = Sample { time_s: now.time_s, step: gauges.step(), figures };
        TimedSample { sample, passed }
    }

    /// Usr, sys, idle and wait, in percent of the cores that the task may use.
    fn cpu_percent(&self, before: &Reading, seconds: f64) -> [f64; 4] {
        if let (Some(now), Some(before)) = (self.last.group, before.group) {
            let percent = |now: u64, before: u64| {
                now.saturating_sub(before) as f64 / 1e4 / seconds / self.cores()
            };
            let (usr, sys) =
                (percent(now.usr_us, before.usr_us), percent(now.sys_us, before.sys_us));
            // The system does not count how long a group waited for disks.
            return [usr, sys, (100.0 - usr - sys).max(0.0), 0.0];
        }
        let (now, before) = (&self.last.machine.cpu, &before.machine.cpu);
        let all = now.all.saturating_sub(before.all).max(1) as f64;
        let percent = |now: u64, before: u64| 100.0 * now.saturating_sub(before) as f64 / all;
        [
            percent(now.usr, before.usr),
            percent(now.sys, before.sys),
            percent(now.idle, before.idle),
            percent(now.wait, before.wait),
        ]
    }
}

fn read(root: &Path, container: &Container, gauges: &Gauges) -> Reading {
    // Reading the machine takes a while, so the figures that must be of one moment come first.
    Reading {
        at: Instant::now(),
        time_s: unix_seconds(),
        moved: gauges.total(),
        moved_by_peer: gauges.by_peer(),
        task_cpu_s: process::cpu_seconds().unwrap_or_default(),
        group: container.cpu(),
        machine: Machine::read(root),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::resources::columns::{WIDTH, columns};

    #[test]
    fn a_container_is_measured_by_its_own_limit() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", "0::/\n");
        write("sys/fs/cgroup/cpu.max", "50000 100000\n");
        write("sys/fs/cgroup/cpu.stat", "user_usec 0\nsystem_usec 0\n");
        let gauges = Gauges::default();
        let mut meter = Meter::start(root.path(), &gauges);
        assert_eq!(meter.cores(), 0.5);
        // Half a core all the time is all that the container may use.
        let used_us = |age: Duration| age.as_micros() / 2;
        while meter.age() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        write(
            "sys/fs/cgroup/cpu.stat",
            &format!("user_usec {}\nsystem_usec 0\n", used_us(meter.age())),
        );
        let figures = meter.sample(&gauges).sample.figures;
        assert!((80.0..=100.5).contains(&figures[0]) && figures[2] < 20.0, "{figures:?}");
    }

    #[test]
    fn bytes_of_peers_are_rates_of_each_and_in_sum() {
        let gauges = Gauges::of_peers(2);
        let mut meter = Meter::start("/".as_ref(), &gauges);
        gauges.at_step(7);
        gauges.moved(0, 1000, 3000);
        gauges.moved(1, 10, 30);
        gauges.moved(9, 1, 3);
        let TimedSample { sample: Sample { figures, step, .. }, passed } = meter.sample(&gauges);
        let total = |column: usize| (figures[column] * passed.as_secs_f64()).round();
        assert_eq!((total(WIDTH - 2), total(WIDTH - 1)), (3033.0, 1011.0));
        assert_eq!([0, 1, 2, 3].map(|at| total(WIDTH + at)), [3000.0, 1000.0, 30.0, 10.0]);
        assert_eq!(step, 7);
        let names = columns(&["ps:0".into(), "ps:1".into()]);
        assert_eq!(
            (names.len(), &names[WIDTH + 2][..]),
            (figures.len(), "ps:1_received_bytes_per_s")
        );
    }
}
