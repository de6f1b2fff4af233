//! What a task and its machine use, as rows of a table: one row for each stretch of time.
//!
//! The columns are dstat's, which the reports that Paceline follows were hunted down with, and
//! after them the task's own. A row is an array in the order of [`COLUMNS`], so that the file,
//! the means and peaks, and TensorBoard's curves cannot disagree about what there is.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::container::{Container, GroupCpu};
use crate::machine::Machine;
use crate::process;
use crate::wall_clock::unix_seconds;

/// How many columns there are.
pub const WIDTH: usize = 17;

/// The columns, with their units; `docs/formats.md` says what each means.
pub const COLUMNS: [&str; WIDTH] = [
    "cpu_usr_percent",
    "cpu_sys_percent",
    "cpu_idle_percent",
    "cpu_wait_percent",
    "disk_read_bytes_per_s",
    "disk_written_bytes_per_s",
    "net_received_bytes_per_s",
    "net_sent_bytes_per_s",
    "memory_used_bytes",
    "memory_free_bytes",
    "memory_buffers_bytes",
    "memory_cache_bytes",
    "context_switches_per_s",
    "task_cpu_percent",
    "task_memory_bytes",
    "task_received_bytes_per_s",
    "task_sent_bytes_per_s",
];

/// What follows the columns, for each of the other tasks that bytes go to and come from.
const PEER_COLUMNS: [&str; 2] = ["received_bytes_per_s", "sent_bytes_per_s"];
/// Of so many other tasks the bytes are told one by one; those of more only in sum.
const MOST_PEERS: usize = 64;

/// All columns of a task with these peers: [`COLUMNS`] and, for each, what came from it and went
/// to it, such as `ps:0_received_bytes_per_s`.
pub fn columns(peers: &[String]) -> Vec<String> {
    let own = |peer: &String| PEER_COLUMNS.map(|column| format!("{peer}_{column}"));
    let peers = peers.iter().take(MOST_PEERS).flat_map(own);
    COLUMNS.iter().map(|&column| column.to_owned()).chain(peers).collect()
}

/// What a task knows of itself, told by its own threads as they go.
#[derive(Debug, Default)]
pub struct Gauges {
    step: AtomicU64,
    /// What goes to and comes from nobody in particular, and from each peer.
    others: Moved,
    peers: Vec<Moved>,
}

/// Bytes that were sent and received so far.
#[derive(Debug, Default)]
struct Moved {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Moved {
    #[inline]
    fn set(&self, sent_bytes: u64, received_bytes: u64) {
        self.sent.store(sent_bytes, Ordering::Relaxed);
        self.received.store(received_bytes, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }
}

impl Gauges {
    /// Gauges of a task with so many peers.
    pub fn of_peers(peers: usize) -> Self {
        Self { peers: (0..peers).map(|_| Moved::default()).collect(), ..Self::default() }
    }

    /// The task is at this global step.
    #[inline]
    pub fn at_step(&self, step: u64) {
        self.step.store(step, Ordering::Relaxed);
    }

    /// So many bytes have gone to and come from a peer in all; from one that is not known, they
    /// count for the sum alone.
    #[inline]
    pub fn moved(&self, peer: usize, sent_bytes: u64, received_bytes: u64) {
        self.peers.get(peer).unwrap_or(&self.others).set(sent_bytes, received_bytes);
    }

    /// The global step of the task.
    pub fn step(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    /// Bytes sent to and received from each peer so far.
    pub fn by_peer(&self) -> Vec<(u64, u64)> {
        self.peers.iter().map(Moved::get).collect()
    }

    /// Bytes sent and received so far.
    pub fn total(&self) -> (u64, u64) {
        let all = self.peers.iter().chain([&self.others]).map(Moved::get);
        all.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }
}

/// One row: what was used since the row before.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When it was taken, in seconds since 1970.
    pub time_s: f64,
    /// The global step of the task.
    pub step: u64,
    /// A figure for each of the [`columns`].
    pub figures: Vec<f64>,
}

/// Everything that is read at one moment.
struct Reading {
    at: Instant,
    time_s: f64,
    machine: Machine,
    group: Option<GroupCpu>,
    task_cpu_s: f64,
    /// Bytes sent and received: in all, and by peer.
    moved: (u64, u64),
    by_peer: Vec<(u64, u64)>,
}

/// Reads the machine and the process again and again, and tells what happened in between.
pub(crate) struct Meter {
    root: PathBuf,
    container: Container,
    /// How many cores the machine has.
    cores: f64,
    last: Reading,
}

impl Meter {
    pub(crate) fn start(root: &Path, gauges: &Gauges) -> Self {
        let container = Container::find(root);
        let last = read(root, &container, gauges);
        // What the standard library says is rounded to whole cores where there is a limit.
        let here = || thread::available_parallelism().map_or(1, usize::from);
        let cores = if last.machine.cores > 0 { last.machine.cores } else { here() } as f64;
        // A limit above what the machine has limits nothing.
        let container = container.with_cores_below(cores);
        Self { root: root.to_owned(), container, cores, last }
    }

    /// Time since the last reading.
    pub(crate) fn age(&self) -> Duration {
        self.last.at.elapsed()
    }

    /// How many cores' time there is to use.
    pub(crate) fn cores(&self) -> f64 {
        self.container.cores().unwrap_or(self.cores)
    }

    /// What happened since the last reading, and how long that was.
    pub(crate) fn sample(&mut self, gauges: &Gauges) -> (Sample, Duration) {
        let now = read(&self.root, &self.container, gauges);
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
            process::rss_bytes().unwrap_or_default() as f64,
            grown(now.moved.1, before.moved.1),
            grown(now.moved.0, before.moved.0),
        ];
        let peers = now.by_peer.iter().zip(&before.by_peer).take(MOST_PEERS);
        let peers =
            peers.flat_map(|(now, before)| [grown(now.1, before.1), grown(now.0, before.0)]);
        let figures = own.into_iter().chain(peers).collect();
        (Sample { time_s: now.time_s, step: gauges.step(), figures }, passed)
    }

    /// Usr, sys, idle and wait, in percent of what there is to use.
    fn cpu_percent(&self, before: &Reading, seconds: f64) -> [f64; 4] {
        if let (Some(now), Some(before)) = (self.last.group, before.group) {
            let percent = |now: u64, before: u64| {
                now.saturating_sub(before) as f64 / 1e4 / seconds / self.cores()
            };
            let (usr, sys) =
                (percent(now.usr_us, before.usr_us), percent(now.sys_us, before.sys_us));
            // Nobody tells how long a group waited for disks.
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
    // Reading the machine may take a while: what must be of one moment comes first.
    Reading {
        at: Instant::now(),
        time_s: unix_seconds(),
        moved: gauges.total(),
        by_peer: gauges.by_peer(),
        task_cpu_s: process::cpu_seconds().unwrap_or_default(),
        group: container.cpu(),
        machine: Machine::read(root),
    }
}

/// Means and peaks over some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// How many rows there were.
    pub samples: u64,
    /// How many cores' time the task might have used.
    pub cores: f64,
    seconds: f64,
    sums: Vec<f64>,
    peaks: Vec<f64>,
}

impl Usage {
    /// Of nothing yet, in so many columns, by a task that may use so many cores' time.
    pub(crate) fn of_cores(cores: f64, width: usize) -> Self {
        Self { cores, sums: vec![0.0; width], peaks: vec![0.0; width], ..Self::default() }
    }

    /// The same of nothing yet.
    pub(crate) fn begin_again(&mut self) {
        *self = Self::of_cores(self.cores, self.sums.len());
    }

    /// Counts a row that tells of so many seconds.
    pub(crate) fn add(&mut self, figures: &[f64], seconds: f64) {
        self.samples += 1;
        self.seconds += seconds;
        for (column, figure) in figures.iter().enumerate() {
            self.sums[column] += figure * seconds;
            self.peaks[column] = self.peaks[column].max(*figure);
        }
    }

    /// Each column's mean over the time; zero if there is none.
    pub fn means(&self) -> Vec<f64> {
        let mean = |sum: &f64| if self.seconds > 0.0 { sum / self.seconds } else { 0.0 };
        self.sums.iter().map(mean).collect()
    }

    /// Each column's greatest figure.
    pub fn peaks(&self) -> &[f64] {
        &self.peaks
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn means_are_over_time_and_peaks_over_rows() {
        let mut usage = Usage::of_cores(1.0, WIDTH);
        assert_eq!(usage.means(), [0.0; WIDTH]);
        usage.add(&[1.0; WIDTH], 3.0);
        usage.add(&[5.0; WIDTH], 1.0);
        assert_eq!((usage.samples, usage.means()[0], usage.peaks()[0]), (2, 2.0, 5.0));
    }

    #[test]
    fn a_container_is_held_against_its_own_limit() {
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
        // Half of a core all the time is all that there is to have.
        let used_us = |age: Duration| age.as_micros() / 2;
        while meter.age() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        write(
            "sys/fs/cgroup/cpu.stat",
            &format!("user_usec {}\nsystem_usec 0\n", used_us(meter.age())),
        );
        let (Sample { figures, .. }, _) = meter.sample(&gauges);
        assert!((80.0..=100.5).contains(&figures[0]) && figures[2] < 20.0, "{figures:?}");
    }

    #[test]
    fn bytes_of_peers_are_told_as_rates_one_by_one_and_in_sum() {
        let gauges = Gauges::of_peers(2);
        let mut meter = Meter::start("/".as_ref(), &gauges);
        gauges.at_step(7);
        gauges.moved(0, 1000, 3000);
        gauges.moved(1, 10, 30);
        gauges.moved(9, 1, 3);
        let (Sample { figures, step, .. }, passed) = meter.sample(&gauges);
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
