//! Limits that the server and the scripts of the page share.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::Value;

/// Most runs that one page shows side by side.
pub(crate) const MAX_COMPARED_RUNS: usize = 12;
/// A run that has written nothing for this time may have died.
pub(crate) const QUIET_SECONDS: u64 = 15;

/// Samples that a task that still runs can miss.
const MISSED_SAMPLES: u64 = 5;

/// The longest time in which a live run that samples its resources may write nothing, in seconds.
/// None if it does not sample: then it may write nothing for any time.
pub(crate) fn longest_silence(job: &BTreeMap<String, String>) -> Option<u64> {
    let milliseconds = match job.get("observe.sample_ms") {
        Some(text) => text.parse().unwrap_or(0),
        None => 1000,
    };
    (milliseconds > 0).then(|| (MISSED_SAMPLES * milliseconds / 1000).max(QUIET_SECONDS))
}

/// When a run that has not ended properly was last alive, in seconds since 1970; none if it may
/// still be running. `written` is when a task last wrote a file, `is_sampled` whether there are
/// samples.
pub(crate) fn unexpected_end(
    job: &BTreeMap<String, String>,
    written: Option<SystemTime>,
    is_sampled: bool,
) -> Option<u64> {
    let silence = written?.elapsed().unwrap_or_default().as_secs();
    let is_dead = is_sampled && silence >= longest_silence(job)?;
    seconds_since_1970(written?).filter(|_| is_dead)
}

/// A time as the page takes it.
pub(crate) fn seconds_since_1970(time: SystemTime) -> Option<u64> {
    Some(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

/// The kind of the failure that a run has recorded.
pub(crate) fn recorded_failure(text: &str) -> Option<String> {
    let failure: Value = serde_json::from_str(text).ok()?;
    Some(failure["kind"].as_str()?.to_owned())
}

/// Rounds the time since a run has written a file, so that a quiet run changes rarely.
pub(crate) fn rounded_quiet_seconds(seconds: u64) -> u64 {
    seconds / QUIET_SECONDS * QUIET_SECONDS
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_sampled_run_that_misses_its_samples_has_ended_unexpectedly() {
        let ago = |seconds| Some(SystemTime::now() - Duration::from_secs(seconds));
        let job = |ms: &str| BTreeMap::from([("observe.sample_ms".to_owned(), ms.to_owned())]);
        assert!(unexpected_end(&job("1000"), ago(60), true).is_some());
        assert!(unexpected_end(&BTreeMap::new(), ago(60), true).is_some());
        for (ms, seconds, is_sampled) in
            [("1000", 5, true), ("0", 60, true), ("60000", 60, true), ("1000", 60, false)]
        {
            assert_eq!(unexpected_end(&job(ms), ago(seconds), is_sampled), None, "{ms} {seconds}");
        }
    }
}
