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

/// A worker's mean time to a gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientTime {
    /// The worker's name.
    pub task: String,
    /// The time, in milliseconds.
    pub mean_ms: f64,
}

impl GradientTime {
    /// The time of a worker.
    pub fn new(task: impl Into<String>, mean_ms: f64) -> Self {
        Self { task: task.into(), mean_ms }
    }
}

/// Ranks workers by their mean time to a gradient, the slowest first.
///
/// ```
/// use paceline_observe::{GradientTime, ranking};
///
/// let times = [("worker:0", 2.0), ("worker:1", 9.0), ("worker:2", 4.0)];
/// let times = times.map(|(task, ms)| GradientTime::new(task, ms));
/// let slowest = &ranking(times.to_vec())[0];
/// assert_eq!((slowest.task.as_str(), slowest.behind), ("worker:1", 3.0));
/// ```
pub fn ranking(workers: Vec<GradientTime>) -> Vec<Rank> {
    let times: Vec<_> = workers.iter().map(|worker| worker.mean_ms).collect();
    let rank = |(i, worker): (usize, GradientTime)| Rank {
        task: worker.task,
        gradient_ms: worker.mean_ms,
        behind: behind(&times, i),
    };
    let mut ranks: Vec<_> = workers.into_iter().enumerate().map(rank).collect();
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
    begun: SlotGradients,
    /// The mean time of the last interval with enough gradients.
    mean_ms: Option<f64>,
    /// Consecutive intervals in which the worker was behind.
    behind_intervals: u32,
}

/// The gradients of a slot so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotGradients {
    /// How many there are.
    pub count: u64,
    /// The milliseconds that all of them took.
    pub sum_ms: u64,
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

    /// Ends an interval and returns what changed. `totals` has the gradients of each slot.
    /// Intervals of a second or two are sensible.
    pub fn end_interval(&mut self, totals: &[SlotGradients]) -> Vec<PaceChange> {
        for (slot, &now) in self.slots.iter_mut().zip(totals) {
            let made = now.count.saturating_sub(slot.begun.count);
            if made >= FEWEST {
                let took_ms = now.sum_ms.saturating_sub(slot.begun.sum_ms);
                slot.mean_ms = Some(took_ms as f64 / made as f64);
                slot.begun = now;
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
        let ranked = |times: &[(&str, f64)]| {
            ranking(times.iter().map(|&(task, ms)| GradientTime::new(task, ms)).collect())
        };
        let ranks = ranked(&[("a", 2.0), ("b", 9.0), ("c", 4.0)]);
        let order: Vec<_> = ranks.iter().map(|rank| rank.task.as_str()).collect();
        assert_eq!(order, ["b", "c", "a"]);
        assert_eq!(ranks[0].behind, 3.0);
        assert_eq!(ranked(&[("a", 2.0)])[0].behind, 1.0);
        assert_eq!(ranked(&[("a", 0.0), ("b", 0.0)])[0].behind, 1.0);
    }

    fn gradients(count: u64, sum_ms: u64) -> SlotGradients {
        SlotGradients { count, sum_ms }
    }

    /// The changes (interval, slot, whether it is behind) found if each slot takes these
    /// milliseconds to a gradient in each interval.
    fn changes(intervals: &[[u64; 3]]) -> Vec<(usize, usize, bool)> {
        let mut pace = Pace::new(3);
        let mut totals = [SlotGradients::default(); 3];
        let mut found = Vec::new();
        for (at, interval) in intervals.iter().enumerate() {
            for (total, ms) in totals.iter_mut().zip(interval) {
                *total = gradients(total.count + 10, total.sum_ms + 10 * ms);
            }
            let changes = pace.end_interval(&totals);
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
        for interval in 1..9 {
            let count = 10_000 * interval;
            let totals = [gradients(count, 300 * interval), gradients(count, 3_000 * interval)];
            let found = short.end_interval(&totals);
            assert_eq!(found, [], "0.03 and 0.3 ms are too short to be reported");
        }
    }

    #[test]
    fn a_worker_with_few_gradients_is_compared_once_it_has_enough() {
        let mut pace = Pace::new(2);
        for second in 1..=10 {
            let ms = 1000 * second;
            let totals = [gradients(100 * second, ms), gradients(second / 2, ms)];
            let changes = pace.end_interval(&totals);
            let expected: &[_] = if second == 7 { &[(1, true)] } else { &[] };
            let found: Vec<_> = changes.iter().map(|c| (c.slot, c.is_behind)).collect();
            assert_eq!(found, expected, "{second}");
        }
    }
}
