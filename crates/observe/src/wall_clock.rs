//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock in seconds since 1970, as event files and resource samples have it; 0 if the
/// clock is set to an earlier time.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Seconds for people: two digits after the point, three below a tenth of a second, and as many as
/// it takes below a thousandth.
///
/// ```
/// use paceline_observe::short_seconds;
///
/// assert_eq!([12.345, 0.18, 0.0044].map(short_seconds), ["12.35", "0.18", "0.004"]);
/// assert_eq!([0.00019, 0.000_000_1, 0.0].map(short_seconds), ["0.0002", "0.000001", "0.00"]);
/// ```
pub fn short_seconds(seconds: f64) -> String {
    let (seconds, digits) = match seconds {
        none if none <= 0.0 => (none, 2),
        // One digit other than 0. No measured time is shorter than a microsecond.
        few if few < 0.000_95 => (few.max(1e-6), few.max(1e-6).log10().abs().ceil() as usize),
        few if few < 0.1 => (few, 3),
        many => (many, 2),
    };
    format!("{seconds:.digits$}")
}
