//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock in seconds since 1970, as event files and resource samples have it; 0 if the
/// clock is set to an earlier time.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
