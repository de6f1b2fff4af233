//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock in seconds since 1970, as event files and resource samples have it; 0 if the
/// clock is set to an earlier time.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Seconds for people: two digits after the point, three below a tenth of a second.
///
/// ```
/// use paceline_observe::short_seconds;
///
/// assert_eq!([12.345, 0.18, 0.0044].map(short_seconds), ["12.35", "0.18", "0.004"]);
/// ```
pub fn short_seconds(seconds: f64) -> String {
    let digits = if seconds < 0.1 { 3 } else { 2 };
    format!("{seconds:.digits$}")
}
