//! The processor time and memory of this process.
//!
//! Linux has both in `/proc/self`, as text. On other systems they are `None`: a summary without
//! these figures is better than a training that does not start.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// Clock ticks a second in `/proc`. The kernel converts its own tick rate to this constant
/// (`USER_HZ`), which is 100 on every architecture that Paceline supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// The user and system time of all threads of this process so far, in seconds with a resolution of
/// 0.01.
pub fn cpu_seconds() -> Option<f64> {
    parse_cpu_seconds(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// The greatest resident set of this process so far, in bytes.
pub fn peak_rss_bytes() -> Option<u64> {
    parse_bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// The resident set of this process now, in bytes.
pub fn rss_bytes() -> Option<u64> {
    parse_bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// The greatest figure that [`pss_bytes`] has returned.
static PEAK_PSS: AtomicU64 = AtomicU64::new(0);

/// The memory of this process now, in bytes: what it has alone, and its share of what several
/// processes map (the proportional set size). The system walks all pages for it, which takes some
/// milliseconds for each gigabyte.
pub fn pss_bytes() -> Option<u64> {
    let bytes = parse_bytes(&fs::read_to_string("/proc/self/smaps_rollup").ok()?, "Pss:")?;
    PEAK_PSS.fetch_max(bytes, Ordering::Relaxed);
    Some(bytes)
}

/// The greatest of that, now or at any time it was asked for.
pub fn peak_pss_bytes() -> Option<u64> {
    pss_bytes()?;
    Some(PEAK_PSS.load(Ordering::Relaxed))
}

fn parse_cpu_seconds(stat: &str) -> Option<f64> {
    // The second field is the program's name in brackets. It may contain spaces and brackets, so
    // the fields are counted from the last bracket, which field 3 follows.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(14 - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user.checked_add(system)? as f64 / TICKS_PER_SECOND)
}

fn parse_bytes(status: &str, word: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(word))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_may_contain_brackets_and_spaces() {
        let stat = "7 (a) b (c) R 1 7 7 0 -1 4194304 95 0 0 0 250 75 0 0 20 0 1 0 0 0 0";
        assert_eq!(parse_cpu_seconds(stat), Some(3.25));
        for broken in ["", "7 (a) R 1 2", "7 (a) R 1 7 7 0 -1 4 95 0 0 0 x 75"] {
            assert_eq!(parse_cpu_seconds(broken), None, "{broken}");
        }
    }

    #[test]
    fn peak_memory_is_in_bytes() {
        let peak = |status| parse_bytes(status, "VmHWM:");
        assert_eq!(peak("VmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS: 1 kB\n"), Some(2 << 20));
        assert_eq!(peak("VmHWM: 3 MB"), None);
        assert_eq!(peak(""), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_figures_of_this_process_grow_with_its_work() {
        let before = cpu_seconds().unwrap();
        let started = std::time::Instant::now();
        while started.elapsed().as_millis() < 60 {
            std::hint::spin_loop();
        }
        assert!(cpu_seconds().unwrap() > before);
        let held = vec![1_u8; 32 << 20];
        assert!(rss_bytes().unwrap() > std::hint::black_box(&held).len() as u64);
        assert!(peak_rss_bytes().unwrap() >= rss_bytes().unwrap());
        assert!(pss_bytes().unwrap() > std::hint::black_box(&held).len() as u64);
        let with_held = peak_pss_bytes().unwrap();
        drop(held);
        assert!(peak_pss_bytes().unwrap() >= with_held);
    }
}
