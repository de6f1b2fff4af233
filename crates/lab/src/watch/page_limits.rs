//! Limits that the server and the scripts of the page share.

/// Most runs that one page shows side by side.
pub(crate) const MAX_COMPARED_RUNS: usize = 12;
/// A run that has written nothing for this time may have died.
pub(crate) const QUIET_SECONDS: u64 = 15;

/// Rounds the time since a run has written a file, so that a quiet run changes rarely.
pub(crate) fn rounded_quiet_seconds(seconds: u64) -> u64 {
    seconds / QUIET_SECONDS * QUIET_SECONDS
}
