//! The counters of the machine: processor, disks, network and memory, as dstat shows them.
//!
//! Linux has them in `/proc`, as text. A counter that cannot be read is 0: a table with a column of
//! zeros is better than a training that does not start. In a container the container's own
//! counters matter instead; the module `container` reads those.

use std::fs;
use std::path::Path;

/// Bytes of a sector in `/proc/diskstats`, regardless of the disk.
const SECTOR_BYTES: u64 = 512;
/// Prefixes of devices that are not disks, or that are made of disks counted already.
const NOT_DISKS: [&str; 6] = ["loop", "ram", "zram", "dm-", "md", "sr"];

/// Counters since the machine started, and its memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Processor time of all cores.
    pub cpu: Cpu,
    /// Bytes read from disks.
    pub disk_read_bytes: u64,
    /// Bytes written to disks.
    pub disk_written_bytes: u64,
    /// Bytes received by network interfaces except loopback.
    pub net_received_bytes: u64,
    /// Bytes sent by network interfaces except loopback.
    pub net_sent_bytes: u64,
    /// The number of cores.
    pub cores: usize,
    /// Context switches.
    pub context_switches: u64,
    /// Memory by use.
    pub memory: MemoryUse,
}

/// Processor time of all cores, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// In user mode.
    pub usr: u64,
    /// In the kernel, including interrupts.
    pub sys: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while waiting for a disk.
    pub wait: u64,
    /// All of these, and the time that other virtual machines took.
    pub all: u64,
}

/// Memory by use, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Held by programs and the kernel.
    pub used: u64,
    /// Unused.
    pub free: u64,
    /// Cached metadata of files, which the kernel frees when needed.
    pub buffers: u64,
    /// Cached files, which the kernel frees when needed.
    pub cache: u64,
}

impl MemoryUse {
    /// The machine's memory.
    pub fn total(&self) -> u64 {
        self.used + self.free + self.buffers + self.cache
    }
}

impl Machine {
    /// Reads all counters. `root` is the directory that holds `proc` and `sys`: `/`, except in
    /// tests.
    pub fn read(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let stat = text("proc/stat");
        let is_disk = |name: &str| {
            !NOT_DISKS.iter().any(|prefix| name.starts_with(prefix))
                && root.join("sys/block").join(name).exists()
        };
        let (disk_read_bytes, disk_written_bytes) = disks(&text("proc/diskstats"), is_disk);
        let (net_received_bytes, net_sent_bytes) = interfaces(&text("proc/net/dev"));
        Self {
            cpu: cpu(&stat).unwrap_or_default(),
            disk_read_bytes,
            disk_written_bytes,
            net_received_bytes,
            net_sent_bytes,
            cores: cores(&stat),
            context_switches: number_after(&stat, "ctxt").unwrap_or_default(),
            memory: memory(&text("proc/meminfo")).unwrap_or_default(),
        }
    }
}

/// The first number of the line that starts with a word.
pub(crate) fn number_after(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn numbers(line: &str) -> Vec<u64> {
    line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect()
}

fn cpu(stat: &str) -> Option<Cpu> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // The time of guests, which comes last, is included in that of users.
    let ticks = numbers(line);
    let &[user, nice, system, idle, wait, irq, softirq, steal, ..] = &ticks[..] else {
        return None;
    };
    let (usr, sys) = (user + nice, system + irq + softirq);
    Some(Cpu { usr, sys, idle, wait, all: usr + sys + idle + wait + steal })
}

fn cores(stat: &str) -> usize {
    let names = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
    names.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())).count()
}

fn disks(diskstats: &str, is_disk: impl Fn(&str) -> bool) -> (u64, u64) {
    let sectors = diskstats.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(2);
        words.next().filter(|name| is_disk(name))?;
        let read = words.nth(2)?.parse::<u64>().ok()?;
        Some((read, words.nth(3)?.parse::<u64>().ok()?))
    });
    let (read, written) = sectors.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
    (read * SECTOR_BYTES, written * SECTOR_BYTES)
}

fn interfaces(dev: &str) -> (u64, u64) {
    let lines = dev.lines().filter_map(|line| line.split_once(':'));
    let others = lines.filter(|(name, _)| name.trim() != "lo").map(|(_, line)| numbers(line));
    others
        .filter(|counts| counts.len() > 8)
        .fold((0, 0), |(received, sent), counts| (received + counts[0], sent + counts[8]))
}

fn memory(meminfo: &str) -> Option<MemoryUse> {
    let bytes = |word| number_after(meminfo, word).map(|kib| kib * 1024);
    let (total, free) = (bytes("MemTotal:")?, bytes("MemFree:")?);
    let buffers = bytes("Buffers:").unwrap_or_default();
    // The kernel can free its reclaimable slabs too.
    let cache = bytes("Cached:").unwrap_or_default() + bytes("SReclaimable:").unwrap_or_default();
    Some(MemoryUse { used: total.saturating_sub(free + buffers + cache), free, buffers, cache })
}

/// The speed of the machine's fastest network link, in millions of bits a second; `None` if no link
/// has a known speed; virtual links have none. `root` is the directory that holds `sys`.
pub fn link_mbit_per_s(root: &Path) -> Option<f64> {
    let links = fs::read_dir(root.join("sys/class/net")).ok()?;
    let speed = |link: fs::DirEntry| -> Option<f64> {
        let text = fs::read_to_string(link.path().join("speed")).ok()?;
        text.trim().parse().ok().filter(|speed| *speed > 0.0)
    };
    links.flatten().filter_map(speed).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_time_includes_interrupts_and_the_sum_includes_stolen_time() {
        let stat = "cpu  100 10 20 500 40 3 4 5 50 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nctxt 77\n";
        let expected = Cpu { usr: 110, sys: 27, idle: 500, wait: 40, all: 682 };
        assert_eq!(cpu(stat), Some(expected));
        assert_eq!((number_after(stat, "ctxt"), cores(stat)), (Some(77), 1));
        assert_eq!(cpu("cpu  1 2 3\n"), None);
        assert_eq!(cpu(""), None);
    }

    #[test]
    fn partitions_and_loops_are_not_counted_beside_their_disks() {
        let text = "   7 0 loop0 9 0 8 0 9 0 8 0 0 0 0\n 254 0 vda 5 1 16 2 7 1 32 2 0 1 1\n \
                    254 1 vda1 5 1 16 2 7 1 32 2 0 1 1\n x\n";
        let (read, written) = disks(text, |name| name == "vda");
        assert_eq!((read, written), (16 * 512, 32 * 512));
    }

    #[test]
    fn loopback_is_not_a_network() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n    \
                    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n  \
                    eth0:5 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n eth1: 10 1 0 0 0 0 0 0 20 1\n";
        assert_eq!(interfaces(text), (15, 27));
    }

    #[test]
    fn the_uses_of_memory_add_up_to_all_of_it() {
        let text = "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 700 kB\nBuffers: 50 kB\n\
                    Cached: 200 kB\nSReclaimable: 50 kB\n";
        let memory = memory(text).unwrap();
        assert_eq!((memory.used, memory.cache), (400 * 1024, 250 * 1024));
        assert_eq!(memory.total(), 1000 * 1024);
    }

    #[test]
    fn a_machine_without_counters_reads_as_zeros() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(Machine::read(empty.path()), Machine::default());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_memory_and_has_worked() {
        let machine = Machine::read("/".as_ref());
        assert!(machine.cpu.usr > 0 && machine.cpu.all >= machine.cpu.usr, "{machine:?}");
        assert!(machine.memory.used > 0 && machine.context_switches > 0, "{machine:?}");
    }

    #[test]
    fn the_fastest_link_counts_and_one_without_a_speed_does_not() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(link_mbit_per_s(root.path()), None);
        for (link, speed) in [("lo", None), ("eth0", Some("1000\n")), ("eth1", Some("-1\n"))] {
            let dir = root.path().join("sys/class/net").join(link);
            fs::create_dir_all(&dir).unwrap();
            if let Some(speed) = speed {
                fs::write(dir.join("speed"), speed).unwrap();
            }
        }
        assert_eq!(link_mbit_per_s(root.path()), Some(1000.0));
    }
}
