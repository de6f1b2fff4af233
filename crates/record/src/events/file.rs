//! The creation of an event file and its name.
//!
//! TensorBoard finds a run by the names of its files, reads the files of one directory in the order
//! of their names, and never returns to an earlier one. So a new file must sort after all existing
//! ones, even after a restart within the same second or on a host whose clock was set back. No file
//! is ever overwritten: it is the record of a training that may have taken days.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use paceline_observe::unix_seconds;

use crate::names::files::EVENTS_PREFIX;

/// TensorBoard sorts names as text, so the seconds must have ten digits, as they have until 2286.
const MAX_SECONDS: u64 = 9_999_999_999;
/// The most names that are tried. A name is taken only if another writer uses the directory.
const MAX_ATTEMPTS: usize = 100;

/// The next number of a writer of this process.
static NEXT_UID: AtomicU64 = AtomicU64::new(0);

/// Creates a new event file in `dir`, which is created if needed.
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

/// The seconds for a new file's name: now, or one more than those of the newest file.
fn seconds_after(newest: Option<u64>, now: u64) -> u64 {
    let seconds = newest.map_or(now, |newest| now.max(newest + 1));
    if seconds > MAX_SECONDS { now } else { seconds }
}

/// The greatest seconds in the names of the event files of `dir`.
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

/// This host's name, with characters replaced that do not belong into a file name.
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
    fn names_parse_as_they_are_written() {
        assert_eq!(seconds_of("events.out.tfevents.1700000000.host.1.0.v2"), Some(1_700_000_000));
        for other in ["events.out.tfevents.", "events.out.tfevents.17.host", "log.txt", ""] {
            assert_eq!(seconds_of(other), None, "{other}");
        }
    }

    #[test]
    fn every_writer_of_one_directory_gets_a_file_in_order() {
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
