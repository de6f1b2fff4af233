//! Which workers are slow.
//!
//! A worker's pace is its mean time to a gradient: from receiving parameters to handing over their
//! gradient. It is compared with the median of the other workers, so that one slow worker does not
//! shift its own standard.

use serde::{Deserialize, Serialize};

/// A worker is behind if its time to a gradient exceeds the median of the others by this factor.
pub const BEHIND: f64 = 1.5;
/// The fewest gradients whose mean time is used.
const FEWEST: u64 = 3;
/// The number of consecutive intervals in which a worker must be behind before it is reported: a
/// machine may be busy with something else for a second.
const CONSECUTIVE: u32 = 2;

/// The smallest delay that is reported, in milliseconds. Shorter ones come from the scheduler,
/// which lets threads that share a core alternate every few milliseconds.
const SHORTEST_MS: f64 = 1.0;

/// A worker's pace compared with the others.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Rank {
    /// Its name.
    pub task: String,
    /// Its mean time to a gradient.
    pub gradient_ms: f64,
    /// That time divided by the median of the others; 1 if there are no others.
    pub behind: f64,
}

/// Ranks workers by their mean time to a gradient in milliseconds, the slowest first.
///
/// ```
/// let times = [("worker:0".into(), 2.0), ("worker:1".into(), 9.0), ("worker:2".into(), 4.0)];
/// let slowest = &paceline_observe::ranking(&times)[0];
/// assert_eq!((slowest.task.as_str(), slowest.behind), ("worker:1", 3.0));
/// ```
pub fn ranking(times_ms: &[(String, f64)]) -> Vec<Rank> {
    let times: Vec<_> = times_ms.iter().map(|(_, time)| *time).collect();
    let rank = |(i, (task, gradient_ms)): (usize, &(String, f64))| Rank {
        task: task.clone(),
        gradient_ms: *gradient_ms,
        behind: behind(&times, i),
    };
    let mut ranks: Vec<_> = times_ms.iter().enumerate().map(rank).collect();
    ranks.sort_by(|a, b| b.gradient_ms.total_cmp(&a.gradient_ms));
    ranks
}

/// One worker's time divided by the median of the others; 1 if the median is 0.
fn behind(times: &[f64], one: usize) -> f64 {
    let median = median_without(times, one);
    if median > 0.0 { times[one] / median } else { 1.0 }
}

/// The median of all times but one; 0 if there are no others.
pub(crate) fn median_without(times: &[f64], one: usize) -> f64 {
    let others = times.iter().enumerate().filter(|(i, _)| *i != one);
    let mut others: Vec<_> = others.map(|(_, time)| *time).collect();
    others.sort_by(f64::total_cmp);
    match others.len() {
        0 => 0.0,
        n => (others[(n - 1) / 2] + others[n / 2]) / 2.0,
    }
}

/// Compares workers while they run, and finds those that fall behind or catch up.
#[derive(Clone, Debug)]
pub struct Pace {
    slots: Vec<SlotPace>,
}

#[derive(Clone, Debug, Default)]
struct SlotPace {
    /// Gradients at the beginning of the current interval.
    gradients: u64,
    /// The milliseconds that all of them took.
    ms: u64,
    /// The mean time of the last interval with enough gradients.
    mean_ms: Option<f64>,
    /// Consecutive intervals in which the worker was behind.
    behind_intervals: u32,
}

/// A worker that fell behind or caught up.
#[derive(Clone, Debug, PartialEq)]
pub struct PaceChange {
    /// Its slot.
    pub slot: usize,
    /// Whether it is behind now.
    pub is_behind: bool,
    /// Its mean time to a gradient in the last interval.
    pub gradient_ms: f64,
    /// That time divided by the median of the others.
    pub behind: f64,
}

impl Pace {
    /// Compares this number of workers.
    pub fn new(workers: usize) -> Self {
        Self { slots: vec![SlotPace::default(); workers] }
    }

    /// Ends an interval and returns what changed. `totals` has, for each slot, its gradients so far
    /// and the milliseconds that all of them took. Intervals of a second or two are sensible.
    pub fn look(&mut self, totals: &[(u64, u64)]) -> Vec<PaceChange> {
        for (slot, &(gradients, ms)) in self.slots.iter_mut().zip(totals) {
            let made = gradients.saturating_sub(slot.gradients);
            if made >= FEWEST {
                slot.mean_ms = Some(ms.saturating_sub(slot.ms) as f64 / made as f64);
                (slot.gradients, slot.ms) = (gradients, ms);
            }
        }
        let times: Option<Vec<_>> = self.slots.iter().map(|slot| slot.mean_ms).collect();
        // Until each worker has a mean time, there is nothing to compare.
        let Some(times) = times.filter(|times| times.len() > 1) else { return Vec::new() };
        let judge = |(i, slot): (usize, &mut SlotPace)| {
            let behind = behind(&times, i);
            let was_behind = slot.behind_intervals >= CONSECUTIVE;
            let is_slow = behind > BEHIND && times[i] * (1.0 - 1.0 / behind) >= SHORTEST_MS;
            slot.behind_intervals =
                if is_slow { slot.behind_intervals.saturating_add(1) } else { 0 };
            let is_behind = slot.behind_intervals >= CONSECUTIVE;
            let change = PaceChange { slot: i, is_behind, gradient_ms: times[i], behind };
            (is_behind != was_behind).then_some(change)
        };
        self.slots.iter_mut().enumerate().filter_map(judge).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_comes_first_and_is_compared_with_the_others() {
        let times = [("a", 2.0), ("b", 9.0), ("c", 4.0)].map(|(task, ms)| (task.to_owned(), ms));
        let ranks = ranking(&times);
        let order: Vec<_> = ranks.iter().map(|rank| rank.task.as_str()).collect();
        assert_eq!(order, ["b", "c", "a"]);
        assert_eq!(ranks[0].behind, 3.0);
        assert_eq!(ranking(&times[..1])[0].behind, 1.0);
        assert_eq!(ranking(&[("a".into(), 0.0), ("b".into(), 0.0)])[0].behind, 1.0);
    }

    /// The changes (interval, slot, whether it is behind) found if each slot takes these
    /// milliseconds to a gradient in each interval.
    fn changes(intervals: &[[u64; 3]]) -> Vec<(usize, usize, bool)> {
        let mut pace = Pace::new(3);
        let mut totals = [(0, 0); 3];
        let mut found = Vec::new();
        for (at, interval) in intervals.iter().enumerate() {
            for (total, ms) in totals.iter_mut().zip(interval) {
                *total = (total.0 + 10, total.1 + 10 * ms);
            }
            let changes = pace.look(&totals);
            found.extend(changes.iter().map(|change| (at, change.slot, change.is_behind)));
        }
        found
    }

    #[test]
    fn a_worker_behind_in_two_consecutive_intervals_is_reported_until_it_catches_up() {
        let (even, slow) = ([10, 10, 10], [10, 16, 10]);
        assert_eq!(changes(&[even, even, even]), []);
        assert_eq!(changes(&[slow, even, slow, even]), [], "one slow interval is not reported");
        let expected = [(1, 1, true), (4, 1, false)];
        assert_eq!(changes(&[slow, slow, slow, slow, even]), expected);
        assert_eq!(changes(&[[10, 15, 10], [10, 15, 10]]), [], "1.5 times is not behind yet");
        let mut short = Pace::new(2);
        for look in 1..9 {
            let found = short.look(&[(10_000 * look, 300 * look), (10_000 * look, 3_000 * look)]);
            assert_eq!(found, [], "0.03 and 0.3 ms are too short to be reported");
        }
    }

    #[test]
    fn a_worker_with_few_gradients_is_compared_once_it_has_enough() {
        let mut pace = Pace::new(2);
        for second in 1..=10 {
            let changes = pace.look(&[(100 * second, 1000 * second), (second / 2, 1000 * second)]);
            let expected: &[_] = if second == 7 { &[(1, true)] } else { &[] };
            let found: Vec<_> = changes.iter().map(|c| (c.slot, c.is_behind)).collect();
            assert_eq!(found, expected, "{second}");
        }
    }
}
