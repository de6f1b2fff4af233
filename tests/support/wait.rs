//! Waiting for something visible, with a limit.

use std::thread;
use std::time::{Duration, Instant};

/// After how long a test gives up on a process.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// The pause between two looks at a condition.
const POLL: Duration = Duration::from_millis(5);

/// Waits until a condition holds, for at most [`TIMEOUT`]. Returns whether it holds.
pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// Waits until a condition holds and returns how long that took. Panics after `limit`.
#[track_caller]
pub(crate) fn within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        thread::sleep(POLL);
    }
    start.elapsed()
}
