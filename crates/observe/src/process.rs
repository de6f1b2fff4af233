//! What this process has used of the machine: processor time and memory.
//!
//! Linux tells both in `/proc/self`, as text. Elsewhere the answer is `None`: a summary
//! without these two figures is better than a training that does not start.

use std::fs;

/// Clock ticks a second in `/proc`. The kernel scales to this constant (`USER_HZ`) whatever
/// its own tick rate is, and it is 100 on every architecture that Paceline builds for.
const TICKS_PER_SECOND: f64 = 100.0;

/// The processor time of all threads of this process so far, user and system, in seconds
/// (to a hundredth).
pub fn cpu_seconds() -> Option<f64> {
    parse_cpu_seconds(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// The most memory that this process has held at one time (its resident set), in bytes.
pub fn peak_rss_bytes() -> Option<u64> {
    parse_bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// The memory that this process holds now (its resident set), in bytes.
pub fn rss_bytes() -> Option<u64> {
    parse_bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

fn parse_cpu_seconds(stat: &str) -> Option<f64> {
    // The second field is the program's name in brackets, which may itself hold spaces and
    // brackets: so count from the last one. What follows is field 3, the state.
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
    fn a_name_with_brackets_and_spaces_does_not_mislead() {
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
    fn this_process_uses_what_it_uses() {
        let before = cpu_seconds().unwrap();
        let started = std::time::Instant::now();
        while started.elapsed().as_millis() < 60 {
            std::hint::spin_loop();
        }
        assert!(cpu_seconds().unwrap() > before);
        let held = vec![1_u8; 32 << 20];
        assert!(rss_bytes().unwrap() > std::hint::black_box(&held).len() as u64);
        assert!(peak_rss_bytes().unwrap() >= rss_bytes().unwrap());
    }
}
