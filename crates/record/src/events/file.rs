//! The name and the creation of an event file.
//!
//! TensorBoard finds a run by its files' names and reads the files of one directory in the
//! order of their names, never going back. So a new file must sort after every file that is
//! there: after a restart within the same second, or on a host whose clock was set back, the
//! time alone would not see to that. And no file may ever be overwritten: it is the record
//! of a training that may have taken days.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use paceline_observe::unix_seconds;

use crate::names::files::EVENTS_PREFIX;

/// TensorBoard sorts names as text, so the seconds must keep their ten digits (until 2286).
const MAX_SECONDS: u64 = 9_999_999_999;
/// Names to try before giving up; only other writers of the same directory take one.
const MAX_ATTEMPTS: usize = 100;

/// Tells apart the writers of one process.
static NEXT_UID: AtomicU64 = AtomicU64::new(0);

/// Creates `dir` if it is not there, and a new event file in it.
pub(super) fn create(dir: &Path) -> io::Result<File> {
    fs::create_dir_all(dir)?;
    let host = host_name();
    for _ in 0..MAX_ATTEMPTS {
        let uid = NEXT_UID.fetch_add(1, Ordering::Relaxed);
        let seconds = seconds_after(newest(dir)?, unix_seconds() as u64);
        let name = format!("{EVENTS_PREFIX}{seconds:010}.{host}.{}.{uid}.v2", std::process::id());
        match File::create_new(dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result,
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "other writers keep taking the file name"))
}

/// The seconds for a new file's name: now, or just after the newest file there.
fn seconds_after(newest: Option<u64>, now: u64) -> u64 {
    let seconds = newest.map_or(now, |newest| now.max(newest + 1));
    if seconds > MAX_SECONDS { now } else { seconds }
}

/// The greatest time in the names of the event files of `dir`.
fn newest(dir: &Path) -> io::Result<Option<u64>> {
    let mut newest = None;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        newest = newest.max(name.to_str().and_then(seconds_of));
    }
    Ok(newest)
}

/// The seconds in an event file's name.
fn seconds_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(EVENTS_PREFIX)?.split('.').next()?;
    digits.parse().ok().filter(|_| digits.len() == 10)
}

/// This host's name, with nothing in it that a file name should not have.
fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_default();
    let fit = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.trim().chars().take(64).map(fit).collect();
    if name.is_empty() { "localhost".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_sorts_after_the_old_ones() {
        assert_eq!(seconds_after(None, 1_700_000_000), 1_700_000_000);
        assert_eq!(seconds_after(Some(1_600_000_000), 1_700_000_000), 1_700_000_000);
        // The same second, and a clock that was set back.
        assert_eq!(seconds_after(Some(1_700_000_000), 1_700_000_000), 1_700_000_001);
        assert_eq!(seconds_after(Some(1_800_000_000), 1_700_000_000), 1_800_000_001);
        // A name that leaves no room after it.
        assert_eq!(seconds_after(Some(MAX_SECONDS), 1_700_000_000), 1_700_000_000);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(seconds_of("events.out.tfevents.1700000000.host.1.0.v2"), Some(1_700_000_000));
        for other in ["events.out.tfevents.", "events.out.tfevents.17.host", "log.txt", ""] {
            assert_eq!(seconds_of(other), None, "{other}");
        }
    }

    #[test]
    fn many_writers_of_one_directory_each_get_a_file_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut names = Vec::new();
        for _ in 0..12 {
            create(dir.path()).unwrap();
            let mut now: Vec<_> =
                fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            now.sort();
            assert_eq!(now[..names.len()], names[..]);
            assert_eq!(now.len(), names.len() + 1);
            names = now;
        }
    }
}
