//! Who is slow.
//!
//! A worker's pace is its time to a gradient: from getting parameters to handing over what it
//! made of them, whatever that goes to. It is held against the median of the others', so that
//! one slow worker among many does not move the mark that it is measured by.

use serde::{Deserialize, Serialize};

/// Who takes more than this many times as long as the others is behind.
pub const BEHIND: f64 = 1.5;
/// Gradients that a judgement needs at least.
const FEWEST: u64 = 3;
/// Looks in a row that must find a worker behind, before anybody is told: a machine that is
/// busy with something else for a second says nothing about a worker.
const LOOKS: u32 = 2;

/// Being behind by less is not worth a warning: shorter times are made by the system, which lets
/// threads that share a core take turns of some milliseconds.
const SHORTEST_MS: f64 = 1.0;

/// A worker's place among the others.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Rank {
    /// Its name.
    pub task: String,
    /// Its mean time to a gradient.
    pub gradient_ms: f64,
    /// How many times the median of the others' that is; 1 if there are no others.
    pub behind: f64,
}

/// Workers by their mean time to a gradient, the slowest first.
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

/// How many times the median of the others one's time is; 1 if that says nothing.
fn behind(times: &[f64], one: usize) -> f64 {
    let median = median_without(times, one);
    if median > 0.0 { times[one] / median } else { 1.0 }
}

/// The median of all but one; 0 if there are no others.
pub(crate) fn median_without(times: &[f64], one: usize) -> f64 {
    let others = times.iter().enumerate().filter(|(i, _)| *i != one);
    let mut others: Vec<_> = others.map(|(_, time)| *time).collect();
    others.sort_by(f64::total_cmp);
    match others.len() {
        0 => 0.0,
        n => (others[(n - 1) / 2] + others[n / 2]) / 2.0,
    }
}

/// Looks at workers while they run, and tells when one falls behind or has caught up.
#[derive(Clone, Debug)]
pub struct Pace {
    slots: Vec<Slot>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// Gradients and their milliseconds, at the beginning of the present stretch.
    since: (u64, u64),
    /// The mean of the last stretch that had enough of them.
    mean_ms: Option<f64>,
    /// Looks in a row that found it behind.
    looks: u32,
}

/// A worker that has fallen behind, or caught up.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its slot.
    pub slot: usize,
    /// Whether it is behind now.
    pub is_behind: bool,
    /// Its mean time to a gradient of late.
    pub gradient_ms: f64,
    /// How many times the median of the others' that is.
    pub behind: f64,
}

impl Pace {
    /// For so many workers.
    pub fn new(workers: usize) -> Self {
        Self { slots: vec![Slot::default(); workers] }
    }

    /// Takes what every slot has done so far (gradients, and milliseconds for all of them), and
    /// says what has changed. To be called every second or two.
    pub fn look(&mut self, totals: &[(u64, u64)]) -> Vec<Change> {
        for (slot, &(count, ms)) in self.slots.iter_mut().zip(totals) {
            let made = count.saturating_sub(slot.since.0);
            if made >= FEWEST {
                slot.mean_ms = Some(ms.saturating_sub(slot.since.1) as f64 / made as f64);
                slot.since = (count, ms);
            }
        }
        let times: Option<Vec<_>> = self.slots.iter().map(|slot| slot.mean_ms).collect();
        // Until each has made some, there is nobody to be held against.
        let Some(times) = times.filter(|times| times.len() > 1) else { return Vec::new() };
        let judge = |(i, slot): (usize, &mut Slot)| {
            let behind = behind(&times, i);
            let was_behind = slot.looks >= LOOKS;
            let is_slow = behind > BEHIND && times[i] * (1.0 - 1.0 / behind) >= SHORTEST_MS;
            slot.looks = if is_slow { slot.looks.saturating_add(1) } else { 0 };
            let is_behind = slot.looks >= LOOKS;
            let change = Change { slot: i, is_behind, gradient_ms: times[i], behind };
            (is_behind != was_behind).then_some(change)
        };
        self.slots.iter_mut().enumerate().filter_map(judge).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_comes_first_and_is_held_against_the_others() {
        let times = [("a", 2.0), ("b", 9.0), ("c", 4.0)].map(|(task, ms)| (task.to_owned(), ms));
        let ranks = ranking(&times);
        let order: Vec<_> = ranks.iter().map(|rank| rank.task.as_str()).collect();
        assert_eq!(order, ["b", "c", "a"]);
        assert_eq!(ranks[0].behind, 3.0);
        assert_eq!(ranking(&times[..1])[0].behind, 1.0);
        assert_eq!(ranking(&[("a".into(), 0.0), ("b".into(), 0.0)])[0].behind, 1.0);
    }

    /// Milliseconds that each slot takes for a gradient, look by look; what is told.
    fn told(looks: &[[u64; 3]]) -> Vec<(usize, usize, bool)> {
        let mut pace = Pace::new(3);
        let mut totals = [(0, 0); 3];
        let mut told = Vec::new();
        for (at, look) in looks.iter().enumerate() {
            for (total, ms) in totals.iter_mut().zip(look) {
                *total = (total.0 + 10, total.1 + 10 * ms);
            }
            let changes = pace.look(&totals);
            told.extend(changes.iter().map(|change| (at, change.slot, change.is_behind)));
        }
        told
    }

    #[test]
    fn who_is_behind_twice_in_a_row_is_told_once_and_again_when_it_has_caught_up() {
        let (even, slow) = ([10, 10, 10], [10, 16, 10]);
        assert_eq!(told(&[even, even, even]), []);
        assert_eq!(told(&[slow, even, slow, even]), [], "a hiccup is no news");
        let expected = [(1, 1, true), (4, 1, false)];
        assert_eq!(told(&[slow, slow, slow, slow, even]), expected);
        assert_eq!(told(&[[10, 15, 10], [10, 15, 10]]), [], "1.5 times is not behind yet");
        let mut short = Pace::new(2);
        for look in 1..9 {
            let told = short.look(&[(10_000 * look, 300 * look), (10_000 * look, 3_000 * look)]);
            assert_eq!(told, [], "0.03 and 0.3 ms are not worth a word");
        }
    }

    #[test]
    fn a_worker_with_few_gradients_is_judged_once_it_has_made_enough() {
        let mut pace = Pace::new(2);
        for second in 1..=10 {
            let changes = pace.look(&[(100 * second, 1000 * second), (second / 2, 1000 * second)]);
            let expected: &[_] = if second == 7 { &[(1, true)] } else { &[] };
            let found: Vec<_> = changes.iter().map(|c| (c.slot, c.is_behind)).collect();
            assert_eq!(found, expected, "{second}");
        }
    }
}
