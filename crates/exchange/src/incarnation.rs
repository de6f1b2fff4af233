//! Which incarnations are believed.

/// How far an incarnation may be ahead of the time, in microseconds: a year.
const MAX_AHEAD_US: u64 = 365 * 24 * 3_600 * 1_000_000;

/// Whether an incarnation can be that of a process that started before now, or by a clock that is
/// ahead. `latest_us` is the time, or the highest incarnation that is known. A process with a much
/// higher one would keep every later process out of its slot.
pub(crate) fn is_plausible_incarnation(incarnation: u64, latest_us: u64) -> bool {
    incarnation <= latest_us.saturating_add(MAX_AHEAD_US).min(u64::MAX >> 1)
}
